"""Prose about calls is not taken for calls: it comes through byte for byte, however it is split."""

import pytest
from support.call_finder import merge, read, splits
from support.texts_without_calls import NAMES, TEXTS

from antiphon.core.stream.text_calls import TextCalls, calls_ending_thought


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_mentions_calls_is_text(name: str) -> None:
    for pieces in splits(TEXTS[name]):
        assert merge(read(TextCalls(NAMES), pieces)) == [("text", TEXTS[name])]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_mentions_calls_is_text_between_other_texts(name: str) -> None:
    text = f"Hello.\n\n{TEXTS[name]}\n\nThat is all."
    for pieces in splits(text, others=4):
        assert merge(read(TextCalls(NAMES), pieces)) == [("text", text)]


@pytest.mark.parametrize("name", TEXTS)
def test_a_thought_that_mentions_calls_makes_none(name: str) -> None:
    assert calls_ending_thought(TEXTS[name], NAMES) == []
