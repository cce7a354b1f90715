"""Every output item and every event that Antiphon emits: what the engine wrote, and what the client gets of it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from support.engine import DONE, MockEngine, Refusal, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected

Body = dict[str, Any]
NO_PARAMETERS = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "name": "weather", "parameters": NO_PARAMETERS, "strict": False}
CUSTOM = {"type": "custom", "name": "run"}


@dataclass(frozen=True)
class Case:
    answer: bytes
    # Members of the last item.
    item: Body
    request: Body = field(default_factory=dict)


def a_call(tool: Body, name: str, arguments: str, item: Body) -> Case:
    called = answer(call(name, arguments), finish="tool_calls")
    return Case(called, {"call_id": "call_1", "status": "completed", **item}, {"tools": [tool]})


ITEMS: dict[str, Case] = {
    "message": Case(text("Hello"), {"role": "assistant", "status": "completed"}),
    "reasoning": Case(
        answer(chunk({"reasoning_content": "They greet."})),
        {"summary": [], "content": [{"type": "reasoning_text", "text": "They greet."}]},
    ),
    "function_call": a_call(FUNCTION, "weather", '{"a": 1}', {"name": "weather", "arguments": '{"a": 1}'}),
    "custom_tool_call": a_call(CUSTOM, "run", '{"input": "ls"}', {"name": "run", "input": "ls"}),
    "tool_search_call": a_call(
        {"type": "tool_search", "execution": "client"},
        "tool_search",
        '{"query": "maps"}',
        {"arguments": {"query": "maps"}, "execution": "client"},
    ),
    "local_shell_call": a_call(
        {"type": "local_shell"},
        "local_shell",
        '{"command": ["ls"]}',
        {"action": {"type": "exec", "command": ["ls"], "env": {}}},
    ),
    "shell_call": a_call(
        {"type": "shell"},
        "shell",
        '{"commands": ["ls"]}',
        {"action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": None}},
    ),
    "apply_patch_call": a_call(
        {"type": "apply_patch"},
        "apply_patch",
        '{"type": "delete_file", "path": "a.py"}',
        {"operation": {"type": "delete_file", "path": "a.py"}},
    ),
    "compaction": Case(
        text("The user greets."), {}, {"input": [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]}
    ),
}


@pytest.mark.parametrize("kind", ITEMS)
async def test_what_the_engine_wrote_becomes_an_item(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    case = ITEMS[kind]
    engine.will(case.answer, case.answer)
    whole = (await gateway.create(**case.request))["output"]
    streamed = (await gateway.stream(**case.request))[-1]["response"]["output"]
    for item in (whole[-1], streamed[-1]):
        assert item["type"] == kind
        assert case.item.items() <= item.items()


async def test_what_a_search_of_the_gateway_found_becomes_an_item(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    search = answer(call("tool_search", '{"query": "weather"}'), finish="tool_calls")
    engine.will(search, text("Found."), search, text("Found."))
    request: Body = {"tools": [{"type": "tool_search"}, {**FUNCTION, "defer_loading": True}]}
    whole = (await gateway.create(**request))["output"]
    streamed = (await gateway.stream(**request))[-1]["response"]["output"]
    for searched, found, _ in (whole, streamed):
        assert {"type": "tool_search_call", "call_id": None, "execution": "server"}.items() <= searched.items()
        assert {"type": "tool_search_output", "call_id": None, "execution": "server"}.items() <= found.items()
        assert [tool["name"] for tool in found["tools"]] == ["weather"]


# ---- events ----------------------------------------------------------------------------------------------------------

CALL = answer(call("weather", '{"a": 1}'), finish="tool_calls")
STREAMS: dict[str, tuple[bytes, Body, str]] = {
    "text": (
        text("Hello", " world"),
        {},
        "response.created response.in_progress response.output_item.added response.content_part.added "
        "response.output_text.delta response.output_text.done response.content_part.done response.output_item.done "
        "response.completed",
    ),
    "refusal": (
        answer(chunk({"refusal": "I can"}), chunk({"refusal": "not."})),
        {},
        "response.created response.in_progress response.output_item.added response.content_part.added "
        "response.refusal.delta response.refusal.done response.content_part.done response.output_item.done "
        "response.completed",
    ),
    "thought": (
        answer(chunk({"reasoning_content": "They"}), chunk({"reasoning_content": " greet."})),
        {},
        "response.created response.in_progress response.output_item.added response.content_part.added "
        "response.reasoning_text.delta response.reasoning_text.done response.content_part.done response.output_item.done "
        "response.completed",
    ),
    "summary": (
        answer(chunk({"reasoning_content": "They"}), chunk({"reasoning_content": " greet."})),
        {"reasoning": {"summary": "auto"}},
        "response.created response.in_progress response.output_item.added response.reasoning_summary_part.added "
        "response.reasoning_summary_text.delta response.reasoning_summary_text.done response.reasoning_summary_part.done "
        "response.output_item.done response.completed",
    ),
    "function": (
        CALL,
        {"tools": [FUNCTION]},
        "response.created response.in_progress response.output_item.added response.function_call_arguments.delta "
        "response.function_call_arguments.done response.output_item.done response.completed",
    ),
    "custom": (
        answer(call("run", '{"input": "ls -l"}'), finish="tool_calls"),
        {"tools": [CUSTOM]},
        "response.created response.in_progress response.output_item.added response.custom_tool_call_input.delta "
        "response.custom_tool_call_input.done response.output_item.done response.completed",
    ),
    "shell": (
        answer(call("shell", '{"commands": ["ls"]}'), finish="tool_calls"),
        {"tools": [{"type": "shell"}]},
        "response.created response.in_progress response.output_item.added response.shell_call_command.added "
        "response.shell_call_command.delta response.shell_call_command.done response.output_item.done response.completed",
    ),
    "cut off": (
        text("Hello", finish="length"),
        {},
        "response.created response.in_progress response.output_item.added response.content_part.added "
        "response.output_text.delta response.output_text.done response.content_part.done response.output_item.done "
        "response.incomplete",
    ),
    "failed": (
        chunk({"content": "Hel"}) + b'data: {"error": {"message": "out of memory", "code": 500}}\n\n' + DONE,
        {},
        "response.created response.in_progress response.output_item.added response.content_part.added "
        "response.output_text.delta response.output_text.done response.content_part.done response.output_item.done "
        "response.failed",
    ),
    "background": (
        text("Hello"),
        {"background": True},
        "response.created response.queued response.in_progress response.output_item.added response.content_part.added "
        "response.output_text.delta response.output_text.done response.content_part.done response.output_item.done "
        "response.completed",
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
async def test_a_stream_has_these_events_in_this_order(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    written, request, expected = STREAMS[kind]
    engine.will(written)
    events = await gateway.stream(**request)
    assert list(dict.fromkeys(event["type"] for event in events)) == expected.split()


async def test_a_thought_has_the_names_of_open_responses_where_they_are_set(engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning_content": "They"}), chunk({"reasoning_content": " greet."})))
    async with running_gateway(engine, reasoning_events="reasoning") as gateway:
        types = [event["type"] for event in await gateway.stream()]
    assert {"response.reasoning.delta", "response.reasoning.done"} <= set(types)
    assert "response.reasoning_text.delta" not in types


async def test_an_error_on_a_websocket_is_a_message(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "no such tokenizer"}}))
    async with connected(gateway) as socket:
        error = await socket.refused()
    assert error["status"] == 400
    assert "no such tokenizer" in error["error"]["message"]


async def test_a_running_response_cannot_be_steered(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with connected(gateway) as socket:
        await socket.connection.send_str('{"type": "response.steer", "previous_response_id": "resp_1", "input": "Stop"}')
        error = await socket.event()
    assert (error["type"], error["error"]["param"]) == ("error", "type")
    assert not engine.requests
