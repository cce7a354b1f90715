"""The key of a conversation: the same in every turn, another one for another conversation."""

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.engines.affinity import LEADING_LENGTH, affinity_key
from antiphon.wire.responses import CreateResponse

USER = {"type": "message", "role": "user", "content": "What is a gateway?"}
STORED_USER = {**USER, "id": "msg_1", "content": [{"type": "input_text", "text": "What is a gateway?"}]}
ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A door.", "annotations": []}]}
MORE = {"type": "message", "role": "user", "content": "And a router?"}
COMPACTION = {"type": "compaction", "encrypted_content": "sealed"}
SYSTEM = {"role": "developer", "content": "Be brief."}


def key(input: Any, history: Sequence[dict[str, Any]] = (), owner: str = "", **fields: Any) -> str:
    return affinity_key(CreateResponse(input=input, **fields), history, owner)


@pytest.mark.parametrize(
    "turns",
    [
        [("What is a gateway?", []), ([MORE], [STORED_USER, ANSWER])],
        [("What is a gateway?", []), ([USER, ANSWER, MORE], [])],
        [([USER], []), ([STORED_USER, ANSWER, MORE], [])],
        [([SYSTEM, USER], []), ([SYSTEM, USER, ANSWER, MORE], []), ([MORE], [SYSTEM, STORED_USER, ANSWER])],
        [([SYSTEM], []), ([MORE], [SYSTEM, ANSWER])],
        [([COMPACTION, MORE], []), ([MORE], [COMPACTION, MORE, ANSWER])],
    ],
)
def test_it_is_the_same_in_every_turn(turns: list[tuple[Any, list[dict[str, Any]]]]) -> None:
    assert len({key(input, history) for input, history in turns}) == 1


def test_what_makes_another_conversation() -> None:
    different = [
        key("a"),
        key("b"),
        key("a", owner="ada"),
        key("a", instructions="Be brief."),
        key("a", prompt_cache_key="a"),
        key("a", conversation="a"),
        key([SYSTEM, {"role": "user", "content": "a"}]),
        key([SYSTEM, {"role": "user", "content": "b"}]),
        key([SYSTEM | {"role": "system", "content": "Be long."}, {"role": "user", "content": "a"}]),
        key([{"role": "user", "content": [{"type": "input_image", "image_url": "data:,1"}]}]),
        key([{"role": "user", "content": [{"type": "input_image", "image_url": "data:,2"}]}]),
    ]
    assert len(set(different)) == len(different)


def test_the_key_of_the_request_comes_before_its_conversation() -> None:
    assert key("a", prompt_cache_key="k", conversation="c") == key("b", prompt_cache_key="k")
    assert key("a", conversation="c") == key("b", conversation={"id": "c"})


def test_only_the_beginning_of_a_long_text_counts() -> None:
    start = "x" * LEADING_LENGTH
    assert key(start + "a") == key(start + "b")


@pytest.mark.parametrize("content", [None, 1, {}, [1], [{"type": "input_text"}], "\ud800"])
def test_items_that_nobody_has_checked_have_a_key(content: Any) -> None:
    assert len(key([{"role": "user", "content": content}])) == 32
