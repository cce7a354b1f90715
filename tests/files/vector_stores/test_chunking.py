"""Texts divided into chunks: all of the text, nothing too large, and the overlap that was asked for."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operations import assert_linear, count_calls

from antiphon.files.vector_stores.chunking import chunks, pieces, spans, tokens_of


class Chunking(NamedTuple):
    size: int = 800
    overlap: int = 400


SENTENCE = "The quick brown fox jumps over the lazy dog. "
PARAGRAPHS = "\n\n".join(SENTENCE * count for count in (3, 9, 1, 30, 4, 60, 2, 15))
PIECES = ["word", " ", "\n", "\n\n", ". ", "。", "漢字", "é", "e\u0301", "👩‍👩‍👧", "👍🏽", "\u0301", "x" * 50, "\ud800"]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)
CHUNKINGS = st.integers(1, 40).flatmap(lambda size: st.builds(Chunking, st.just(size), st.integers(0, size // 2)))


@given(TEXTS, CHUNKINGS)
def test_all_of_the_text_is_in_chunks_that_are_not_too_large_and_do_not_overlap_too_much(text: str, chunking: Chunking) -> None:
    found = list(spans(text, chunking))
    assert [start for start, _ in found] == sorted({start for start, _ in found})
    position = 0
    for start, end in found:
        assert start <= position < end
        # A single letter may take more than a token.
        assert tokens_of(text[start:end]) <= chunking.size or end - start == 1
        assert tokens_of(text[start:position]) <= chunking.overlap
        position = end
    assert position == len(text)


@given(TEXTS, CHUNKINGS)
def test_chunks_are_the_text_without_the_space_around(text: str, chunking: Chunking) -> None:
    made = chunks(text, chunking)
    assert all(made)
    assert all(chunk == chunk.strip() and chunk in text for chunk in made)
    assert bool(made) is bool(text.strip())


def test_a_letter_that_is_not_divided_does_not_end_two_chunks_in_one_place() -> None:
    assert list(spans("00000\x80\u200d", Chunking(2, 1))) == [(0, 5), (1, 6), (3, 7)]


def test_a_short_text_is_one_chunk() -> None:
    assert chunks("  Hello.\n", Chunking()) == ["Hello."]
    assert chunks("", Chunking()) == []
    assert chunks(" \n\n ", Chunking()) == []


def test_chunks_end_with_a_sentence_and_begin_with_one() -> None:
    made = chunks(SENTENCE * 50, Chunking(100, 50))
    assert len(made) > 5
    assert all(chunk.startswith("The quick") and chunk.endswith("lazy dog.") for chunk in made)


def test_chunks_end_with_a_paragraph_where_there_is_one() -> None:
    paragraph = SENTENCE * 2
    made = chunks("\n\n".join([paragraph] * 40), Chunking(100, 0))
    assert made == ["\n\n".join([paragraph] * 4).strip()] * 10


def test_the_overlap_is_about_what_was_asked_for() -> None:
    found = list(spans(PARAGRAPHS, Chunking(200, 100)))
    overlaps = [tokens_of(PARAGRAPHS[start:end]) for (_, end), (start, _) in pairwise(found)]
    assert len(overlaps) > 5
    assert all(50 <= overlap <= 100 for overlap in overlaps)


def test_without_an_overlap_the_chunks_are_the_text() -> None:
    found = list(spans(PARAGRAPHS, Chunking(100, 0)))
    assert "".join(PARAGRAPHS[start:end] for start, end in found) == PARAGRAPHS


def test_words_stay_whole_where_there_are_no_sentences() -> None:
    words = {f"word{number}" for number in range(2000)}
    made = chunks(" ".join(sorted(words)), Chunking(100, 50))
    assert {word for chunk in made for word in chunk.split()} == words


def test_letters_keep_their_marks() -> None:
    for letter in ("e\u0301", "👩‍👩‍👧", "👍🏽", "❤\ufe0f"):
        made = chunks(letter * 400, Chunking(25, 12))
        assert len(made) > 5
        assert {chunk.replace(letter, "") for chunk in made} == {""}


def test_letters_of_several_bytes_take_more_of_a_chunk() -> None:
    assert len(chunks("漢" * 3000, Chunking(100, 0))) == pytest.approx(3000 * 3 / 400, rel=0.05)


@pytest.mark.parametrize("piece", ["a", " ", "\n", ". ", "漢", "\u0301", "word ", "a.\n\n", "-a"])
def test_the_work_grows_with_the_length_only(piece: str) -> None:
    def work_of(length: int) -> Callable[[], None]:
        text = piece * (length // len(piece))

        def work() -> None:
            assert sum(1 for _ in spans(text, Chunking(800, 400))) < length / 200

        return work

    assert_linear(work_of, 100_000, count_calls)
    # Regular expressions are not counted: with one that took the square of this, the test would not end.
    work_of(1_000_000)()


def test_a_chunk_knows_the_headings_above_it_and_what_it_shares_with_the_one_before() -> None:
    parts = [f"{heading}\n\n{'Some words. ' * 40}" for heading in ("# One", "## Two", "### Three", "## Four")]
    made = pieces("\n\n".join(parts), Chunking(size=100, overlap=40))
    assert [piece.text for piece in made] == chunks("\n\n".join(parts), Chunking(size=100, overlap=40))
    assert made[0].context == ""
    assert {piece.context for piece in made} == {"", "One", "One > Two", "One > Two > Three", "One > Four"}
    for before, after in pairwise(made):
        assert after.shared > 0
        assert before.text.endswith(after.text[: after.shared].rstrip())
