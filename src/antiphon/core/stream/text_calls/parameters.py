"""Parameters that are written without a type, in tags: the schema of the tool says what is meant."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from antiphon.core.stream.text_calls.nearly_json import Repairs
from antiphon.wire import UNREADABLE

# How deeply a schema is searched for the types of one parameter.
_DEEPEST = 8
_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}

_any = msgspec.json.Decoder().decode


def parameter_types(schema: Any, name: str) -> frozenset[str] | None:
    """The types that a schema allows for one of its properties, or None if it does not say."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or name not in properties:
        return None
    types = list(_types(properties[name], schema, _DEEPEST))
    return None if None in types else frozenset(each for each in types if each is not None)


def _types(schema: Any, root: dict[str, Any], depth: int) -> Iterable[str | None]:
    """None stands for any type."""
    if not isinstance(schema, dict) or depth == 0:
        yield None
    elif isinstance(schema.get("$ref"), str):
        yield from _types(_referenced(schema["$ref"], root), root, depth - 1)
    elif "type" in schema:
        given = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        yield from (each if isinstance(each, str) else None for each in given)
    elif isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
        yield from (_JSON_TYPES.get(type(value)) for value in values)
    else:
        branches = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key) or ()]
        for branch in branches or [None]:
            yield from _types(branch, root, depth - 1)


def _referenced(reference: str, root: dict[str, Any]) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def parameter_to_json(written: str, types: frozenset[str] | None, repairs: Repairs) -> bytes:
    """The value that is meant. Without known types, what is JSON is taken as such, unless it is a string."""
    value = written.removeprefix("\n").removesuffix("\n")
    for candidate in _readings(value, types, repairs):
        try:
            kind = _JSON_TYPES[type(_any(candidate))]
        except UNREADABLE:
            continue
        if kind != "string" and _is_allowed(kind, types):
            return candidate.strip().encode()
    return string_to_json(value)


def _readings(value: str, types: frozenset[str] | None, repairs: Repairs) -> Iterable[str]:
    yield value
    if types is not None and "string" not in types:
        yield _PYTHON_WORDS.get(value.strip(), "")
        if value.lstrip().startswith(("{", "[")):
            yield repairs.repaired(value) or ""


def _is_allowed(kind: str, types: frozenset[str] | None) -> bool:
    # A number that is no string is sent as it is: what is wrong with it can be checked and reported.
    return types is None or kind in types or "string" not in types


def string_to_json(value: str) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
