"""An answer has as many calls as its request allows. Further calls are left out, and counted in a notice or in the log."""

import itertools
import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest, standing_before
from support.sockets import connected
from support.streams import check_stream, parse
from support.sync_runs import replay

from antiphon.wire.responses import CreateResponse

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
WEATHER = {"type": "function", "name": "get_weather", "parameters": CITY}
MAIL = {"type": "function", "name": "send_mail", "parameters": {"type": "object", "properties": {}}}
NOTE = {"type": "custom", "name": "note"}
SHELL = {"type": "shell"}
TOOLS = [WEATHER, MAIL, NOTE, SHELL]
PARIS, ROME = '{"city": "Paris"}', '{"city": "Rome"}'
THREE = answer(
    call("get_weather", PARIS, id="a"),
    call("get_weather", ROME, id="b", index=1),
    call("send_mail", "{}", id="c", index=2),
    finish="tool_calls",
)
TWO_TOO_MANY = "tool calls of the model were left out: 2 beyond the 1 that may be made, because parallel_tool_calls is false"


def call_ids(response: dict[str, Any]) -> list[str]:
    return [item["call_id"] for item in response["output"] if "call_id" in item]


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.members for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]


async def test_calls_beyond_the_limit_never_become_items(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(THREE, THREE)
    events = await gateway.stream(tools=TOOLS, parallel_tool_calls=False)
    assert events[-1]["type"] == "response.completed"
    assert call_ids(events[-1]["response"]) == ["a"]
    assert "send_mail" not in str([event for event in events if "response" not in event])
    response = await gateway.create(tools=TOOLS, parallel_tool_calls=False)
    assert (response["status"], response["parallel_tool_calls"], call_ids(response)) == ("completed", False, ["a"])


async def test_calls_of_the_client_are_not_limited_by_max_tool_calls(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(THREE)
    response = await gateway.create(tools=TOOLS, max_tool_calls=1)
    assert (response["max_tool_calls"], call_ids(response)) == (1, ["a", "b", "c"])
    assert gateway.notice == ""
    assert engine.last["parallel_tool_calls"] is True


async def test_the_notice_of_a_whole_answer_names_the_calls_that_were_left_out(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(THREE, THREE)
    await gateway.create(tools=TOOLS, parallel_tool_calls=False)
    assert gateway.notice == TWO_TOO_MANY
    await gateway.create(tools=TOOLS)
    assert gateway.notice == ""


async def test_the_log_names_the_calls_that_were_left_out_of_a_stream(
    gateway: GatewayUnderTest, engine: MockEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "antiphon")
    engine.will(THREE, THREE)
    await gateway.stream(tools=TOOLS, parallel_tool_calls=False)
    assert gateway.notice == "", "nothing was known when the headers went out"
    async with connected(gateway) as socket:
        await socket.create(tools=TOOLS, parallel_tool_calls=False)
    assert [line["notices"] for line in lines(caplog) if "notices" in line] == [[TWO_TOO_MANY]] * 2


async def test_tools_of_every_kind_count(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(
        answer(
            call("shell", '{"commands": ["ls"]}', id="a"),
            call("note", '{"input": "x"}', id="b", index=1),
            call("get_weather", PARIS, id="c", index=2),
        )
    )
    response = await gateway.create(tools=TOOLS, parallel_tool_calls=False)
    assert [item["type"] for item in response["output"]] == ["shell_call"]


async def test_calls_in_the_text_count_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    written = [f'<tool_call>{{"name": "get_weather", "arguments": {city}}}</tool_call>' for city in (PARIS, ROME)]
    engine.will(text("Let me see.", *written, "That is all."))
    response = await gateway.create(tools=TOOLS, parallel_tool_calls=False)
    assert [item["type"] for item in response["output"]] == ["message", "function_call", "message"]
    assert response["output"][1]["arguments"] == PARIS
    assert "left out: 1 beyond the 1" in gateway.notice


async def test_the_rest_of_the_answer_is_kept(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    said = [chunk({"content": words}) for words in ("First.", "And", " last.")]
    engine.will(answer(said[0], call("get_weather", PARIS), said[1], call("send_mail", "{}", id="b", index=1), said[2]))
    events = await gateway.stream(tools=TOOLS, parallel_tool_calls=False)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert output[2]["content"][0]["text"] == "And last."


async def test_a_call_that_was_not_allowed_is_counted_in_the_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(chunk({"content": "Hm."}), call("get_weather", PARIS)))
    await gateway.create(tools=TOOLS, tool_choice="none")
    assert "left out: 1 beyond the 0" in gateway.notice


async def test_a_limit_below_one_is_rejected(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"input": "Hi", "max_tool_calls": 0})
    assert status == 400
    assert body["error"]["param"] == "max_tool_calls"


# ---- required calls, and calls that are asked for again --------------------------------------------------------------


async def test_a_required_call_is_made_and_the_limit_applies() -> None:
    async with standing_before("vllm", THREE) as (gateway, engine):
        response = await gateway.create(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
        assert call_ids(response) == ["a"]
        assert len(engine.requests) == 1


async def test_a_call_that_is_asked_for_again_keeps_its_place(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    tools = [{**WEATHER, "strict": True}, MAIL]
    wrong = answer(call("get_weather", '{"town": "Paris"}', id="bad"), call("send_mail", "{}", id="other", index=1))
    again = answer(call("get_weather", PARIS, id="good"), call("send_mail", "{}", id="more", index=1))
    engine.will(wrong, again)
    events = await gateway.stream(tools=tools, parallel_tool_calls=False)
    assert call_ids(events[-1]["response"]) == ["good"]


async def test_a_call_that_is_left_out_is_not_asked_for_again(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    strict = {**WEATHER, "strict": True}
    engine.will(answer(call("send_mail", "{}", id="a"), call("get_weather", '{"town": "Paris"}', id="b", index=1)))
    response = await gateway.create(tools=[MAIL, strict], parallel_tool_calls=False)
    assert call_ids(response) == ["a"]
    assert len(engine.requests) == 1


async def test_text_before_a_call_that_was_left_out_is_the_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    format = {"type": "json_schema", "name": "n", "schema": CITY}
    said = [chunk({"content": '{"city": "Par'}), chunk({"content": 'is"}'})]
    engine.will(answer(call("send_mail", "{}", id="a"), said[0], call("send_mail", "{}", id="b", index=1), said[1]))
    response = await gateway.create(tools=TOOLS, text={"format": format}, parallel_tool_calls=False)
    assert response["output"][1]["content"][0]["text"] == PARIS
    assert len(engine.requests) == 1


# ---- any number of calls, in any pieces ------------------------------------------------------------------------------


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, int]:
    """An answer with so many calls, some of them after words, or in them."""
    chunks: list[bytes] = []
    made = draw(st.integers(0, 5))
    for number in range(made):
        arguments = msgspec.json.encode({"n": number}).decode()
        if draw(st.booleans()):
            chunks.append(chunk({"content": f"word{number} "}))
        if draw(st.booleans()):
            written = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
            cut = draw(st.integers(0, len(written)))
            chunks += [chunk({"content": piece}) for piece in (written[:cut], written[cut:]) if piece]
        else:
            chunks.append(call("f", arguments, id=f"call_{number}", index=number))
    return answer(*chunks), made


@given(answers(), st.booleans(), st.lists(st.integers(0, 4000), max_size=20))
def test_the_first_calls_are_emitted_however_they_are_split(
    answered: tuple[bytes, int], parallel: bool, cuts: list[int]
) -> None:
    raw, made = answered
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    request = CreateResponse(input="Hi", tools=[{"type": "function", "name": "f"}], parallel_tool_calls=parallel)
    events = parse(replay(pieces, request))
    response = check_stream(events)
    arguments = [msgspec.json.decode(item["arguments"]) for item in response["output"] if item["type"] == "function_call"]
    allowed = made if parallel else min(made, 1)
    assert arguments == [{"n": number} for number in range(allowed)]
    assert response["status"] == "completed"
    said = "".join(item["content"][0]["text"] for item in response["output"] if item["type"] == "message")
    assert said.split() == [f"word{number}" for number in range(made) if f"word{number} " in raw.decode()]
