"""JSON schema → GBNF: what a grammar says, and that no schema breaks it. tests/llamacpp/test_gbnf.py has the engine's view."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.checks.gbnf import (
    ANY,
    COMMON,
    LARGEST,
    MOST_CHARACTERS,
    MOST_REPETITIONS,
    MOST_RULES,
    integer_to_gbnf,
    number_to_gbnf,
    schema_to_gbnf,
    text_to_gbnf,
)

CLOSED = {"type": "object", "additionalProperties": False}


def rules(schema: Any) -> dict[str, str]:
    """The rules of a grammar by name, without those that every grammar has."""
    own = schema_to_gbnf(schema).removesuffix(COMMON).strip()
    return dict(line.split(" ::= ", 1) for line in own.split("\n"))


def test_required_properties_come_in_their_order() -> None:
    schema = {**CLOSED, "properties": {"b": {"type": "integer"}, "a": {"type": "null"}}, "required": ["a", "b"]}
    assert rules(schema)["s0"] == r'"{" ws "\"b\"" ":" ws s1 "," ws "\"a\"" ":" ws s2 ws "}"'


def test_a_property_that_is_not_required_may_be_missing_with_its_comma() -> None:
    found = rules({**CLOSED, "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["b"]})
    assert found["s0-begin0"] == r'"\"a\"" ":" ws s1 s0-after1 | s0-begin1'
    assert found["s0-after1"] == r'"," ws "\"b\"" ":" ws s2 s0-after2'
    assert found["s0-after2"] == '""'


def test_further_properties_follow_their_schema() -> None:
    found = rules({"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "integer"}})
    assert found["s0-extra"] == 'string ":" ws s1'
    assert found["s1"] == "integer"


def test_quotes_and_line_breaks_of_names_and_values_are_escaped() -> None:
    assert rules({"const": 'a "b"\n\\'})["s0"] == r'"\"a \\\"b\\\"\\n\\\\\""'


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "string", "minLength": 2, "maxLength": 4}, r'"\"" char{2,4} "\""'),
        ({"type": "string", "maxLength": 100_000}, r'"\"" char* "\""'),
        ({"type": "string", "minLength": 100_000}, rf'"\"" char{{{MOST_REPETITIONS},}} "\""'),
        # No text has these lengths.
        ({"type": "string", "minLength": 5, "maxLength": 4}, r'"\"" char* "\""'),
        ({"type": "array", "items": {"type": "null"}, "minItems": 1}, '"[" ws s1 ("," ws s1)* ws "]"'),
        ({"type": "array", "items": {"type": "null"}, "maxItems": 3}, '"[" ws (s1 ("," ws s1){0,2})? ws "]"'),
        ({"type": "array", "maxItems": 0}, '"[" ws "]"'),
        ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False}, '"[" ws s1 "," ws s2 ws "]"'),
        ({"type": ["integer", "null"]}, "s1 | s2"),
        ({"enum": ["a", 1, None]}, r'"\"a\"" | "1" | "null"'),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "s1 | s2"),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "s1 | s2"),
        ({"type": "number", "multipleOf": 3}, "number"),
        ({"type": "integer", "minimum": 0, "maximum": 9}, "[0-9]"),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 25}, "[1-9] | [2] [0-5] | [1] [0-9]{1}"),
        ({"type": "integer", "minimum": -2, "maximum": 3}, '[0-3] | "-" ([1-2])'),
        ({"type": "number", "minimum": 0, "maximum": 1}, '"0" | "1" | ([0]) ("." [0-9]{1,15})?'),
        # No number is in the range.
        ({"type": "integer", "minimum": 5, "maximum": 4}, "integer"),
        ({"type": "number", "minimum": 5, "maximum": 4}, "number"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_a_value_is_constrained(schema: dict[str, Any], body: str) -> None:
    assert rules(schema)["s0"] == body


@pytest.mark.parametrize("schema", [True, False, None, {}, "text", []])
def test_what_says_nothing_is_any_value(schema: Any) -> None:
    assert rules(schema) == {"root": ANY}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["what"], "properties": 1, "allOf": [{"properties": 1}, {"required": 1}]},
        {"not": {}},
        {"type": "what"},
        {"enum": []},
        {"anyOf": []},
        {"allOf": [{"not": {}}, {"not": {}}]},
        {"anyOf": 1},
    ],
    ids=str,
)
def test_what_is_not_known_is_any_value(schema: dict[str, Any]) -> None:
    assert ANY in rules(schema).values()


def test_what_is_no_schema_breaks_nothing() -> None:
    schema = {"type": {}, "properties": [], "required": {}, "items": 3, "anyOf": [{"properties": 1, "required": 1}]}
    assert rules(schema)["s0"] == "s1"


def test_references_stay_in_the_document() -> None:
    definitions = {"$defs": {"a/b": {"type": "null"}, "list": [{"const": 1}]}}
    assert rules({"$ref": "#/$defs/a~1b", **definitions})["s0"] == "null"
    assert rules({"$ref": "#/$defs/list/0", **definitions})["s0"] == '"1"'
    for elsewhere in ("https://example.com/s.json", "#/$defs/none", "#/$defs/list/7", 7):
        assert rules({"$ref": elsewhere, **definitions}) == {"root": ANY}


def test_a_recursive_schema_is_a_recursive_rule() -> None:
    found = rules({**CLOSED, "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})
    assert found["s0"] == r'"{" ws "\"next\"" ":" ws s1 ws "}"'
    assert found["s1"] == "s0 | s2"


def test_a_choice_that_leads_back_to_itself_is_left_out() -> None:
    assert rules({"$ref": "#"}) == {"root": ANY}
    assert rules({"anyOf": [{"$ref": "#"}, {"type": "null"}]})["s0"] == "s1"
    two = {"anyOf": [{"$ref": "#/$defs/b"}, {"const": 1}], "$defs": {"b": {"anyOf": [{"$ref": "#"}, {"const": 2}]}}}
    assert rules(two) == {"root": "s0", "s0": "s1 | s2", "s1": "s3", "s2": '"1"', "s3": '"2"'}


def test_parts_of_one_object_are_merged() -> None:
    part = {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]}
    whole = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    expected = r'"{" ws "\"a\"" ":" ws s2 "," ws "\"b\"" ":" ws s3 ws "}"'
    assert rules({"allOf": [whole, part]})["s1"] == expected
    assert rules({**whole, "allOf": [{"$ref": "#/$defs/part"}], "$defs": {"part": part}})["s1"] == expected
    assert rules({**whole, "anyOf": [part]})["s1"] == expected


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def test_a_schema_of_any_depth_or_width_has_few_rules() -> None:
    assert len(rules(deep(100_000))) == MOST_RULES + 1
    wide = {"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(20_000)}}
    assert rules(wide)["s0"] == "object"


def test_a_grammar_may_begin_with_other_text() -> None:
    assert schema_to_gbnf({"type": "null"}, 'final:\n"').startswith(r'root ::= "final:\n\"" s0')
    assert text_to_gbnf("final:") == r'root ::= "final:" [^\x00]*'


PROPERTIES = {f"k{number}": {"type": "string"} for number in range(400)}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": PROPERTIES, "anyOf": [{"$ref": "#/$defs/other"}] * 2000, "$defs": {"other": {"properties": PROPERTIES}}},
        {"type": ["object", "array"] * 2000, "properties": PROPERTIES},
        {"properties": {name: {"type": ["object", "null"], "properties": PROPERTIES} for name in PROPERTIES}},
    ],
)
def test_a_schema_that_repeats_its_parts_does_not_make_an_endless_grammar(schema: dict[str, Any]) -> None:
    grammar = schema_to_gbnf(schema)
    assert len(grammar) < 2 * MOST_CHARACTERS
    defined = {line.partition(" ::= ")[0] for line in grammar.splitlines()}
    assert set(re.findall(r"\bs\d+(?:-\w+)?", re.sub(r'"(?:[^"\\]|\\.)*"', "", grammar))) <= defined


def _pattern(grammar: str) -> re.Pattern[str]:
    """The body of a rule for a number, as a regular expression."""
    written = re.sub(r'"([^"]*)"', lambda match: re.escape(match.group(1)), grammar)
    return re.compile(re.sub(r" *\| *", "|", written).replace(" ", ""))


BOUNDS = st.integers(-1200, 1200) | st.integers(-(10**18), 10**18)


@given(low=BOUNDS, width=st.integers(0, 3000) | st.integers(0, 10**18), steps=st.integers(-50, 50))
def test_the_grammar_of_an_integer_allows_what_is_in_its_range_and_nothing_else(low: int, width: int, steps: int) -> None:
    high = low + width
    pattern = _pattern(integer_to_gbnf({"type": "integer", "minimum": low, "maximum": high}))
    for value in {low - 1, low, low + 1, high - 1, high, high + 1, low + steps, high + steps, 0, (low + high) // 2}:
        if max(abs(low), abs(high), abs(value)) <= LARGEST:
            assert bool(pattern.fullmatch(str(value))) is (low <= value <= high), value


@given(low=st.integers(-300, 300), width=st.integers(0, 400), tenths=st.integers(-8000, 8000))
def test_the_grammar_of_a_number_allows_what_is_in_its_range_and_nothing_else(low: int, width: int, tenths: int) -> None:
    pattern = _pattern(number_to_gbnf({"type": "number", "minimum": low, "maximum": low + width}))
    value = tenths / 10
    written = str(value).removesuffix(".0") if value else "0"
    assert bool(pattern.fullmatch(written)) is (low <= value <= low + width)
