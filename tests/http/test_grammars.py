"""A custom call that breaks its grammar is asked for again, once, before the client sees it."""

import asyncio
from typing import Any

import msgspec
from support.engine import DONE, MockEngine, Writer, answer, call, chunk
from support.gateway import GatewayUnderTest, running_gateway

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


async def test_a_grammar_that_cannot_be_read_is_named_in_the_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(adds("anything"))
    broken = {**TOOL, "format": {"type": "grammar", "syntax": "lark", "definition": "start: ("}}
    assert inputs(await gateway.stream(tools=[broken])) == ["anything"]
    assert "grammar of tool add cannot be read" in gateway.notice


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
