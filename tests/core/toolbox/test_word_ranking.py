"""Texts ranked by the words that they share with a query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.toolbox.word_ranking import scores, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("list_open-orders.all", ["list", "open", "order", "all"]),
        ("listOpenOrders", ["list", "open", "order", "listopenorder"]),
        ("HTTPServer2", ["http", "server2", "httpserver2"]),
        ("The status of the companies", ["statu", "company"]),
        ("查询天气", ["查询", "询天", "天气"]),
        ("Été à Paris", ["été", "à", "pari"]),
        ("a tool to use", []),
        ("___ --- ...", []),
    ],
)
def test_names_are_split_and_common_words_left_out(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def ranked(query: str, *texts: str) -> list[int]:
    found = scores(query, [words_of(text) for text in texts])
    return [at for at, score in sorted(enumerate(found), key=lambda row: -row[1]) if score > 0]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    texts = ["get the weather", "get the time", "get the price", "get the news"]
    assert ranked("get weather", *texts)[0] == 0
    assert ranked("get news", *texts)[0] == 3


def test_more_of_the_words_count_more_and_none_counts_nothing() -> None:
    texts = ["send an email", "send an email to a customer", "delete a file"]
    assert ranked("email customer", *texts) == [1, 0]
    assert ranked("weather", *texts) == []
    assert ranked("", *texts) == []
    assert scores("weather", []) == []


def test_a_long_text_with_the_word_once_counts_less_than_a_short_one() -> None:
    long = "maps " + " ".join(f"word{number}" for number in range(50))
    assert ranked("maps", long, "maps of cities") == [1, 0]


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=8))
def test_any_text_has_a_score(query: str, texts: list[str]) -> None:
    found = scores(query, [words_of(text) for text in texts])
    assert len(found) == len(texts)
    assert all(score >= 0 for score in found)
