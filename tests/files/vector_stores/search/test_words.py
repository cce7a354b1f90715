"""The words of chunks and queries, and the terms by which a database finds them."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.files.vector_stores.search.found import Ranking, fuse
from antiphon.files.vector_stores.search.words import (
    LEVELS,
    LONGEST_QUERY,
    MOST_WORDS,
    level_of,
    share_of_level,
    share_of_words,
    terms_of_text,
    terms_of_word,
    words_of_query,
    words_of_text,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Engines", "engine"),
        ("running", "run"),
        ("stopped", "stop"),
        ("making", "make"),
        ("queries", "query"),
        ("boxes", "box"),
        ("Straße", "STRASSE"),
        ("café", "CAFE"),
        ("ﬁle", "file"),
        ("ﬀ", "ff"),
        ("１２３", "123"),
        ("Größe", "grosse"),
    ],
)
def test_spellings_of_one_word_are_one_word(one: str, other: str) -> None:
    assert words_of_text(one) == words_of_text(other)


@pytest.mark.parametrize(("one", "other"), [("bus", "bu"), ("this", "thi"), ("glass", "glas"), ("sing", "s"), ("red", "r")])
def test_short_words_keep_their_endings(one: str, other: str) -> None:
    assert words_of_text(one) != words_of_text(other)


def test_a_name_in_camel_case_is_its_parts_and_itself() -> None:
    assert words_of_text("parseHTTPHeaders") == ["pars", "http", "header", "parsehttpheader"]


def test_scripts_without_spaces_are_characters_and_pairs() -> None:
    assert words_of_text("東京都") == ["東", "京", "都", "東京", "京都"]
    assert words_of_query("東京都") == ["東京", "京都"]
    assert words_of_query("猫") == ["猫"]
    assert words_of_text("GPT用の") == ["gpt", "用", "の", "用の"]


def test_a_query_has_each_word_once_and_none_that_says_nothing() -> None:
    assert words_of_query("What is the name of the name?") == ["nam"]
    assert words_of_query("to be or not to be") == ["to", "be", "or", "not"]


def test_a_query_is_bounded() -> None:
    assert len(words_of_query(" ".join(f"word{number}" for number in range(10_000)))) == MOST_WORDS
    assert words_of_query(" " * LONGEST_QUERY + "late") == []


def test_a_long_run_of_letters_is_no_word() -> None:
    assert words_of_text("a" * 1000) == []


@given(st.text())
def test_what_a_query_has_a_text_has_too(text: str) -> None:
    assert set(words_of_query(text)) <= set(words_of_text(text[:LONGEST_QUERY]))


@given(st.text(max_size=50), st.text(max_size=300))
def test_each_word_has_one_term_that_fits_into_a_database(store: str, text: str) -> None:
    terms = terms_of_text(store, text)
    words = set(words_of_text(text))
    assert len(terms) == len(words)
    assert all(-(2**63) <= term < 2**63 and 0 <= level_of(term) < LEVELS for term in terms)
    assert all(set(terms_of_word(store, word)) & set(terms) for word in words)


def test_stores_have_terms_of_their_own() -> None:
    assert not set(terms_of_word("vs_1", "harbour")) & set(terms_of_word("vs_2", "harbour"))


def test_a_word_counts_more_in_a_short_text_and_when_it_is_repeated() -> None:
    def counts(text: str) -> float:
        asked = set(terms_of_word("vs_1", "engin"))
        return share_of_level(level_of(next(term for term in terms_of_text("vs_1", text) if term in asked)))

    filler = " ".join(f"word{number}" for number in range(800))
    assert counts("engine") > counts(f"engine {filler}")
    assert counts("engine engine engine engine " + filler) > counts(f"engine {filler}")
    assert counts("engine " * 1000) < 1


def test_the_share_of_words_is_that_of_the_query() -> None:
    rarities = {"harbour": 3.0, "town": 1.0}
    assert share_of_words("the harbours of a town", rarities) == 1.0
    assert share_of_words("a harbour", rarities) == 0.75
    assert share_of_words("a mill", rarities) == 0.0
    assert share_of_words("a mill", {}) == 0.0


@pytest.mark.parametrize("run", [64, 5000])
def test_texts_without_spaces_between_words_leave_no_memory_behind(run: int) -> None:
    text = "".join(chr(0x4E00 + at * 7919 % 20_000) for at in range(40_000))
    pieces = [text[at : at + run] for at in range(0, len(text), run)]
    words_of_text("warm")
    tracemalloc.start()
    try:
        words_of_text(" ".join(pieces))
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 500_000


# ---- fusion ----------------------------------------------------------------------------------------------------------


def test_what_several_rankings_have_is_first() -> None:
    assert fuse([Ranking([1, 2, 3]), Ranking([4, 2, 5])])[0] == 2


def test_a_heavier_ranking_counts_more() -> None:
    assert fuse([Ranking([1, 2], 1.0), Ranking([3, 4], 2.0)])[:2] == [3, 4]


def test_of_equals_the_lower_id_is_first() -> None:
    assert fuse([Ranking([9, 3]), Ranking([3, 9])]) == [3, 9]
    assert fuse([]) == []
