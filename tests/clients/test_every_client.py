"""What holds for every client that can play the scenario. `CLIENTS` has the clients, and what each of them must see."""

import json

import pytest
from support.bad_mcp_server import BadMcpServer
from support.client_conversations import (
    BROKEN,
    CUT_OFF,
    GREETING,
    NO_CALL,
    NO_OBJECT,
    PERSON,
    SCHEMA_OF_PERSON,
    TWO_CALLS,
    WRAPPED_PERSON,
    after_two_calls,
    assistant,
    messages,
    over_websockets,
    renumbered,
    schema_of,
    second_turn,
    system,
    two_calls,
    user,
    written_calls,
)
from support.client_table import CLIENTS, Scenario
from support.clients import Player
from support.codex import arguments
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest


def each(field: str, *, on_weak_engine: bool = False) -> pytest.MarkDecorator:
    """Runs a test once for each scenario that the clients have in this field of the table."""
    chosen = {name: client for name, client in CLIENTS.items() if client.on_weak_engine or not on_weak_engine}
    rows = [(name, scenario) for name, client in chosen.items() for scenario in getattr(client, field)]
    cases = [pytest.param(name, scenario, id=f"{name}-{scenario.name}") for name, scenario in rows]
    return pytest.mark.parametrize(("client", "scenario"), cases, indirect=["client"])


# ---- text ------------------------------------------------------------------------------------------------------------


@each("texts")
async def test_text_arrives_with_the_usage_that_the_client_shows(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


@each("streams")
async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest, scenario: Scenario) -> None:
    assert await client.play(scenario.name, gateway) == scenario.seen


@each("cut_off")
async def test_a_text_that_was_cut_off_is_marked(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(CUT_OFF)
    assert await client.play(scenario.name, gateway) == scenario.seen
    # What is passed through has the name that the client gave it.
    assert 16 in (engine.last.get("max_tokens"), engine.last.get("max_completion_tokens"))


@each("broken")
async def test_an_engine_that_fails_in_its_answer_is_an_error(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(BROKEN)
    assert await client.play(scenario.name, gateway) == scenario.seen


@each("thoughts")
async def test_a_thought_arrives_beside_the_text(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(GREETING)
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert engine.last["reasoning_effort"] == "low"


@each("objects")
async def test_an_object_follows_its_schema(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(PERSON)
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


@each("objects", on_weak_engine=True)
async def test_an_object_follows_its_schema_on_an_engine_that_ignores_it(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(NO_OBJECT, WRAPPED_PERSON)
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert [schema_of(request) for request in engine.requests] == [SCHEMA_OF_PERSON] * 2


# ---- calls -----------------------------------------------------------------------------------------------------------


@each("calls")
async def test_two_calls_at_once_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(two_calls(scenario.tool), text("Sunny."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert messages(engine.last) == after_two_calls(scenario.tool, thought=scenario.thought)


@each("calls", on_weak_engine=True)
async def test_calls_that_a_weak_engine_writes_as_text_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(written_calls(scenario.tool), text("Sunny."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert renumbered(messages(engine.last)) == after_two_calls(scenario.tool, thought=scenario.thought)


@each("forced_calls")
async def test_a_call_is_forced_on_an_engine_that_ignores_the_choice(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(NO_CALL, answer(call(scenario.tool, arguments(**scenario.seen), id="call_1"), finish="stop"))
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert [request["tool_choice"] for request in engine.requests] == ["required"] * 2


@each("repeated_calls")
async def test_calls_that_are_repeated_beside_the_response_that_made_them_count_once(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert messages(engine.last) == after_two_calls()


@each("websocket_calls")
async def test_a_loop_runs_over_a_websocket(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(*over_websockets(gateway, TWO_CALLS, text("Sunny.")))
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert messages(engine.last) == after_two_calls()


@each("shells")
async def test_the_commands_of_a_shell_are_run(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(answer(call("shell", '{"commands": ["ls", "pwd"]}'), finish="tool_calls"), text("Done."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "shell", "arguments": {"commands": ["ls", "pwd"]}}
    assert [run["stdout"] for run in json.loads(result["content"])] == ["ran ls", "ran pwd"]


@each("patches")
async def test_a_patch_is_applied(client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario) -> None:
    patch = {"type": "create_file", "path": "new.txt", "diff": "+new\n"}
    engine.will(answer(call("apply_patch", json.dumps(patch)), finish="tool_calls"), text("Done."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "apply_patch", "arguments": patch}
    assert result["content"] == "create_file new.txt"


# ---- MCP servers that the gateway connects to ------------------------------------------------------------------------

ECHO = answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls")
DENIED = "The user did not approve this call, so it was not made."


@each("hosted_servers")
async def test_a_hosted_server_is_called_if_its_calls_need_no_approval_or_have_it(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(ECHO, text("Done."))
    async with BadMcpServer() as server:
        assert await client.play(scenario.name, gateway, server=f"{server.url}/mcp") == scenario.seen
    assert server.tools.called == ["echo"]
    assert messages(engine.last)[-1]["content"] == '{"a": 1}'


@each("denied_servers")
async def test_a_hosted_server_is_not_called_where_the_call_is_denied(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(ECHO, text("Done."))
    async with BadMcpServer() as server:
        assert await client.play(scenario.name, gateway, server=f"{server.url}/mcp") == scenario.seen
    assert server.tools.called == []
    assert messages(engine.last)[-1]["content"] == DENIED


@each("failing_servers")
async def test_a_hosted_server_without_a_list_is_an_error(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    async with BadMcpServer("list_error") as server:
        assert await client.play(scenario.name, gateway, server=f"{server.url}/mcp") == scenario.seen
    assert engine.requests == []


# ---- turns -----------------------------------------------------------------------------------------------------------


@each("second_turns")
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    assert messages(engine.last) == second_turn(thought=scenario.thought)


@each("compactions")
async def test_a_conversation_is_continued_from_its_compaction(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: Scenario
) -> None:
    engine.will(text("Hello, Ada."), text("The user is called Ada."), text("Ada."))
    assert await client.play(scenario.name, gateway) == scenario.seen
    summarized, continued = engine.requests[1:]
    assert messages(summarized)[:2] == [user("My name is Ada."), assistant("Hello, Ada.")]
    assert "The user is called Ada." in messages(continued)[0]["content"]
    assert messages(continued)[-1] == user("What is my name?")
