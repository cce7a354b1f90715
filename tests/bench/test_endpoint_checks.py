"""What the checks of the three APIs find wrong, and what they do not."""

from typing import Any

import pytest
from conformance.validators import Document
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

from bench.endpoints import chat, messages
from bench.endpoints.checks import findings
from bench.endpoints.judged import Checks, Event, Wrong
from bench.endpoints.responses import CASES, CONTINUED, DOCUMENTS, REQUIRED, calls, check, events_follow, follows, in_order
from bench.endpoints.subjects import Endpoint

STREAM: list[Event] = [
    {"type": "response.created", "sequence_number": 0, "response": {}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0},
    {"type": "response.output_text.delta", "sequence_number": 2, "output_index": 0},
    {"type": "response.output_item.done", "sequence_number": 3, "output_index": 0},
    {"type": "response.completed", "sequence_number": 4, "response": {}},
]


def test_a_stream_in_order_is_right() -> None:
    in_order(STREAM)


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([{**event, "sequence_number": 0} for event in STREAM], "not numbered"),
        (STREAM[:4], "not one terminal event"),
        ([STREAM[0], {**STREAM[2], "sequence_number": 1}, {**STREAM[4], "sequence_number": 2}], "outside of an item"),
        ([*STREAM[:3], {**STREAM[4], "sequence_number": 3}], "has no end"),
    ],
)
def test_a_stream_out_of_order_is_found(events: list[Event], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        in_order(events)


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_what_does_not_follow_the_schemas_is_found(document: Document) -> None:
    with pytest.raises(Wrong):
        follows(document, {"object": "response", "output": []})
    with pytest.raises(Wrong, match="sequence_number"):
        events_follow(document, [{"type": "response.created", "response": {}}])


def test_an_answer_without_the_required_call_is_found() -> None:
    calls({"output": [{"type": "function_call", "name": "get_weather"}]})
    with pytest.raises(Wrong, match="no call"):
        calls({"output": [{"type": "message"}]})


async def test_a_gateway_is_asked_every_question(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """In front of an engine whose model calls nothing: the last request, which requires a call, is an error."""
    found = (await check(Endpoint(gateway.url, "mock"))).found
    assert found.pop(REQUIRED) == ["no call", "no call"]
    # The engine of the tests counts no tokens.
    assert found.pop(CONTINUED) == ["the engine did not see the history"] * len(CASES)
    assert len(found) == 6
    assert {name: wrongs for name, wrongs in found.items() if wrongs[:-1] != [None] * (len(CASES) - 1)} == {}
    assert engine.requests


def test_a_check_that_finds_no_member_where_it_looks_is_a_wrong_answer_and_no_crash() -> None:
    checks = Checks()
    checks.judge("a", lambda answer: answer["content"], {})
    checks.judge("a", lambda: None)
    assert checks.found["a"] == ["what was looked for is not there: KeyError 'content'", None]
    [found] = findings("chat", "litellm", checks)
    assert (found.right, found.asked, found.wrong) == (1, 2, "what was looked for is not there: KeyError 'content'")


# ---- Messages --------------------------------------------------------------------------------------------------------

MESSAGE: Event = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
MESSAGE_STREAM: list[Event] = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": None}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 1},
    },
    {"type": "message_stop"},
]


def test_a_stream_of_a_message_in_order_is_right() -> None:
    messages.events_follow(MESSAGE_STREAM)
    messages.in_order(MESSAGE_STREAM)


@pytest.mark.parametrize(
    ("events", "what"),
    [
        (MESSAGE_STREAM[1:], "it begins with"),
        (MESSAGE_STREAM[:-1], "and ends with"),
        ([MESSAGE_STREAM[0], *MESSAGE_STREAM[3:]], "outside of its block"),
        ([*MESSAGE_STREAM[:4], *MESSAGE_STREAM[5:]], "a block has no end"),
        ([*MESSAGE_STREAM[:2], *MESSAGE_STREAM[1:]], "within another one"),
    ],
)
def test_a_stream_of_a_message_out_of_order_is_found(events: list[Event], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        messages.in_order(events)


def test_an_event_that_anthropic_does_not_have_is_found() -> None:
    with pytest.raises(Wrong, match=r"an event response\.created"):
        messages.events_follow([{"type": "response.created"}])
    with pytest.raises(Wrong, match="index"):
        messages.events_follow([{"type": "content_block_stop"}])
    with pytest.raises(Wrong, match="no stream"):
        messages.events_follow([])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {}),
        (500, {"type": "error"}),
        (400, {"error": {"message": "no"}}),
        (400, {"type": "error", "error": {"type": "x"}}),
    ],
)
def test_what_is_no_error_of_anthropic_is_found(status: int, body: dict[str, Any]) -> None:
    with pytest.raises(Wrong):
        messages.is_error(status, body)


async def test_a_gateway_is_asked_for_messages(gateway: GatewayUnderTest) -> None:
    found = (await messages.check(Endpoint(gateway.url, "mock"))).found
    assert found.pop(messages.REQUIRED)[0] is not None
    # The engine of the tests counts no tokens.
    found.pop(messages.COUNTED)
    assert found.pop(messages.ERRORS) == [None] * len(messages.BROKEN)
    assert len(found) == 4
    assert {name: wrongs for name, wrongs in found.items() if wrongs[:-1] != [None] * (len(messages.CASES) - 1)} == {}


# ---- Chat Completions ------------------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> Event:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


USAGE = chunk(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
CHUNKS = [chunk({"role": "assistant", "content": ""}), chunk({"content": "Hi"}), chunk({}, "stop"), USAGE]


def test_a_stream_of_chunks_in_order_is_right() -> None:
    chat.chunks_follow(CHUNKS)
    chat.in_order(CHUNKS)


@pytest.mark.parametrize(
    ("chunks", "what"),
    [
        (CHUNKS[1:], "the role"),
        ([*CHUNKS[:2], USAGE], "the reason of the end"),
        (CHUNKS[:3], "the last chunk"),
        ([*CHUNKS[:3], {**USAGE, "id": "d"}], "several ids"),
    ],
)
def test_a_stream_of_chunks_out_of_order_is_found(chunks: list[Event], what: str) -> None:
    with pytest.raises(Wrong, match=what):
        chat.in_order(chunks)


def test_a_chunk_without_what_the_sdk_requires_is_found() -> None:
    with pytest.raises(Wrong, match="choices"):
        chat.chunks_follow([{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}])


def test_what_is_no_error_of_openai_is_found() -> None:
    chat.is_error(400, {"error": {"message": "no", "type": "x", "param": None, "code": None}})
    for status, body in ((200, {}), (400, {"error": {"code": 400, "message": "no", "type": "x"}})):
        with pytest.raises(Wrong):
            chat.is_error(status, body)


async def test_a_gateway_is_asked_for_completions(gateway: GatewayUnderTest) -> None:
    found = (await chat.check(Endpoint(gateway.url, "mock"))).found
    assert found.pop(chat.REQUIRED)[0] is not None
    # Plain requests are passed through: what is wrong with them, the engine says.
    assert len(found.pop(chat.ERRORS)) == len(chat.BROKEN)
    assert set(found) == {chat.WHOLE, chat.STREAMS, chat.ORDER, chat.READ_BY_SDK}
    text, _, turns, *_ = found[chat.READ_BY_SDK]
    assert (text, turns) == (None, None)
