"""OpenAI's Agents SDK for Node: `@openai/agents`."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support import bad_mcp_server
from support.client_conversations import messages, system
from support.clients import Player
from support.engine import MockEngine, answer, call, text
from support.file_stores import FileStores, searching_files
from support.gateway import GatewayUnderTest, running_gateway
from support.kernels import ScriptedKernels, interpreting, prints

from antiphon.settings.tables import McpServerSettings, McpSettings

CLIENT = "agents_node"
SERVER = McpServerSettings(command=sys.executable, args=(bad_mcp_server.__file__,))


async def test_a_handoff_changes_the_agent(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("transfer_to_Spanish", "{}"), finish="tool_calls"), text("Hola."))
    assert await client.play("handoff", gateway) == {"text": "Hola.", "agent": "Spanish"}
    assert messages(engine.last)[0] == system("Speak Spanish.")


@pytest.mark.parametrize("scenario", ["toolSearch", "toolSearchStreamed"])
async def test_tools_that_a_search_has_found_are_called(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(
        answer(call("tool_search", '{"query": "open orders"}', id="a"), finish="tool_calls"),
        answer(call("crm__list_orders", '{"customer": "Ada"}', id="b"), finish="tool_calls"),
        answer(call("tool_search", '{"query": "time"}', id="c"), finish="tool_calls"),
        answer(call("time", '{"city": "Rome"}', id="d"), finish="tool_calls"),
        text("Two, at noon."),
    )
    seen = await client.play(scenario, gateway)
    found = ["tool_search_call_item", "tool_search_output_item", "tool_call_item", "tool_call_output_item"]
    assert seen == {"text": "Two, at noon.", "items": [*found, *found, "message_output_item"]}
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["tool_search", "crm__list_orders", "time"]
    assert [each["content"] for each in messages(engine.last) if each["role"] == "tool"] == [
        "These tools can be called now: crm__list_orders.",
        "two orders of Ada",
        "These tools can be called now: time.",
        "noon in Rome",
    ]
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]


CITED = {"type": "file_citation", "index": 10, "file_id": "file-rome", "filename": "rome.pdf"}


@pytest.mark.parametrize("scenario", ["fileSearch", "fileSearchWithResults", "fileSearchStreamed"])
async def test_files_are_searched_and_cited(client: Player, engine: MockEngine, scenario: str) -> None:
    searched = answer(call("file_search", '{"queries": ["capital of Italy"]}'), finish="tool_calls")
    engine.will(searched, text("It is Rome [1]."), text("You are welcome."))
    async with searching_files(engine, FileStores()) as gateway:
        seen = await client.play(scenario, gateway)
    assert seen["texts"] == ["It is Rome.", "You are welcome."]
    assert seen["items"] == ["file_search_call", "message"]
    assert seen["annotations"] == [CITED]
    roles = [message["role"] for message in messages(engine.last)]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


@pytest_asyncio.fixture
async def hosting(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, mcp=McpSettings(servers={"bad": SERVER})) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        ("hostedServer", '{"a": 1}'),
        ("hostedServerStreamed", '{"a": 1}'),
        ("hostedServerApproved", '{"a": 1}'),
        ("hostedServerApprovedStreamed", '{"a": 1}'),
        ("hostedServerRefused", "Not today."),
    ],
)
async def test_a_hosted_server_is_used(
    client: Player, hosting: GatewayUnderTest, engine: MockEngine, scenario: str, told: str
) -> None:
    engine.will(answer(call("bad__echo", '{"a": 1}', id="a"), finish="tool_calls"), text("Done."))
    seen = await client.play(scenario, hosting)
    assert seen["text"] == "Done."
    assert told in messages(engine.last)[-1]["content"]


@pytest.mark.parametrize("scenario", ["codeInterpreter", "codeInterpreterStreamed"])
async def test_code_is_run_and_the_next_run_finds_its_container(
    client: Player, engine: MockEngine, tmp_path: Path, scenario: str
) -> None:
    kernels = ScriptedKernels({"plot()": prints("42", plot__csv="42")})
    coded, linked = answer(call("python", '{"code": "plot()"}'), finish="tool_calls"), "See [it](sandbox:/mnt/data/plot.csv)."
    engine.will(coded, text(linked), coded, text("Again."))
    async with interpreting(engine, kernels, tmp_path) as gateway:
        seen = await client.play(scenario, gateway)
    assert seen["texts"] == [linked, "Again."]
    assert seen["items"] == ["code_interpreter_call", "message_output_item"]
    assert [kernel.runs for kernel in kernels.started] == [["plot()", "plot()"]]
    # What the model read then, also the link that the item does not have.
    link = "[plot.csv](sandbox:/mnt/data/plot.csv)"
    shown = f"42\n\nFiles that were written. Link one in your answer like this: {link}\n- plot.csv"
    assert [each["content"] for each in messages(engine.requests[2]) if each["role"] == "tool"] == [shown]
