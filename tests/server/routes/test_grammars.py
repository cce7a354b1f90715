"""A custom call that breaks its grammar is asked for again, once, before the client sees it."""

import asyncio
from typing import Any

import msgspec
import pytest
from support.engine import DONE, MockEngine, Writer, answer, call, chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import record

from antiphon.app.parts import Extensions
from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.gateway.runs.checker import Checker

FAR = 4_000_000_000
TOOL = {
    "type": "custom",
    "name": "add",
    "format": {"type": "grammar", "syntax": "regex", "definition": r"\d+ \+ \d+"},
}


def adds(text: str, call_id: str = "call_1") -> bytes:
    return answer(call("add", msgspec.json.encode({"input": text}).decode(), id=call_id), finish="tool_calls")


def inputs(events: list[dict[str, Any]]) -> list[str]:
    return [item["input"] for item in events[-1]["response"]["output"] if item["type"] == "custom_tool_call"]


async def test_a_good_call_is_passed_on(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(adds("1 + 2"))
    assert inputs(await gateway.stream(tools=[TOOL])) == ["1 + 2"]
    assert len(engine.requests) == 1
    assert r"\d+ \+ \d+" in engine.last["tools"][0]["function"]["description"]


async def test_a_bad_call_is_asked_for_again_with_the_error(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = answer(chunk({"content": "Let me add."}), call("add", '{"input": "one plus two"}', id="bad"), finish="tool_calls")
    engine.will(first, adds("1 + 2", "good"))
    events = await gateway.stream(tools=[TOOL])
    assert inputs(events) == ["1 + 2"]
    assert "one plus two" not in str(events)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "custom_tool_call"]
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]
    assert "does not match the pattern" in engine.last["messages"][-1]["content"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 34


async def test_a_call_that_stays_bad_is_passed_on_as_it_is(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(adds("one"), adds("two"))
    assert inputs(await gateway.stream(tools=[TOOL])) == ["two"]
    assert len(engine.requests) == 2


async def test_a_bad_call_at_the_very_end_is_not_lost(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(call("add", '{"input": "on') + DONE)
    assert inputs(await gateway.stream(tools=[TOOL])) == ["on"]
    assert len(engine.requests) == 1


async def test_an_answer_that_is_not_streamed_is_checked_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(adds("one"), adds("1 + 2"))
    response = await gateway.create(tools=[TOOL])
    assert [item["input"] for item in response["output"]] == ["1 + 2"]


async def test_without_checking_the_input_is_streamed_as_it_comes(engine: MockEngine) -> None:
    engine.will(adds("one plus two"))
    async with running_gateway(engine, check_grammars=False) as gateway:
        events = await gateway.stream(tools=[TOOL])
    assert inputs(events) == ["one plus two"]
    assert len([event for event in events if event["type"] == "response.custom_tool_call_input.delta"]) == 2


def with_grammar(syntax: str, definition: str | None) -> dict[str, Any]:
    return {**TOOL, "format": {"type": "grammar", "syntax": syntax, "definition": definition}}


async def test_a_grammar_that_is_not_understood_here_is_named_in_the_notice(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(adds("anything"))
    assert inputs(await gateway.stream(tools=[with_grammar("lark", 'start: "a"{1,3}')])) == ["anything"]
    assert "grammar of tool add cannot be read" in gateway.notice


@pytest.mark.parametrize(
    ("syntax", "definition", "code"),
    [
        ("lark", "start: (", "invalid_grammar"),
        ("regex", "[a", "invalid_grammar"),
        ("lark", "", "invalid_grammar"),
        ("regex", "", "invalid_grammar"),
        ("lark", " \n", "invalid_grammar"),
        ("lark", None, "missing_required_parameter"),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"background": True}])
async def test_what_is_no_grammar_is_a_400_that_names_the_field(
    gateway: GatewayUnderTest, engine: MockEngine, syntax: str, definition: str | None, code: str, fields: dict[str, Any]
) -> None:
    tools = [{"type": "function", "name": "f"}, with_grammar(syntax, definition)]
    # The second time, it is known.
    for _ in range(2):
        status, body = await gateway.post({"input": "Hi", "tools": tools, **fields})
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert (body["error"]["param"], body["error"]["code"]) == ("tools[1].format.definition", code)
    assert engine.requests == []


async def test_the_place_of_a_malformed_grammar_is_named_wherever_it_is(gateway: GatewayUnderTest) -> None:
    inner = [with_grammar("lark", "start: (")]
    namespace = {"type": "namespace", "name": "n", "description": "d", "tools": inner}
    _, body = await gateway.post({"input": "Hi", "tools": [namespace]})
    assert body["error"]["param"] == "tools[0].tools[0].format.definition"
    item = {"type": "additional_tools", "role": "developer", "tools": inner}
    _, body = await gateway.post({"input": [item, {"role": "user", "content": "Hi"}]})
    assert body["error"]["param"] == "input[0].tools[0].format.definition"


async def test_a_stored_tool_with_such_a_grammar_does_not_block_its_history(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    """An older version took it."""
    for number, definition in enumerate(["start: (", ""]):
        item = {
            "id": f"at_{number}",
            "type": "additional_tools",
            "role": "developer",
            "tools": [with_grammar("lark", definition)],
        }
        await gateway.gateway.store.put(
            record(f"resp_{number}", "", expires_at=FAR, input=msgspec.json.encode([item]), output=b"[]")
        )
        engine.will(adds("anything"))
        response = await gateway.create("Go on", previous_response_id=f"resp_{number}")
        assert [item["input"] for item in response["output"]] == ["anything"]


async def test_a_grammar_that_takes_too_long_is_taken_without_a_check(engine: MockEngine) -> None:
    engine.will(adds("anything"))

    class NeverDone(Checker):
        async def run(self, work: CheckWork, owner: str = "", *, patient: bool = False) -> CheckOutcome:
            return CheckOutcome(unfinished=True)

    async with running_gateway(engine, extensions=Extensions(checker=NeverDone(deadline=1))) as gateway:
        assert inputs(await gateway.stream(tools=[with_grammar("lark", "start: (")])) == ["anything"]
    assert "it takes too long to compile" in gateway.notice


async def test_a_body_that_does_not_end_does_not_disturb_the_next_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async def lingering(write: Writer) -> None:
        await write(adds("one"))
        await asyncio.Event().wait()

    async def later(write: Writer) -> None:
        # The connection of the first answer has been closed by now.
        await engine.cancelled.wait()
        await write(adds("1 + 2"))

    engine.will(lingering, later)
    assert inputs(await gateway.stream(tools=[TOOL])) == ["1 + 2"]


async def test_calls_around_a_checked_one_keep_their_order(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    function = {"type": "function", "name": "f"}
    both = answer(call("add", '{"input": "1 + 2"}', id="a"), call("f", "{}", id="b", index=1), finish="tool_calls")
    engine.will(both)
    events = await gateway.stream(tools=[TOOL, function])
    assert [item["call_id"] for item in events[-1]["response"]["output"]] == ["a", "b"]


async def test_an_engine_that_fails_when_it_is_asked_again_fails_the_response(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(adds("one"), b"")
    events = await gateway.stream(tools=[TOOL])
    assert events[-1]["type"] == "response.failed"
