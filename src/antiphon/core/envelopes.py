"""A call as a constrained answer: the schema of `{"name": …, "arguments": {…}}` over the tools of which one must be called.

Engines that do not enforce a choice of tools mostly do hold an answer to a JSON schema. The tools stay in the prompt as they
are, so that the prefix cache holds; `core.text_calls.Envelope` makes ordinary calls of what the engine then writes.
"""

from collections.abc import Sequence
from typing import Any

from antiphon.core.schema_support import Schema, with_inner
from antiphon.wire.chat import ChatFunction

NAME = "tool_call"
# Says what an object is made of; without any of these it is any object.
SHAPES = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"})
# Several schemas speak of the same object here; closing one of them would shut out what another lists.
COMPOSED = frozenset({"allOf", "not", "if", "dependentSchemas", "unevaluatedProperties"})


def functions_to_response_format(functions: Sequence[ChatFunction]) -> dict[str, Any]:
    schema = functions_to_schema(functions)
    return {"type": "json_schema", "json_schema": {"name": NAME, "strict": True, "schema": schema}}


def functions_to_schema(functions: Sequence[ChatFunction]) -> Schema:
    """One function's call by its own schema, several by a choice among them."""
    definitions: Schema = {}
    calls = [_call(function, definitions) for function in functions]
    schema: Schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {**schema, "$defs": definitions} if definitions else schema


def _call(function: ChatFunction, definitions: Schema) -> Schema:
    parameters = {name: value for name, value in (function.parameters or {}).items() if name not in ("$schema", "$id")}
    if not parameters.keys() & SHAPES:
        parameters = {"type": "object", **parameters}
    arguments = closed(parameters)
    if _refers(arguments):
        # What it refers to lies further inwards now.
        definitions[function.name] = _moved(arguments, f"#/$defs/{function.name}")
        arguments = {"$ref": f"#/$defs/{function.name}"}
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def closed(schema: Any) -> Any:
    """The schema without room for members that it does not list: what a model invents there helps nobody."""
    if not isinstance(schema, dict) or schema.keys() & COMPOSED:
        return schema
    shut = with_inner(schema, closed)
    if "properties" in shut and not shut.keys() & {"additionalProperties", "patternProperties"}:
        shut["additionalProperties"] = False
    return shut


def _refers(value: Any) -> bool:
    if isinstance(value, dict):
        return "$ref" in value or any(_refers(inner) for inner in value.values())
    return isinstance(value, list) and any(_refers(inner) for inner in value)


def _moved(value: Any, to: str) -> Any:
    if isinstance(value, list):
        return [_moved(inner, to) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        name: to + inner[1:] if name == "$ref" and isinstance(inner, str) and inner.startswith("#") else _moved(inner, to)
        for name, inner in value.items()
    }
