"""Tagged reasoning: found at any split, never twice, never inside the text, and never where tags are only quoted."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.chunk_reader import ChunkReader
from antiphon.core.deltas import Delta, Finished, ReasoningDelta, TextDelta, ThoughtEnded
from antiphon.core.think_tags import CLOSE, Start, ThinkTags


def merge(deltas: list[Delta]) -> tuple[str, str]:
    """(reasoning, text)"""
    reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    return reasoning, "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def read(pieces: list[str], start: Start = Start.UNKNOWN, *, copy: bool = False, cut: bool = False) -> list[Delta]:
    tags = ThinkTags(start)
    tags.copy = copy
    return [delta for piece in pieces for delta in tags.receive(piece)] + tags.close(cut=cut)


CASES = {
    "no thought": ("Paris.", "", "Paris."),
    "a thought": ("<think>hm</think>Paris.", "hm", "Paris."),
    "white space around it": ("\n <think>\nhm\n</think>\n\nParis.", "\nhm\n", "\n\nParis."),
    "an empty thought": ("<think></think>Paris.", "", "Paris."),
    "two thoughts in a row": ("<think>a</think><think>b</think>c", "ab", "c"),
    "never closed": ("<think>hm", "hm", ""),
    "tags that are quoted": ("Use <think> and </x> or `</think>`.", "", "Use <think> and </x> or `</think>`."),
    "a tag after the text has begun": ("<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"),
    "almost a tag": ("<thin", "", "<thin"),
    "angle brackets": ("<<think>x", "", "<<think>x"),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_read_whole_and_in_single_characters(name: str) -> None:
    raw, reasoning, text = CASES[name]
    for pieces in ([raw], list(raw)):
        found = merge(read(pieces))
        assert found[0] == reasoning
        assert found[1].strip() == text.strip()


@given(st.text(alphabet="<>/think ab\n`", max_size=40), st.lists(st.integers(0, 40)))
def test_any_split_gives_the_same_reasoning_and_text_once_the_thought_is_open(tail: str, cuts: list[int]) -> None:
    raw = "<think>" + tail
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    assert merge(read(pieces)) == merge(read([raw]))


@given(st.lists(st.text(alphabet="<>/think x", max_size=9), max_size=20))
def test_fewer_than_eight_characters_are_buffered(pieces: list[str]) -> None:
    tags = ThinkTags()
    given_out = fed = 0
    for piece in pieces:
        fed += len(piece)
        deltas = tags.receive(piece)
        given_out += sum(len(delta.text) for delta in deltas if isinstance(delta, ReasoningDelta | TextDelta))
        tags_seen = sum(len(tag) * "".join(pieces).count(tag) for tag in ("<think>", CLOSE))
        assert fed - given_out - tags_seen < 8


def test_a_close_that_nothing_opened_makes_a_thought_of_what_was_not_shown_yet() -> None:
    deltas = read(["I should look.\n</think>\n\n", "Paris."])
    assert merge(deltas) == ("I should look.\n", "\n\nParis.")
    assert any(isinstance(delta, ThoughtEnded) for delta in deltas)


def test_a_close_that_comes_after_text_was_shown_ends_that_text_and_is_not_shown() -> None:
    deltas = read(["I should ", "look.</think>", "Paris."])
    assert deltas == [TextDelta("I should "), TextDelta("look."), ThoughtEnded(), TextDelta("Paris.")]


def test_with_a_patient_start_an_unopened_thought_is_always_found() -> None:
    assert merge(read(list("I should look.</think>Paris."), Start.PATIENT)) == ("I should look.", "Paris.")
    assert merge(read(list("Just text."), Start.PATIENT)) == ("", "Just text.")


def test_a_stream_that_is_known_to_start_inside_a_thought_does() -> None:
    tags = ThinkTags(Start.INSIDE)
    deltas = [delta for piece in ("I should ", "look.", "</th", "ink>", "Paris.") for delta in tags.receive(piece)]
    assert merge(deltas) == ("I should look.", "Paris.")
    assert tags.unopened


def test_an_answer_that_was_wrongly_taken_for_a_thought_is_not_lost() -> None:
    assert merge(read(["Paris."], Start.INSIDE)) == ("Paris.", "Paris.")


def test_a_thought_that_was_cut_stays_a_thought_at_the_end_of_the_stream() -> None:
    """`close()` is called at the finish reason, and again at the end of the stream."""
    reader = ChunkReader(Start.INSIDE)
    thought = reader.receive(b'{"choices": [{"delta": {"content": "Let me th"}}]}')
    thought += reader.receive(b'{"choices": [{"delta": {}, "finish_reason": "length"}]}') + reader.close()
    assert [type(delta) for delta in thought] == [ReasoningDelta, Finished]


def test_an_answer_is_not_lost_if_a_thought_was_wrongly_assumed() -> None:
    """The engine was restarted with a parser: its reasoning now arrives in a separate field."""
    reader = ChunkReader(Start.INSIDE)
    deltas = reader.receive(b'{"choices": [{"delta": {"reasoning_content": "Hm."}}]}')
    deltas += reader.receive(b'{"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]}') + reader.close()
    assert merge(deltas) == ("Hm.", "Yes.")


def test_an_answer_that_was_wrongly_taken_for_a_thought_comes_once() -> None:
    """A reader is closed with the finish_reason, and at the end of the stream."""
    tags = ThinkTags(Start.INSIDE)
    tags.receive("Paris.")
    assert merge(tags.close()) == ("", "Paris.")
    assert tags.close() == []


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('\n [1, "<think>"]', '[1, "<think>"]'),
        ("true", "true"),
        ("-3.5", "-3.5"),
        ('<|assistant|>\nMy thoughts:\n{"a": [1]}', '{"a": [1]}'),
        ("<think>\n[1]", "[1]"),
        # It was not constrained after all: nothing is lost.
        ("Hello.", "Hello."),
    ],
)
def test_an_answer_that_is_constrained_to_json_is_no_thought(written: str, text: str) -> None:
    assert merge(read([written], Start.NEVER)) == ("", text)
    assert merge(read(list(written), Start.NEVER)) == ("", text)


def test_a_thought_that_was_cut_stays_a_thought() -> None:
    assert merge(read(["Let me th"], Start.INSIDE, cut=True)) == ("Let me th", "")


def test_a_tagged_copy_of_reasoning_from_a_field_is_dropped() -> None:
    assert merge(read(list("<think>hm</think>Paris."), copy=True)) == ("", "Paris.")
