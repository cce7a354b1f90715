"""OpenAI's Agents SDK for Node: `@openai/agents`."""

import json

import pytest
from support.client_conversations import (
    GREETING,
    PERSON,
    SCHEMA_OF_PERSON,
    TWO_CALLS,
    after_two_calls,
    assistant,
    messages,
    over_websockets,
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import NodeScript, Player
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

SCRIPT = NodeScript("agents.mjs")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


@pytest.mark.parametrize("scenario", ["toolLoop", "toolLoopStateless"])
async def test_two_calls_at_once_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play(scenario, gateway)
    assert seen["text"] == "Sunny."
    calls, results = ["tool_call_item"] * 2, ["tool_call_output_item"] * 2
    assert seen["items"] == ["reasoning_item", *calls, *results, "message_output_item"]
    assert messages(engine.last) == after_two_calls()


async def test_a_streamed_loop_shows_its_items(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play("streamedToolLoop", gateway)
    assert seen["text"] == "Sunny."
    calls, results = ["tool_called"] * 2, ["tool_output"] * 2
    assert seen["names"] == ["reasoning_item_created", *calls, *results, "message_output_created"]
    assert messages(engine.last) == after_two_calls()


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("object", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


@pytest.mark.parametrize("scenario", ["history", "previousResponse", "session"])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play(scenario, gateway) == "Ada."
    assert messages(engine.last) == second_turn()


async def test_a_session_is_compacted(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hello, Ada."), text("The user is called Ada."), text("Ada."))
    assert await client.play("compaction", gateway) == "Ada."
    summarized, continued = engine.requests[1:]
    assert messages(summarized)[:2] == [user("My name is Ada."), assistant("Hello, Ada.")]
    assert "The user is called Ada." in messages(continued)[0]["content"]
    assert messages(continued)[-1] == user("What is my name?")


async def test_the_commands_of_a_shell_are_run(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("shell", '{"commands": ["ls", "pwd"]}'), finish="tool_calls"), text("Done."))
    assert await client.play("shell", gateway) == "Done."
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "shell", "arguments": {"commands": ["ls", "pwd"]}}
    assert [run["stdout"] for run in json.loads(result["content"])] == ["ran ls", "ran pwd"]


async def test_a_patch_is_applied(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    patch = {"type": "create_file", "path": "new.txt", "diff": "+new\n"}
    engine.will(answer(call("apply_patch", json.dumps(patch)), finish="tool_calls"), text("Done."))
    assert await client.play("patch", gateway) == "Done."
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "apply_patch", "arguments": patch}
    assert result["content"] == "create_file new.txt"


async def test_a_handoff_changes_the_agent(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("transfer_to_Spanish", "{}"), finish="tool_calls"), text("Hola."))
    assert await client.play("handoff", gateway) == {"text": "Hola.", "agent": "Spanish"}
    assert messages(engine.last)[0] == system("Speak Spanish.")


async def test_a_loop_runs_over_a_websocket(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*over_websockets(gateway, TWO_CALLS, text("Sunny.")))
    assert await client.play("webSocket", gateway) == "Sunny."
    assert messages(engine.last) == after_two_calls()
