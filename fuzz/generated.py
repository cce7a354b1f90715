"""Requests from the schemas of the API, by hypothesis: mostly valid ones, with a wrong value here and there."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from antiphon.wire.responses import CreateResponse

SCHEMAS = Path(__file__).parent.parent / "tests" / "conformance" / "schemas" / "openai.json"
Schema = dict[str, Any]

words = st.text(alphabet='ab {}"\\\n<>é', max_size=8) | st.sampled_from(
    ["call_1", "look", "auto", "user", "data:image/png;base64,aGk="]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id", "a"]), inner, max_size=3)
    ),
    max_leaves=5,
)
# Of the values of a type that says no more.
SIMPLE: Mapping[str, st.SearchStrategy[Any]] = {
    "string": words,
    "integer": st.integers(-2, 40) | st.integers(),
    "number": st.floats(-3, 3) | st.integers(-3, 3),
    "boolean": st.booleans(),
    "null": st.none(),
    "array": st.lists(anything, max_size=2),
    "object": st.dictionaries(words, anything, max_size=2),
}


@cache
def _components() -> dict[str, Schema]:
    schemas: dict[str, Schema] = msgspec.json.decode(SCHEMAS.read_bytes())["components"]["schemas"]
    return schemas | {f"own {name}": schema for name, schema in _own_schemas().items()}


@cache
def _own_schemas() -> dict[str, Schema]:
    _, components = msgspec.json.schema_components([CreateResponse], ref_template="#/own {name}")
    return components


@cache
def named(name: str) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _by_schema(_components()[name]))


def _by_schema(schema: Schema) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return named(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return st.one_of([_by_schema(each) for each in schema[union]])
    if "allOf" in schema:
        parts = [_by_schema(each) for each in schema["allOf"]]
        return parts[0] if len(parts) == 1 else st.tuples(*parts).map(_merged)
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of([_by_schema({**schema, "type": each}) for each in kind])
    if kind == "array" and "items" in schema:
        return st.lists(_by_schema(schema["items"]), max_size=2)
    if kind == "object" and schema.get("properties"):
        return _object(schema)
    return SIMPLE.get(str(kind), anything)


def _merged(parts: tuple[Any, ...]) -> Any:
    return {name: value for part in parts if isinstance(part, dict) for name, value in part.items()}


def _object(schema: Schema) -> st.SearchStrategy[Any]:
    members = {name: _by_schema(each) for name, each in schema["properties"].items()}
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: each for name, each in members.items() if name in required},
        optional={name: each for name, each in members.items() if name not in required},
    )


@cache
def requests() -> st.SearchStrategy[Any]:
    """The fields that the gateway knows, with items and tools of every type that the API knows."""
    fields = {name: _by_schema(each) for name, each in _own_schemas()["CreateResponse"]["properties"].items()}
    fields["input"] = words | st.lists(named("InputItem"), max_size=4)
    fields["tools"] = st.lists(named("Tool"), max_size=3)
    fields["tool_choice"] = named("ToolChoiceParam") if "ToolChoiceParam" in _components() else words
    model = {"model": st.just("mock"), "input": fields.pop("input")}
    chosen = st.lists(st.sampled_from(sorted(fields)), max_size=5, unique=True)
    valid = chosen.flatmap(lambda names: st.fixed_dictionaries(model | {name: fields[name] for name in names}))
    return valid | st.tuples(valid, st.sampled_from(sorted(fields)), anything).map(lambda made: {**made[0], made[1]: made[2]})


def generate(count: int, seed: int) -> list[bytes]:
    """So many bodies, always the same ones for a seed."""
    made: list[bytes] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(requests())
    def collect(body: Any) -> None:
        made.append(msgspec.json.encode(body))

    collect()
    return made[:count]
