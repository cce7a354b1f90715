"""The short cut: a read that is the last one with another text means what the long way would have made of it."""

import itertools
from collections.abc import Iterator
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.engine import DONE, chunk
from support.exchanges import make_environment
from support.streams import parse
from support.sync_runs import replay

from antiphon.core.events.deltas import CallDelta, Delta, EngineFailed, Finished, ReasoningDelta, TextDelta, ThoughtEnded
from antiphon.core.events.plain_deltas import PlainDelta
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.stream.chat_chunks import ChunkReader
from antiphon.core.stream.chat_stream import ChatStream
from antiphon.core.stream.reasoning_tags import Start
from antiphon.core.stream.text_calls import ConstrainedCall
from antiphon.wire.responses import CreateResponse, ReasoningOptions


def in_utf8(frame: bytes) -> bytes:
    """The same frame, with no more escapes than it needs."""
    return b"data: " + msgspec.json.encode(msgspec.json.decode(frame.removeprefix(b"data: "))) + b"\n\n"


SHAPES = {
    "text": lambda text: chunk({"content": text}),
    "text in UTF-8": lambda text: in_utf8(chunk({"content": text})),
    "reasoning_content": lambda text: chunk({"reasoning_content": text}),
    "reasoning": lambda text: chunk({"reasoning": text}),
    "arguments": lambda text: chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
    "arguments of another call": lambda text: chunk({"tool_calls": [{"index": 1, "function": {"arguments": text}}]}),
    "a call": lambda text: chunk({"tool_calls": [{"index": 0, "id": text, "function": {"name": "f", "arguments": "{"}}]}),
    "both": lambda text: chunk({"content": text, "reasoning": text}),
    "an annotated text": lambda text: chunk({"content": text, "annotations": [{"type": "url_citation", "url": "u"}]}),
    "a cited text": lambda text: chunk({"content": text, "annotations": [{"type": "url_citation", "url": text}]}),
}
texts = st.one_of(
    st.text(min_size=1, max_size=6),
    st.sampled_from(["a", " b", "<think>", "</think>", "<", "index", "content", '"', "\\", "\n", "é", "0"]),
)
pieces_of = st.lists(st.tuples(st.sampled_from(list(SHAPES)), texts), max_size=20)


def frames(pieces: list[tuple[str, str]]) -> list[bytes]:
    return [*(SHAPES[shape](text) for shape, text in pieces), chunk(finish="stop"), DONE]


def the_long_way(reads: list[bytes]) -> bytes:
    """All of them in one read, with the line ends that no template is made of."""
    return b"".join(reads).replace(b"\n", b"\r\n")


@given(pieces_of)
def test_it_gives_the_same_events_as_the_long_way(pieces: list[tuple[str, str]]) -> None:
    reads = frames(pieces)
    assert replay(reads) == replay([the_long_way(reads)])


@given(pieces_of, st.data())
def test_frames_that_come_together_give_the_same_events(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    reads = frames(pieces)
    together = data.draw(st.lists(st.integers(1, 6), min_size=len(reads), max_size=len(reads)))
    left = iter(reads)
    bursts = [b"".join(burst) for size in together if (burst := list(itertools.islice(left, size)))]
    assert replay(bursts) == replay([the_long_way(reads)])


@given(pieces_of, st.data())
def test_reads_that_end_anywhere_give_the_same_events(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    whole = b"".join(frames(pieces))
    ends = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=12)))
    reads = [whole[start:end] for start, end in itertools.pairwise([0, *ends, len(whole)])]
    assert replay(reads) == replay([whole])


@pytest.mark.parametrize("size", [50, 200, 333, 1000])
def test_it_is_taken_for_reads_that_end_within_a_frame(size: int) -> None:
    whole = b"".join(frames([("text", f"piece{number}") for number in range(200)]))
    reads = [whole[at : at + size] for at in range(0, len(whole), size)]
    with patch.object(ChunkReader, "receive", autospec=True, side_effect=ChunkReader.receive) as long_way:
        found = replay(reads)
    # The first read, which has no template yet, and the end.
    assert long_way.call_count <= 12 + 2 * size // len(chunk({"content": "piece"}))
    assert found == replay([whole])


@pytest.mark.parametrize("first", [{"content": "Hello"}, {"role": "assistant", "content": ""}])
def test_the_first_read_of_a_fast_engine_makes_its_template_itself(first: dict[str, str]) -> None:
    reads = [chunk(first), *frames([("text", f"piece{number}") for number in range(200)])]
    with patch.object(ChunkReader, "receive", autospec=True, side_effect=ChunkReader.receive) as long_way:
        found = replay([b"".join(reads)])
    # The first frames, and the one that finishes the answer.
    assert long_way.call_count <= 3
    assert found == replay([the_long_way(reads)])


def test_it_is_taken_after_what_was_read_elsewhere() -> None:
    exchange = Exchange(CreateResponse(model="m", input="Hi", stream=True), [EngineKnowledge(PLAIN)], make_environment())
    exchange.answer.read_at_once(2000)
    exchange.start()
    burst = b"".join(chunk({"content": f" {number}"}) for number in range(100))
    exchange.receive(chunk({"role": "assistant", "content": "Hello"}) + burst[:-20])
    assert exchange.answer.is_behind
    exchange.answer.read_on()
    with patch.object(ChunkReader, "receive", autospec=True, side_effect=ChunkReader.receive) as long_way:
        events = exchange.receive(burst[-20:] + burst + burst[:30])
        events += exchange.receive(burst[30:])
    assert not long_way.called
    numbers = 99, *range(100), *range(100)
    assert [event.delta for event in events if isinstance(event, PlainDelta)] == [f" {number}" for number in numbers]


@given(st.lists(st.sampled_from(["a", " b", "<", "hm, "]), min_size=1, max_size=12), st.sampled_from(["", "x", "a b"]))
def test_a_thought_of_the_short_cut_is_what_a_tagged_text_is_compared_with(thought: list[str], more: str) -> None:
    pieces = [("reasoning_content", piece) for piece in thought]
    tagged = [("text", piece) for piece in ("<think>", *thought, f"{more}</think>", "Yes.")]
    reads = frames([*pieces, *tagged])
    assert replay(reads) == replay([the_long_way(reads)])
    text = "".join(event["delta"] for event in parse(replay(reads)) if event["type"] == "response.output_text.delta")
    assert text == ("Yes." if not more else "".join(piece for _, piece in tagged))


SUMMARIZED = CreateResponse(model="replay", input="…", stream=True, reasoning=ReasoningOptions(summary="auto"))
HEADINGS = st.sampled_from(["# ", "Title", " #", "\n", "**", "x" * 130])


@given(st.lists(st.tuples(st.just("reasoning"), HEADINGS | texts), max_size=20), pieces_of)
def test_it_gives_the_same_summary_as_the_long_way(thought: list[tuple[str, str]], pieces: list[tuple[str, str]]) -> None:
    reads = frames([*thought, *pieces])
    assert replay(reads, SUMMARIZED) == replay([the_long_way(reads)], SUMMARIZED)


def test_a_summary_takes_it_for_nearly_every_piece() -> None:
    reads = frames([("reasoning", f"piece{number}") for number in range(50)])
    with patch.object(ChatStream, "receive", autospec=True, side_effect=ChatStream.receive) as long_way:
        replay(reads, SUMMARIZED)
    assert long_way.call_count <= len(reads) - 47


@pytest.mark.parametrize("shape", ["text", "reasoning_content", "reasoning", "arguments"])
def test_it_is_taken_for_nearly_every_piece(shape: str) -> None:
    opening = [("a call", "id")] if shape == "arguments" else []
    reads = frames([*opening, *((shape, f"piece{number}") for number in range(50))])
    with patch.object(ChatStream, "receive", autospec=True, side_effect=ChatStream.receive) as long_way:
        replay(reads)
    assert long_way.call_count <= len(reads) - 47


@pytest.mark.parametrize("shape", ["text", "text in UTF-8", "reasoning_content", "arguments"])
def test_it_is_taken_for_any_letters(shape: str) -> None:
    opening = [("a call", "id")] if shape == "arguments" else []
    reads = frames([*opening, *((shape, f'"é{number}"\n😀') for number in range(50))])
    with patch.object(ChatStream, "receive", autospec=True, side_effect=ChatStream.receive) as long_way:
        found = replay(reads)
    assert long_way.call_count <= len(reads) - 47
    assert found == replay([the_long_way(reads)])


def test_it_is_taken_for_a_thought_in_tags() -> None:
    reads = frames([("text", "<think>"), *(("text", f"piece{number}") for number in range(50)), ("text", "</think>Yes")])
    with patch.object(ChatStream, "receive", autospec=True, side_effect=ChatStream.receive) as long_way:
        found = replay(reads)
    assert long_way.call_count <= len(reads) - 47
    assert found == replay([the_long_way(reads)])


@pytest.mark.parametrize("last", ["`", "b"])
def test_what_it_took_last_says_whether_a_tag_is_quoted(last: str) -> None:
    reads = frames([("text", "a"), ("text", " so"), ("text", last), ("text", "</think>"), ("text", "Yes")])
    assert replay(reads) == replay([the_long_way(reads)])
    # A tag that is used is not shown.
    assert (b"</think>" in replay(reads)) is (last == "`")


def test_it_reads_a_text_that_stands_in_the_frame_more_than_once_the_long_way() -> None:
    reads = list(itertools.chain(*([SHAPES["text"]("index"), SHAPES["text"]("mock")] for _ in range(3)), [DONE]))
    assert b'"text":"indexmockindexmockindexmock"' in replay(reads)


def test_what_is_no_json_is_not_taken_for_a_text() -> None:
    good = SHAPES["text"]("abc")
    reads = [good, good.replace(b"abc", b"a\nc"), DONE]
    assert replay(reads) == replay([the_long_way(reads)])
    assert b"response.failed" in replay(reads)


def test_parts_without_text_are_no_delta() -> None:
    reads = [chunk({"content": content}) for content in ("a", [{"type": "image"}], [{"type": "text", "text": ""}], "b")]
    deltas = [event["delta"] for event in parse(replay([*reads, DONE])) if event["type"] == "response.output_text.delta"]
    assert deltas == ["a", "b"]


def doubled(reads: list[bytes]) -> Iterator[bytes]:
    return (first + second for first, second in zip(reads[::2], reads[1::2], strict=False))


def test_two_frames_in_one_read_are_no_mould() -> None:
    reads = [*(SHAPES["text"](str(number)) for number in range(9)), DONE]
    assert replay(doubled(reads)) == replay([the_long_way(reads)])


CALL_TEXTS = ['{"name": "f", ', '"arguments": {"a"', ": ", "1}", "}", "{", "abc", " b", "<think>", "</think>"]
CALL_TEXTS += ["<tool_call>", "</tool_call>", "\n", "```", "<|channel|>final<|message|>", "<|end|>"]
call_pieces = st.tuples(st.sampled_from(["text", "text", "text", "reasoning", "a call"]), st.sampled_from(CALL_TEXTS))
F = {"type": "function", "name": "f"}
# Calls are searched for in the text, or the whole text is one.
FREE = CreateResponse(input="Hi", tools=[F], stream=True)
CONSTRAINED = CreateResponse(input="Hi", tools=[F], tool_choice="required", stream=True)
CONSTRAINS = replace(PLAIN, constrains_json=True)


@pytest.mark.parametrize("request_", [CONSTRAINED, FREE], ids=["constrained", "free"])
@given(pieces=st.lists(call_pieces, max_size=12))
def test_it_gives_the_same_events_as_the_long_way_where_calls_stand_in_the_text(
    request_: CreateResponse, pieces: list[tuple[str, str]]
) -> None:
    reads = frames(pieces)
    assert replay(reads, request_, CONSTRAINS) == replay([the_long_way(reads)], request_, CONSTRAINS)


@pytest.mark.parametrize("request_", [CONSTRAINED, FREE], ids=["constrained", "free"])
def test_it_is_taken_for_text_that_the_finder_lets_pass(request_: CreateResponse) -> None:
    reads = frames([("text", f"piece{number}") for number in range(50)])
    with patch.object(ChatStream, "receive", autospec=True, side_effect=ChatStream.receive) as long_way:
        assert replay(reads, request_, CONSTRAINS) == replay([the_long_way(reads)], request_, CONSTRAINS)
    assert long_way.call_count <= len(reads) - 47 + 1


def deltas_of(*reads: bytes) -> list[Delta]:
    stream = ChatStream(finder=ConstrainedCall(["f"]))
    return [delta for data in reads for delta in stream.receive(data)] + stream.close()


def test_a_call_in_the_text_is_told_before_the_end_of_the_answer() -> None:
    deltas = deltas_of(
        SHAPES["text"]('<think>hm</think>\n{"name": "f", '), SHAPES["text"]('"arguments": {}}'), chunk(finish="stop"), DONE
    )
    assert deltas == [ReasoningDelta("hm"), CallDelta(0, name="f"), CallDelta(0, arguments="{}"), Finished("stop")]


def test_text_that_might_have_become_a_call_comes_before_a_native_one_and_before_the_end() -> None:
    held = SHAPES["text"]('{"name": "f"')
    call = SHAPES["a call"]("id")
    assert deltas_of(held, call, DONE) == [TextDelta('{"name": "f"'), CallDelta(0, "id", "f", "{")]
    assert deltas_of(held, chunk(finish="stop"), DONE) == [TextDelta('{"name": "f"'), Finished("stop")]


def test_what_was_held_back_of_a_thought_stays_in_front_of_its_end() -> None:
    deltas = deltas_of(*map(SHAPES["text"], ["{", '"name" </think>', '{"name": "f", "arguments": {}}']), DONE)
    assert deltas == [TextDelta('{"name" '), ThoughtEnded(), CallDelta(0, name="f"), CallDelta(0, arguments="{}")]


def test_what_follows_a_failure_is_not_read_in_whichever_piece_it_comes() -> None:
    frames = [chunk(finish="stop"), b'data: {"error": {"message": "no"}}\n\n', chunk({"content": "more"})]
    assert replay([b"".join(frames)]) == replay(frames)
    assert b"more" not in replay(frames)


# ---- what is read in several goes ------------------------------------------------------------------------------------


def test_what_comes_while_something_is_unread_waits_behind_it() -> None:
    stream = ChatStream(most_at_once=300)
    large, small = chunk({"content": "a" * 300}), chunk({"content": "b"})
    assert stream.receive(small) == [TextDelta("b")]
    assert [*stream.receive(large), *stream.receive(small), *stream.receive(large), *stream.receive(small)] == []
    assert stream.is_behind
    assert stream.read_on() == [TextDelta("a" * 300), TextDelta("b"), TextDelta("a" * 300), TextDelta("b")]
    assert not stream.is_behind
    assert stream.receive(small) == [TextDelta("b")]


def test_a_frame_counts_as_a_whole_however_it_is_split() -> None:
    stream = ChatStream(most_at_once=300)
    large = chunk({"content": "a" * 1000})
    pieces = [large[at : at + 50] for at in range(0, len(large), 50)]
    assert [delta for piece in pieces for delta in stream.receive(piece)] == []
    assert stream.is_behind
    assert stream.read_on() == [TextDelta("a" * 1000)]


def test_the_end_of_the_stream_reads_what_is_unread() -> None:
    stream = ChatStream(most_at_once=300)
    assert stream.receive(chunk({"content": "a" * 1000}) + DONE) == []
    assert not stream.ended
    assert stream.has_large_end
    assert stream.close() == [TextDelta("a" * 1000)]
    assert stream.ended


@given(pieces_of, pieces_of, st.sampled_from(list(Start)), st.sampled_from(["stop", "length"]))
def test_a_text_that_was_closed_is_closed_again_only_if_something_came_after_it(
    before: list[tuple[str, str]], after: list[tuple[str, str]], start: Start, reason: str
) -> None:
    skipped, repeated = ChunkReader(start), ChunkReader(start)
    for frame in [*(SHAPES[shape](text) for shape, text in before), chunk(finish=reason)]:
        assert skipped.receive(frame[6:]) == repeated.receive(frame[6:])
    assert repeated._close_text() == []
    for shape, text in after:
        data = SHAPES[shape](text)[6:]
        assert skipped.receive(data) == repeated.receive(data)
    assert skipped.close() == repeated._close_text()
    assert skipped.close() == []


def test_what_follows_too_much_is_not_read_at_the_end() -> None:
    stream = ChatStream()
    stream.receive(b":")
    with patch("antiphon.core.stream.frames.LARGEST_FRAME", 10):
        (failed,) = stream.receive(b" no frame but comments\n\ndata: {")
        assert isinstance(failed, EngineFailed)
        assert stream.close() == []
