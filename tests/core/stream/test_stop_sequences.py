"""The text of an answer ends before its first stop sequence, in whatever pieces it comes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.events.deltas import CallDelta, Delta, Finished, TextDelta
from antiphon.core.stream.stop_sequences import TextUpToStop
from antiphon.core.stream.text_calls import TextCalls

# Few letters, so that sequences overlap, and begin inside one another.
TEXTS = st.text("abc", max_size=20)
SEQUENCES = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3)


def shown(deltas: list[Delta]) -> tuple[str, str | None]:
    """The text, and what ended it."""
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    ends = [delta.stop_sequence for delta in deltas if isinstance(delta, Finished)]
    assert len(ends) <= 1
    return text, ends[0] if ends else None


def read(pieces: list[str], sequences: list[str]) -> tuple[str, str | None]:
    reader = TextUpToStop(None, sequences)
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += [TextDelta(piece)] if reader.take_if_plain(piece) else reader.receive(piece)
    return shown(deltas + reader.close())


def expected(text: str, sequences: list[str]) -> tuple[str, str | None]:
    """Letter by letter: the first sequence that is whole; of two that are whole at once, the longer one."""
    for end in range(1, len(text) + 1):
        found = [each for each in sequences if text[:end].endswith(each)]
        if found:
            first = max(found, key=len)
            return text[: end - len(first)], first
    return text, None


@given(text=TEXTS, sequences=SEQUENCES, cuts=st.lists(st.integers(0, 20)))
def test_the_pieces_make_no_difference(text: str, sequences: list[str], cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    assert read(pieces, sequences) == read([*text], sequences) == expected(text, sequences)


def test_what_may_still_become_a_sequence_waits_and_nothing_else() -> None:
    reader = TextUpToStop(None, ["END"])
    assert shown(reader.receive("one E")) == ("one ", None)
    assert shown(reader.receive("N")) == ("", None)
    assert shown(reader.receive("T two")) == ("ENT two", None)
    assert shown(reader.receive(" EN")) == (" ", None)
    assert shown(reader.close()) == ("EN", None)


def test_nothing_follows_the_end() -> None:
    reader = TextUpToStop(None, ["END"])
    assert shown(reader.receive("one END two")) == ("one ", "END")
    assert not reader.take_if_plain("three")
    assert [*reader.receive("three END"), *reader.release(), *reader.close()] == []


@pytest.mark.parametrize("pieces", [1, 7, 200])
def test_a_call_is_no_text(pieces: int) -> None:
    reader = TextUpToStop(TextCalls({"f": None}), ["END"])
    text = 'Look: <tool_call>{"name": "f", "arguments": {"a": "END"}}</tool_call> END of it'
    deltas = [each for at in range(0, len(text), pieces) for each in reader.receive(text[at : at + pieces])]
    deltas += reader.close()
    assert [delta.arguments for delta in deltas if isinstance(delta, CallDelta) and delta.arguments] == ['{"a": "END"}']
    said, end = shown(deltas)
    assert (said.split(), end) == (["Look:"], "END")
