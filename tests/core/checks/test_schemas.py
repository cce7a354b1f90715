"""Schemas: what follows them, what is wrong, what can be repaired, and what engines enforce of them."""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.checks import schemas
from antiphon.core.checks.constraints import closed, functions_to_schema
from antiphon.core.checks.schema_support import is_enforced
from antiphon.core.checks.work import CheckOutcome
from antiphon.wire.chat import ChatFunction

TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["C", "F"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}},
        "sunny": {"type": "boolean"},
    },
    "required": ["city", "note"],
    "additionalProperties": False,
    "$defs": {"stop": {"type": "object", "properties": {"at": {"type": "number"}}, "required": ["at"]}},
}
ENCODED = msgspec.json.encode(TRIP)


def complaint(text: str, schema: dict[str, Any] = TRIP) -> str | None:
    return schemas.check(msgspec.json.encode(schema), text, repair=False).complaint


def repaired(text: str) -> str:
    return schemas.check(ENCODED, text, repair=True).text


def repaired_members(**members: Any) -> Any:
    return msgspec.json.decode(repaired(msgspec.json.encode(members).decode()))


def test_what_follows_the_schema_is_left_as_it_is() -> None:
    text = '{ "note":null,"city" : "Paris" }'
    assert complaint(text) is None
    assert repaired(text) == text


@pytest.mark.parametrize(
    ("given", "fitting"),
    [
        ({"days": "3"}, {"days": 3}),
        ({"days": 3.0}, {"days": 3}),
        ({"unit": "c"}, {"unit": "C"}),
        ({"sunny": "True"}, {"sunny": True}),
        ({"city": 7}, {"city": "7"}),
        ({"stops": {"at": "2.5"}}, {"stops": [{"at": 2.5}]}),
        ({"mood": "good"}, {}),
    ],
    ids=["in quotes", "a whole float", "another case", "a word", "a bare number", "one for many", "extra"],
)
def test_a_member_that_says_it_otherwise_is_put_right(given: dict[str, Any], fitting: dict[str, Any]) -> None:
    trip = {"city": "Paris", "note": None, "days": 2}
    assert repaired_members(**trip | given) == trip | fitting


def test_a_member_that_can_only_be_one_thing_is_filled_in() -> None:
    assert repaired_members(city="Paris") == {"city": "Paris", "note": None}


@pytest.mark.parametrize("text", ["", "Paris", '{"city": 7, "days": "soon"}', "[]", '{"city": "Paris", "days": {}}'])
def test_what_cannot_be_put_right_is_left_and_complained_about(text: str) -> None:
    assert repaired(text) == text
    assert complaint(text)


def test_a_complaint_names_the_places() -> None:
    found = complaint('{"city": "Paris", "note": null, "stops": [{"at": "noon"}]}')
    assert found is not None
    assert "at stops/0/at" in found


def test_a_number_may_be_too_large_for_a_machine() -> None:
    numbers = {"type": "array", "items": {"type": "number"}}
    assert complaint("[1e999, -1e999, 2]", numbers) is None
    assert complaint("[1e999, ]", numbers)


COUNTED = {
    "type": "object",
    "properties": {"n": {"type": ["integer", "number"]}},
    "required": ["n"],
    "additionalProperties": False,
}
ANYTHING = {"type": "object"}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ('{"n": 1e999, "extra": 1}', COUNTED),
        ('{"n": -1e999, "extra": 1}', COUNTED),
        ('```json\n{"n": 1e999}\n```', COUNTED),
        ('{"n": "1e999"}', COUNTED),
        (f'{{"n": {"9" * 5000}, "extra": 1}}', COUNTED),
        ('{"a": 1e999,}', ANYTHING),
        ('{"a": [{"b": -1e999}],}', ANYTHING),
    ],
)
def test_a_repair_makes_no_other_number_of_one_that_is_too_large(text: str, schema: dict[str, Any]) -> None:
    assert schemas.check(msgspec.json.encode(schema), text, repair=True) == CheckOutcome(text, complaint(text, schema))
    assert complaint(text, schema) is not None


def test_a_repair_leaves_a_large_number_as_short_as_it_is() -> None:
    encoded = msgspec.json.encode(COUNTED)
    cases = {"1e300": "1e300", '"1e25"': "1e25", "9007199254740992.0": "9007199254740992", "2e3": "2000"}
    for number, written in cases.items():
        outcome = schemas.check(encoded, f'{{"n": {number}, "extra": 1}}', repair=True)
        assert outcome == CheckOutcome(f'{{"n":{written}}}')


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/s.json", "file:///etc/hostname", "#/$defs/none"])
def test_nothing_is_fetched_for_a_schema(address: str) -> None:
    assert schemas.complaint_about(msgspec.json.encode({"$ref": address})) is not None
    assert schemas.complaint_about(ENCODED) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab3,}\"'", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*TRIP["properties"], "x"]), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, st.text("{}[]\"',:`\n abc1", max_size=6), st.integers(0, 40))
def test_a_repair_never_makes_it_worse(value: Any, around: str, cut: int) -> None:
    """A repaired text follows the schema; all else is left as it was."""
    whole = msgspec.json.encode(value).decode()
    for text in (whole, around + whole, whole + around, whole[:cut], whole.replace('"', "'")):
        better = repaired(text)
        assert better == text or complaint(better) is None


# ---- what engines make of them ---------------------------------------------------------------------------------------


def test_only_what_grammars_are_made_of_is_relied_on() -> None:
    assert is_enforced(TRIP)
    assert not is_enforced({**TRIP, "properties": {"city": {"type": "string", "format": "date"}}})
    assert not is_enforced({"type": "array", "items": {"not": {"type": "string"}}})
    # A property may have any name.
    assert is_enforced({"type": "object", "properties": {"not": {"type": "string"}}})


def test_objects_are_closed_unless_they_say_otherwise() -> None:
    point = {"type": "object", "properties": {"x": {"type": "object", "properties": {}}}}
    assert closed(point)["additionalProperties"] is False
    assert closed(point)["properties"]["x"]["additionalProperties"] is False
    for open in ({**point, "additionalProperties": True}, {"allOf": [point, point]}, {"type": "object"}):
        assert closed(open) == open or closed(open)["additionalProperties"] is True


def test_references_still_lead_to_what_they_meant() -> None:
    """Two tools with definitions of the same name, and one that contains itself."""
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}, "leaf": {"$ref": "#/$defs/leaf"}}}
    functions = [
        ChatFunction("plant", parameters={**tree, "$defs": {"leaf": {"type": "integer"}}}),
        ChatFunction("prune", parameters={**tree, "$defs": {"leaf": {"type": "string"}}, "$id": "https://example.com/x"}),
        ChatFunction("rest", parameters=None),
    ]
    validator = jsonschema_rs.validator_for(functions_to_schema(functions))

    def valid(name: str, arguments: Any) -> bool:
        return validator.is_valid({"name": name, "arguments": arguments})

    assert valid("plant", {"child": {"child": {"leaf": 1}}})
    assert not valid("plant", {"child": {"leaf": "green"}})
    assert valid("prune", {"child": {"leaf": "green"}})
    assert not valid("prune", {"leaf": 1})
    assert valid("rest", {})
    assert not valid("rest", [])
    assert not valid("sing", {})
