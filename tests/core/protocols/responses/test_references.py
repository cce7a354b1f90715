"""Input items that stand for another item: what takes their place, and what is left out."""

from typing import Any

import msgspec
import pytest
from support.exchanges import make_environment

from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.responses.references import resolved, unresolved, whole_ids
from antiphon.errors import InvalidRequest
from antiphon.wire.responses import CreateResponse

Item = dict[str, Any]


def exchange_for(input: Any, history: list[Item]) -> Exchange:
    request = msgspec.convert({"model": "m", "input": input}, CreateResponse)
    return Exchange(request, [EngineKnowledge(PLAIN)], make_environment(), history=history)


def said(id: str, text: str = "", role: str = "user") -> Item:
    return {"type": "message", "id": id, "role": role, "content": text or id}


def reference(id: str) -> Item:
    return {"type": "item_reference", "id": id}


def empty_thought(id: str) -> Item:
    return {"type": "reasoning", "id": id, "summary": []}


def thought(id: str, text: str) -> Item:
    return {"type": "reasoning", "id": id, "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def test_only_what_is_neither_in_the_history_nor_in_the_input_is_unresolved() -> None:
    own = [reference("h"), reference("own"), reference("x"), {"id": "y"}, empty_thought("z"), said("own"), reference("x")]
    assert unresolved([said("h")], own) == ["x", "y", "z"]
    assert unresolved([], [said("own"), thought("rs", "x"), {"role": "user", "content": "Hi"}]) == []
    # What only stands for an item is not that item.
    assert unresolved([reference("x")], [reference("x")]) == ["x"]


@pytest.mark.parametrize("member", ["summary", "content", "encrypted_content"])
def test_reasoning_that_has_a_text_stands_for_itself(member: str) -> None:
    item = empty_thought("rs") | {member: [{"type": "summary_text", "text": "Hm"}]}
    assert unresolved([], [item]) == []
    assert whole_ids([item]) == {"rs"}


def test_a_found_item_takes_the_place_of_its_reference() -> None:
    own = [said("a"), reference("x"), {"id": "y"}, empty_thought("z"), said("b")]
    found = {id: said(id) for id in ("x", "y")} | {"z": thought("z", "Hm")}
    assert resolved([], own, found) == [said("a"), said("x"), said("y"), thought("z", "Hm"), said("b")]


def test_an_item_is_in_the_prompt_once_however_often_it_is_referred_to() -> None:
    items = resolved([said("h")], [reference("x"), reference("x"), reference("h"), said("x2")], {"x": said("x")})
    assert [item["id"] for item in items] == ["x", "x", "h", "x2"]
    assert whole_ids(items) == {"x", "x2"}


@pytest.mark.parametrize(
    ("own", "param"),
    [
        ([said("a"), reference("gone")], "input[1].id"),
        ([{"id": "gone"}], "input[0].id"),
        ([{"type": "item_reference"}], "input[0].id"),
        ([said("a"), {"type": "item_reference", "id": 3}], "input[1].id"),
        ([reference("gone"), empty_thought("gone")], "input[0].id"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error_at_its_place(own: list[Item], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        resolved([said("h")], own, {"other": said("other")})
    assert raised.value.param == param


def test_an_exchange_resolves_references_within_its_history_and_input() -> None:
    history = [said("m1", "Hi"), said("m2", "Hello", "assistant")]
    exchange = exchange_for([reference("m1"), reference("m2"), said("m3", "Go on"), {"id": "m3"}], history=history)
    assert [message.content for message in exchange.chat.messages] == ["Hi", "Hello", "Go on"]
    assert exchange.notices == []
    with pytest.raises(InvalidRequest) as raised:
        exchange_for([said("m3"), reference("gone")], history=history)
    assert (raised.value.param, raised.value.code) == ("input[1].id", "item_not_found")


def test_later_items_keep_their_numbers_in_errors() -> None:
    with pytest.raises(InvalidRequest) as raised:
        exchange_for([reference("m1"), {"role": "king", "content": "x"}], history=[said("m1")])
    assert raised.value.param == "input[1].role"


def test_a_stored_reference_whose_item_is_gone_is_left_out_with_a_notice() -> None:
    exchange = exchange_for("Hi", history=[reference("gone"), said("m1"), reference("m1")])
    assert [message.content for message in exchange.chat.messages] == ["m1", "Hi"]
    assert exchange.notices == ["history[0]: item 'gone' is no longer stored, and was left out"]


def test_reasoning_that_is_only_an_unknown_id_is_left_out_with_a_notice() -> None:
    history = [thought("rs_1", "Known."), said("m1", "Yes.", "assistant"), empty_thought("rs_old")]
    exchange = exchange_for([empty_thought("rs_1"), empty_thought("rs_2"), said("m2", "Why?")], history=history)
    assert [message.content for message in exchange.chat.messages[1:]] == ["Why?"]
    assert "Known." in str(exchange.chat.messages[0])
    assert exchange.notices == ["input[1]: the text of reasoning item 'rs_2' is not stored here, and was left out"]
