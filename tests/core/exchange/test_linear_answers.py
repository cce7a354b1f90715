"""The work for an answer grows with its length, whatever is in it and however it is split. Operations are counted."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from support.engine import DONE, chunk
from support.exchanges import make_environment
from support.operations import CopiedText, assert_linear, count_calls, count_copied

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.deltas import TextDelta
from antiphon.core.events.plain_deltas import MOST_PIECES, PlainDelta
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Check
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.stream.chat_stream import ChatStream
from antiphon.core.stream.reasoning_tags import Start
from antiphon.core.stream.text_calls import ConstrainedCall, TextCalls
from antiphon.core.stream.text_calls.blocks import FAILED
from antiphon.core.stream.text_calls.nearly_json import Repairs
from antiphon.core.stream.text_calls.search import MOST_WASTED
from antiphon.core.stream.think_tags import ThinkTags
from antiphon.partial_json import Brackets, StringMember
from antiphon.wire.responses import CreateResponse, FunctionCall

Body = dict[str, Any]

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}
STRICT = FUNCTION | {"strict": True}
CUSTOM = {"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.*/s"}}


def receive_all(chunks: Iterable[bytes], **fields: Any) -> Callable[[], object]:
    """The work for an answer. Its checks pass, and take no time."""
    chunks = [*chunks, chunk(finish="stop"), DONE]

    def work() -> None:
        exchange = Exchange(CreateResponse(model="m", input="Hi", **fields), [EngineKnowledge(PLAIN)], make_environment())
        while isinstance(exchange.step, Check):
            exchange.checked(CheckOutcome())
        exchange.start()
        for each in chunks:
            exchange.receive(each)
        exchange.finish()
        while isinstance(step := exchange.step, Check):
            exchange.checked(CheckOutcome(step.work.text if hasattr(step.work, "text") else step.work.arguments))  # type: ignore[union-attr]
        exchange.end()
        assert exchange.error is None
        assert exchange.response.output

    return work


def piece(index: int, arguments: str, **members: Any) -> bytes:
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}, **members}]})


def opening(index: int, arguments: str = "", id: str = "") -> bytes:
    function = {"name": "f", "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": id or f"call_{index}", "type": "function", "function": function}]})


def texts(*pieces: str) -> list[bytes]:
    return [chunk({"content": each}) for each in pieces]


def long_arguments(size: int, between: str = "x") -> list[bytes]:
    return [opening(0, '{"input": "'), *[piece(0, between)] * size, piece(0, '"}')]


def interleaved(size: int) -> list[bytes]:
    begun = [opening(0, '{"a": "'), opening(1, '{"a": "')]
    return [*begun, *[piece(at % 2, "x") for at in range(size)], piece(0, '"}'), piece(1, '"}')]


TEXT_CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>\n'

ANSWERS: dict[str, tuple[Callable[[int], list[bytes]], Body]] = {
    "calls": (lambda size: [opening(at, "{}") for at in range(size)], {"tools": [FUNCTION]}),
    "calls with one index": (lambda size: [opening(0, "{}", f"c{at}") for at in range(size)], {"tools": [FUNCTION]}),
    "calls with one id": (lambda size: [opening(at, "{}", "c") for at in range(size)], {"tools": [FUNCTION]}),
    "calls that are checked": (lambda size: [opening(at, "{}") for at in range(size)], {"tools": [STRICT]}),
    "arguments": (long_arguments, {"tools": [FUNCTION]}),
    "arguments that are checked": (long_arguments, {"tools": [STRICT]}),
    "input that is checked": (long_arguments, {"tools": [CUSTOM]}),
    "input that is checked, and full of brackets": (lambda size: long_arguments(size, "}"), {"tools": [CUSTOM]}),
    "arguments of two calls in turn": (interleaved, {"tools": [FUNCTION]}),
    "words and thoughts in turn": (
        lambda size: [chunk({"content": "a"}) if at % 2 else chunk({"reasoning_content": "b"}) for at in range(size)],
        {},
    ),
    "text": (lambda size: texts(*["abc "] * size), {}),
    "text with angle brackets": (lambda size: texts(*["a < b </"] * size), {"tools": [FUNCTION]}),
    "text with backticks": (lambda size: texts(*["`a` ```\n"] * size), {"tools": [FUNCTION]}),
    "text with brackets": (lambda size: texts(*["\n{ [ "] * size), {"tools": [FUNCTION]}),
    "text with nothing but opening brackets": (lambda size: texts(*["<<[[", "{{{{"] * size), {"tools": [FUNCTION]}),
    "markers and nothing between them": (lambda size: texts(*["<tool_call>", "\n[TOOL_CALLS]"] * size), {"tools": [FUNCTION]}),
    "opened thoughts in text": (lambda size: texts("a", *["<think>"] * size), {"tools": [FUNCTION]}),
    "white space": (lambda size: texts("a", *["    ", "\n\n\n\n"] * size), {"tools": [FUNCTION]}),
    "a long call in the text": (
        lambda size: texts('<tool_call>{"name": "f", "arguments": {"a": "', *["abcd"] * size, '"}}</tool_call>'),
        {"tools": [FUNCTION]},
    ),
    "text with closing tags that are quoted": (lambda size: texts(*["`</think>` "] * size), {}),
    "a thought in tags": (lambda size: texts("<think>", *["a <"] * size, "</think>b"), {}),
    "calls in the text": (lambda size: texts(*[TEXT_CALL] * size), {"tools": [FUNCTION]}),
    "calls in one piece of text": (lambda size: texts(TEXT_CALL * size), {"tools": [FUNCTION]}),
    "calls in the text, some of them quoted": (
        lambda size: texts(*[TEXT_CALL, f"`{TEXT_CALL}`"] * size),
        {"tools": [FUNCTION]},
    ),
}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("make", "fields"), ANSWERS.values(), ids=ANSWERS)
def test_the_work_for_an_answer_grows_with_its_length(make: Callable[[int], list[bytes]], fields: Body, streams: bool) -> None:
    assert_linear(lambda size: receive_all(make(size), stream=streams, **fields), 250, count_calls)


# ---- texts in which a call may begin everywhere ------------------------------------------------------------------------

# What is repeated, and how many calls of functions each of its characters may take: next to none where a regular expression
# skips it, and few where every repetition is looked at.
OPENINGS = {
    "<": 0.05,
    "{": 0.05,
    "[": 0.05,
    "`": 0.05,
    " ": 0.05,
    "\n": 0.05,
    "\n ": 0.05,
    "\n<": 0.05,
    "<think>": 0.05,
    "a < b, {c} and [d]\n": 0.05,
    "<|channel|>": 0.05,
    "`a` ": 5,
    "```\n": 5,
    "```json\n{": 5,
    "\n{": 5,
    "\n[": 5,
    "\n[f(": 5,
    "\nAction: f": 5,
    "<tool_call>": 5,
    '<tool_call>{"name": ': 5,
    "<tool_call>f(a=[": 5,
    "[TOOL_CALLS][{": 5,
    "\nfunctools[": 5,
    '<tool_call>{[`<|channel|><function=f>\n[TOOL_CALLS]"': 5,
}


@pytest.mark.parametrize("size", [200_000, 4_000])
@pytest.mark.parametrize(("repeated", "most"), OPENINGS.items())
def test_what_looks_like_the_beginning_of_a_call_everywhere_takes_few_operations(repeated: str, most: float, size: int) -> None:
    text = repeated * (200_000 // len(repeated))
    pieces = [text[at : at + size] for at in range(0, len(text), size)]

    def work() -> None:
        finder = TextCalls(["f"])
        deltas = [delta for each in pieces for delta in finder.receive(each)] + finder.close()
        assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == text

    assert count_calls(work) <= most * len(text)


@pytest.mark.parametrize("failed", ["\n{", "\n[f(", "<tool_call>f(a=[", '<tool_call>{"name": "g"}'])
def test_what_is_not_a_call_is_looked_at_only_so_often_in_one_answer(failed: str) -> None:
    def read(times: int) -> int:
        return count_calls(lambda: TextCalls(["f"]).receive(failed * times))

    # What is made once, such as a pattern, is not counted.
    read(2)
    enough = MOST_WASTED // FAILED
    # What follows is not searched any more.
    assert read(3 * enough) - read(enough) < enough


@pytest.mark.parametrize("piece", ["[],", "{", '{"a": 1}, ', '"a{", '])
def test_the_brackets_of_a_value_are_counted_many_at_once(piece: str) -> None:
    text = "[" + piece * 20_000
    assert count_calls(lambda: Brackets().receive(text)) < 50


# ---- copies ------------------------------------------------------------------------------------------------------------


def feed(make: Callable[[], Any], *pieces: str) -> Callable[[], None]:
    def work() -> None:
        reader = make()
        for each in pieces:
            reader.receive(CopiedText(each))
        reader.close()

    return work


READERS: dict[str, tuple[Callable[[], Any], Callable[[int], list[str]]]] = {
    "words where JSON should be": (lambda: ThinkTags(Start.NEVER), lambda size: ["word "] * size),
    "white space after JSON in a fence": (
        lambda: ThinkTags(Start.NEVER),
        lambda size: ["```json\n{}", *["    "] * size],
    ),
    "white space before JSON": (lambda: ThinkTags(Start.NEVER), lambda size: ["    "] * size),
    "text that waits for the end of a thought": (lambda: ThinkTags(Start.PATIENT), lambda size: ["a < b"] * size),
    "white space before a call": (lambda: TextCalls(["f"]), lambda size: ["    "] * size),
    "text with backticks": (lambda: TextCalls(["f"]), lambda size: ["a `b` "] * size),
    "other arguments of a custom tool": (StringMember, lambda size: ['{"other": "', *["abcd"] * size]),
    "white space in the arguments of a custom tool": (StringMember, lambda size: ["    "] * size),
    "a path in the input of a custom tool": (StringMember, lambda size: ['{"input": "C:\\users', *["abcd"] * size]),
    "half of a character in the input": (StringMember, lambda size: ['{"input": "\\ud83d\\users', *["abcd"] * size]),
    "words in place of a call": (lambda: ConstrainedCall(["f"]), lambda size: ["word "] * size),
}


@pytest.mark.parametrize(("make", "pieces"), READERS.values(), ids=READERS)
def test_what_is_buffered_is_not_copied_for_every_piece(make: Callable[[], Any], pieces: Callable[[int], list[str]]) -> None:
    assert_linear(lambda size: feed(make, *pieces(size)), 2000, count_copied)


# ---- repairs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ['{"a": "say "hi" "', "{'a': [", "{{{{", '{"a": "\\"x", ', "[1, {a: "])
def test_a_repair_reads_no_more_than_it_may(broken: str) -> None:
    """However long the text is, and however many of them an answer has."""
    repairs = Repairs()
    texts = [broken * times for times in (10, 100, 1000, 3000)]
    calls = count_calls(lambda: [repairs.repaired(f"{text}{at}") for text in texts for at in range(5)])
    assert calls < 2_000_000


FIRST_PIECES: dict[str, tuple[list[bytes], bytes]] = {
    "text": ([], chunk({"content": " so"})),
    "text of any letters": ([], chunk({"content": "é\n"})),
    "reasoning": ([], chunk({"reasoning_content": " so"})),
    "a thought in tags": ([chunk({"content": "<think>"})], chunk({"content": " so"})),
    "arguments": ([opening(0, '{"input": "')], piece(0, " so")),
    "arguments with escapes": ([opening(0, '{"input": "')], piece(0, ' \\"so\\"')),
}


@pytest.mark.parametrize("kind", FIRST_PIECES)
def test_the_hundred_thousandth_delta_costs_what_the_tenth_does(kind: str) -> None:
    first, delta = FIRST_PIECES[kind]
    # With tools, line ends are read the long way: a call may begin after them.
    tools = [FUNCTION] if kind.startswith("arguments") else []
    request = CreateResponse(model="m", input="Hi", stream=True, tools=tools)
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment())
    events = exchange.start()

    def receive(count: int) -> None:
        for _ in range(count):
            events[:] = exchange.receive(delta)

    for each in first:
        exchange.receive(each)
    receive(10)
    early = count_calls(lambda: receive(1000))
    receive(98_000)
    late = count_calls(lambda: receive(1000))
    # Pieces of text are joined now and then.
    assert late <= early + 10
    assert isinstance(events[0], PlainDelta)


def test_pieces_that_are_joined_now_and_then_are_copied_once() -> None:
    """They are the pieces of the answer all the same."""
    pieces = [f"word {number}, " for number in range(1000)]
    exchange = Exchange(CreateResponse(model="m", input="Hi", stream=True), [EngineKnowledge(PLAIN)], make_environment())
    exchange.start()
    for number, piece in enumerate(pieces):
        exchange.receive(chunk({"content": piece}))
        if number % 10 == 0:
            exchange.join_pieces()
    path = exchange._open.answers.sequence.fast_path
    assert path is not None
    # One for each time, the first one, and those that came since.
    assert len(path.pieces) <= 100 + 1 + 10
    exchange.receive(chunk(finish="stop") + DONE)
    exchange.finish()
    exchange.end()
    assert exchange.response.output_text == "".join(pieces)


@pytest.mark.parametrize("member", ["content", "reasoning_content"])
def test_the_pieces_of_a_long_text_are_joined_as_they_come(member: str) -> None:
    """Each takes far more memory than its text."""
    pieces = [f"word {number}, " for number in range(10 * MOST_PIECES)]
    exchange = Exchange(CreateResponse(model="m", input="Hi", stream=True), [EngineKnowledge(PLAIN)], make_environment())
    exchange.start()
    for each in pieces:
        exchange.receive(chunk({member: each}))
    path = exchange._open.answers.sequence.fast_path
    assert path is not None
    assert len(path.pieces) < 2 * MOST_PIECES
    stream = exchange.answer._stream
    assert isinstance(stream, ChatStream)
    tags = stream._reader.tags
    assert isinstance(tags, ThinkTags)
    assert len(tags._thought) < 2 * MOST_PIECES
    assert "".join(path.pieces) == "".join(pieces)


def test_the_pieces_of_a_call_are_not_joined() -> None:
    """What looks for its end counts them."""
    exchange = Exchange(CreateResponse(model="m", input="Hi", tools=[FUNCTION]), [EngineKnowledge(PLAIN)], make_environment())
    exchange.start()
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": "'}}
    exchange.receive(chunk({"tool_calls": [head]}))
    for piece in [*"1234", '"}']:
        exchange.receive(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}))
        exchange.join_pieces()
    exchange.receive(chunk(finish="tool_calls") + DONE)
    exchange.finish()
    exchange.end()
    item = exchange.response.output[0]
    assert isinstance(item, FunctionCall)
    assert item.arguments == '{"a": "1234"}'


def test_deltas_that_come_together_are_not_decoded_one_by_one() -> None:
    exchange = Exchange(CreateResponse(model="m", input="Hi", stream=True), [EngineKnowledge(PLAIN)], make_environment())
    exchange.start()
    exchange.receive(chunk({"role": "assistant", "content": "Hello"}) + chunk({"content": " there"}))
    deltas = [chunk({"content": f" {number}"}) for number in range(100)]
    burst = b"".join(deltas)

    def receive(*pieces: bytes) -> None:
        for piece in pieces:
            assert all(isinstance(event, PlainDelta) for event in exchange.receive(piece))

    assert count_calls(lambda: receive(burst)) <= count_calls(lambda: receive(*deltas))
