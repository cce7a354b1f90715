"""The items that a prompt is made of: what a compaction replaces and a truncation leaves out is not among them."""

from typing import Any

import pytest
from support.items import assistant, user

from antiphon.core.prompt.conversation import Conversation
from antiphon.errors import ContextLengthExceeded, EngineFailure
from antiphon.wire.responses import CreateResponse

Item = dict[str, Any]
HISTORY = [user("One"), assistant("Two"), user("Three"), assistant("Four")]


def conversation(history: list[Item], input: Any = "Five", *, compact: bool = False) -> Conversation:
    return Conversation(CreateResponse(model="m", input=input), history, lambda blob: None, compact=compact)


def one_each(item: Item) -> int:
    return 1


def test_the_stored_items_come_before_those_of_the_request() -> None:
    made = conversation(HISTORY)
    assert (made.history, made.stored, len(made.items)) == (HISTORY, 4, 5)
    assert made.prompt_items(one_each) == (made.items, 4)


@pytest.mark.parametrize("input", ["Five", [user("Five")], [user("Five"), {"type": "compaction_trigger"}]])
def test_a_conversation_that_is_to_be_compacted_ends_with_one_trigger(input: Any) -> None:
    types = [item.get("type") for item in conversation(HISTORY, input, compact=True).items]
    assert types.count("compaction_trigger") == 1
    assert types[-1] == "compaction_trigger"


def test_the_oldest_turns_are_left_out_of_the_stored_items_first() -> None:
    made = conversation(HISTORY)
    failure = EngineFailure(400, "x", "the prompt has 1000 tokens, 800 tokens are allowed")
    made.truncate(ContextLengthExceeded("Too long.", failure=failure))
    items, stored = made.prompt_items(one_each)
    assert items == made.items[-len(items) :]
    assert (len(items), stored) == (3, 2)
    assert len(made.items) == 5


def test_a_last_turn_that_is_too_long_alone_cannot_be_truncated() -> None:
    made = conversation([])
    made.truncate(ContextLengthExceeded("Too long."))
    with pytest.raises(ContextLengthExceeded, match="even its last turn"):
        made.prompt_items(one_each)
