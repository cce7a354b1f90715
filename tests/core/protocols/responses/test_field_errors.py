"""Complaints about fields: OpenAI's codes, and messages that say what is allowed."""

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest


class Cat(Struct, tag="cat"):
    lives: Annotated[int, Meta(ge=1, le=9)]


class Dog(Struct, tag="dog", forbid_unknown_fields=True):
    breed: Literal["collie", "pug"] | None = None


class House(Struct):
    pets: Annotated[list[Cat | Dog], Meta(min_length=1, max_length=2)] | None = None
    name: Annotated[str, Meta(min_length=1, max_length=5, pattern="^[a-z]*$")] | None = None
    heat: Annotated[float, Meta(ge=0, le=1)] | None = None
    owner: str | list[str] | None = None
    labels: Annotated[dict[str, Literal["yes", "no"]], Meta(max_length=1)] | None = None
    open: bool = True


CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a missing member": (
        {"pets": [{"type": "cat"}]},
        "house.pets[0].lives",
        "missing_required_parameter",
        "Missing required parameter: `house.pets[0].lives`.",
    ),
    "an unknown member": (
        {"pets": [{"type": "dog", "lives": 9}]},
        "house.pets[0].lives",
        "unknown_parameter",
        "Unknown parameter: `house.pets[0].lives`.",
    ),
    "an enum": (
        {"pets": [{"type": "dog", "breed": "cat"}]},
        "house.pets[0].breed",
        "invalid_value",
        "Invalid `house.pets[0].breed`: 'cat' must be one of: collie, pug.",
    ),
    "a kind of object": (
        {"pets": [{"type": "cow"}]},
        "house.pets[0].type",
        "invalid_value",
        "Invalid `house.pets[0].type`: 'cow' must be one of: cat, dog.",
    ),
    "an enum in an object with free names": (
        {"labels": {"a": "maybe"}},
        "house.labels.a",
        "invalid_value",
        "Invalid `house.labels.a`: 'maybe' must be one of: no, yes.",
    ),
    "a type": (
        {"open": 3},
        "house.open",
        "invalid_type",
        "Invalid type for `house.open`: it must be a boolean, not an integer.",
    ),
    "one of several types": (
        {"owner": 2.5},
        "house.owner",
        "invalid_type",
        "Invalid type for `house.owner`: it must be a string or an array, not a number.",
    ),
    "null": (
        {"open": None},
        "house.open",
        "invalid_type",
        "Invalid type for `house.open`: it must be a boolean, not null.",
    ),
    "an integer too small": (
        {"pets": [{"type": "cat", "lives": 0}]},
        "house.pets[0].lives",
        "integer_below_min_value",
        "Invalid `house.pets[0].lives`: it must be at least 1.",
    ),
    "an integer too large": (
        {"pets": [{"type": "cat", "lives": 10}]},
        "house.pets[0].lives",
        "integer_above_max_value",
        "Invalid `house.pets[0].lives`: it must be at most 9.",
    ),
    "a number too small": (
        {"heat": -0.5},
        "house.heat",
        "decimal_below_min_value",
        "Invalid `house.heat`: it must be at least 0.0.",
    ),
    "a number too large": (
        {"heat": 1.5},
        "house.heat",
        "decimal_above_max_value",
        "Invalid `house.heat`: it must be at most 1.0.",
    ),
    "an empty string": (
        {"name": ""},
        "house.name",
        "empty_string",
        "Invalid `house.name`: the string must not be empty.",
    ),
    "a string too long": (
        {"name": "abcdef"},
        "house.name",
        "string_above_max_length",
        "Invalid `house.name`: a string may have at most 5 characters here.",
    ),
    "a pattern": (
        {"name": "A"},
        "house.name",
        "invalid_value",
        "Invalid `house.name`: the string must match the pattern '^[a-z]*$'.",
    ),
    "an empty array": (
        {"pets": []},
        "house.pets",
        "empty_array",
        "Invalid `house.pets`: the array must not be empty.",
    ),
    "an array too long": (
        {"pets": [{"type": "dog"}] * 3},
        "house.pets",
        "array_above_max_length",
        "Invalid `house.pets`: the array may have at most 2 elements.",
    ),
    "an object too large": (
        {"labels": {"a": "yes", "b": "no"}},
        "house.labels",
        "object_above_max_properties",
        "Invalid `house.labels`: the object may have at most 1 members.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_field_has_openais_code_and_says_what_is_allowed(name: str) -> None:
    value, param, code, message = CASES[name]
    with pytest.raises(InvalidRequest) as raised:
        convert(value, House, "house")
    assert (raised.value.param, raised.value.code, raised.value.message) == (param, code, message)


def test_a_value_that_is_wrong_as_a_whole_is_named_by_its_place() -> None:
    with pytest.raises(InvalidRequest) as raised:
        convert(3, House, "input[2]")
    assert (raised.value.param, raised.value.code) == ("input[2]", "invalid_type")


def test_of_a_very_long_value_the_message_has_a_part() -> None:
    with pytest.raises(InvalidRequest) as raised:
        convert({"pets": [{"type": "dog", "breed": "x" * 1_000_000}]}, House, "house")
    assert raised.value.param == "house.pets[0].breed"
    assert raised.value.message.startswith("Invalid `house.pets[0].breed`: 'xxx")
    assert raised.value.message.endswith("xxx' must be one of: collie, pug.")
    assert len(raised.value.message) < 2000
