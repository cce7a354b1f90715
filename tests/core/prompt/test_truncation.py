"""A history that is too long loses its oldest turns, and nothing that the rest of it needs."""

from typing import Any

import pytest

from antiphon.core.prompt.truncation import share_to_drop, truncated

WORDS = "request ({asked} tokens) exceeds the available context size ({most} tokens), try increasing it"


def test_the_output_of_a_call_that_was_left_out_is_left_out_too() -> None:
    items = [
        {"role": "user", "content": "a" * 100},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "user", "content": "b"},
        {"type": "function_call_output", "call_id": "c", "output": "late"},
        {"role": "user", "content": "c"},
    ]
    assert truncated(items, 0.5) == [items[2], items[4]]


def test_a_compaction_and_tools_before_the_first_turn_stay() -> None:
    head: list[dict[str, Any]] = [{"type": "additional_tools", "tools": []}, {"type": "compaction", "encrypted_content": "x"}]
    turns = [{"role": role, "content": "a" * 100} for role in ("user", "assistant", "user", "assistant", "user")]
    assert truncated([*head, *turns], 0.5) == [*head, turns[4]]


@pytest.mark.parametrize(
    ("words", "dropped", "least"),
    [
        (WORDS.format(asked=2000, most=1000), 0.0, 0.5),
        (WORDS.format(asked=1100, most=1000), 0.5, 0.54),
        ("too long", 0.25, 0.5),
    ],
)
def test_the_engines_error_message_says_how_much_must_be_left_out(words: str, dropped: float, least: float) -> None:
    assert least <= share_to_drop(words, dropped) <= least + 0.1


def test_a_history_of_one_turn_cannot_be_shortened() -> None:
    assert truncated([{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}], 0.5) is None
    assert truncated([{"role": "assistant", "content": "a" * 100}], 0.5) is None


def test_instructions_stay_and_the_last_turn_stays_however_much_is_to_be_dropped() -> None:
    head = {"role": "system", "content": "Be brief."}
    turns = [{"role": role, "content": "a" * 100} for role in ("user", "assistant", "user")]
    assert truncated([head, *turns], 0.99) == [head, turns[-1]]
    assert truncated([head, {"role": "assistant", "content": "x"}, *turns], 0.0) == [head, turns[-1]]


def test_what_an_engine_says_in_other_words_drops_a_quarter_more() -> None:
    assert share_to_drop("the prompt is too long", 0.0) == 0.25
    assert share_to_drop("8000 tokens, of 8000 tokens", 0.25) == 0.5
