"""Prose about calls is not taken for calls: it comes through byte for byte, however it is split."""

import pytest
from support.call_finder import merge, read, splits
from support.texts_without_calls import NAMES, TEXTS

from antiphon.core.stream.text_calls import TextCalls, calls_ending_thought


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_mentions_calls_is_text(name: str) -> None:
    between = f"Hello.\n\n{TEXTS[name]}\n\nThat is all."
    for text, others in ((TEXTS[name], 20), (between, 4)):
        for pieces in splits(text, others):
            assert merge(read(TextCalls(NAMES), pieces)) == [("text", text)]
    assert calls_ending_thought(TEXTS[name], NAMES) == [], "as a thought"
