"""Answers that are constrained to JSON: what precedes the JSON is left out, and nothing of it is a thought."""

import pytest

from antiphon.core.events.deltas import ReasoningDelta, TextDelta
from antiphon.core.stream.json_text import JsonText


def read(pieces: list[str]) -> str:
    tags = JsonText()
    deltas = [delta for piece in pieces for delta in tags.receive(piece)] + tags.close()
    assert not any(isinstance(delta, ReasoningDelta) for delta in deltas)
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('\n [1, "<think>"]', '[1, "<think>"]'),
        ("true", "true"),
        ("-3.5", "-3.5"),
        ('<|assistant|>\nMy thoughts:\n{"a": [1]}', '{"a": [1]}'),
        ("<think>\n[1]", "[1]"),
        ('```json\n{"a": [1]}\n```', '{"a": [1]}'),
        ("Here:\n```\n[1,\n 2]\n  ```", "[1,\n 2]"),
        ('```json\n{"a": 1}```', '{"a": 1}'),
        ('```json\n{"a": "`b` ```"}\n\n```', '{"a": "`b` ```"}'),
        ('```json\n{"a": 1}\n```\nThat is all.', '{"a": 1}\nThat is all.'),
        # The fence is cut off, or is not one.
        ('```json\n{"a": "`', '{"a": "`'),
        ('```json\n{"a": 1}\n``', '{"a": 1}\n``'),
        ('{"a": 1}\n```', '{"a": 1}\n```'),
        # It was not constrained after all: nothing is lost.
        ("Hello.", "Hello."),
    ],
)
def test_an_answer_that_is_constrained_to_json_is_no_thought(written: str, text: str) -> None:
    assert read([written]) == text
    assert read(list(written)) == text


@pytest.mark.parametrize(
    ("written", "left_out"),
    [
        ('Here you are: {"a": 1}', True),
        ('```json\n{"a": 1}\n```', True),
        ('\n {"a": 1}', False),
        ('<think>\n</think>\n{"a": 1}', False),
        ("true, or not {", False),
        ("Hello.", False),
    ],
)
def test_what_is_left_out_before_json_is_known(written: str, left_out: bool) -> None:
    for pieces in ([written], list(written)):
        tags = JsonText()
        for piece in pieces:
            tags.receive(piece)
        tags.close()
        assert bool(tags.left_out) is left_out
