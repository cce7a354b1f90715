"""Real llama.cpp accepts every grammar that a schema becomes, and what it generates under it follows the schema."""

import json
from typing import Any

import httpx
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.core.checks.gbnf import schema_to_gbnf

NODE = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
}
SCHEMAS: dict[str, Any] = {
    "optional": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {"type": "boolean"}}},
    "some required": {"type": "object", "properties": {"a": True, "b": {"type": "null"}}, "required": ["b", 'é "\n']},
    "open": {"type": "object", "additionalProperties": {"type": "integer"}},
    "closed": {"type": "object", "additionalProperties": False},
    "recursive": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "circle": {"anyOf": [{"$ref": "#"}, {"const": 'é\t"\\'}]},
    "lengths": {"type": "string", "minLength": 3, "maxLength": 5},
    "long": {"type": "array", "items": {"type": "string", "maxLength": 256}, "minItems": 2, "maxItems": 256},
    "beyond": {"type": "string", "minLength": 9, "maxLength": 100_000, "pattern": "^"},
    "tuple": {"type": "array", "prefixItems": [{"const": 1}, {"enum": [None, {"a": []}]}], "items": False},
    "types": {"type": ["integer", "null", "array"], "items": {"type": "boolean"}},
    "merged": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]},
        ]
    },
    "integers": {"type": "array", "items": {"type": "integer", "minimum": -12, "exclusiveMaximum": 1000}, "maxItems": 4},
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "maxItems": 4},
    "anything": {},
    "wide": {"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(512)}},
}


def generate(engine: str, schema: Any, seed: int) -> str:
    """What comes under the grammar, cut off before long."""
    body = {
        "messages": [{"role": "user", "content": "Hi"}],
        "grammar": schema_to_gbnf(schema),
        "max_tokens": 1500,
        "seed": seed,
    }
    answer = httpx.post(f"{engine}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, f"{schema}: {answer.text}"
    choice = answer.json()["choices"][0]
    return choice["message"]["content"] if choice["finish_reason"] == "stop" else ""


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_what_is_generated_follows_the_schema(tiny: str, schema: Any) -> None:
    answers = [text for seed in range(6) if (text := generate(tiny, schema, seed))]
    assert answers
    for text in answers:
        assert jsonschema_rs.is_valid(schema, json.loads(text)), text


def test_a_schema_of_many_levels_is_a_grammar(tiny: str) -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(10_000):
        schema = {"type": "array", "items": schema}
    assert generate(tiny, schema, 0) in ("[]", "[ ]", "[  ]", "")


NAMES = st.text(max_size=4)
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
COUNTS = st.integers(0, 3000)
LEAVES = (
    st.sampled_from([True, {}, {"type": "integer"}, {"type": "null"}, {"$ref": "#"}, {"type": "odd"}, {"$ref": "#/$defs/none"}])
    | st.builds(lambda value: {"const": value}, VALUES)
    | st.builds(lambda values: {"enum": values}, st.lists(VALUES, max_size=3))
    | st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": COUNTS, "maxLength": COUNTS})
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, max_size=3)
    return (
        st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={
                "properties": st.dictionaries(NAMES, inner, max_size=3),
                "required": st.lists(NAMES, max_size=2),
                "additionalProperties": inner | st.booleans(),
                "anyOf": several,
            },
        )
        | st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={"items": inner | st.booleans(), "prefixItems": several, "minItems": COUNTS, "maxItems": COUNTS},
        )
        | st.builds(lambda keyword, schemas: {keyword: schemas}, st.sampled_from(["anyOf", "oneOf", "allOf"]), several)
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schema=st.recursive(LEAVES, containers, max_leaves=12))
def test_every_schema_is_a_grammar(tiny: str, schema: Any) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "grammar": schema_to_gbnf(schema), "max_tokens": 8}
    answer = httpx.post(f"{tiny}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
