"""The JSON schema of a call, `{"name": …, "arguments": {…}}`, for the tools of which one must be called.

Most engines that do not enforce a tool choice can constrain an answer to a JSON schema. The tools stay in the prompt, so that
the prefix cache stays valid. `core.text_calls.ConstrainedCall` turns the answer into an ordinary call.

Where every answer must have this form, one more function, `say`, is for answers in words. Its text becomes an ordinary message.
"""

from collections.abc import Container, Sequence
from typing import Any

from antiphon.core.checks.schema_support import Schema, with_inner
from antiphon.wire.chat import ChatFunction

NAME = "tool_call"
# The keywords that define a shape; a schema without any of them allows every object.
SHAPES = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"})
# With these, several schemas describe the same object: closing one would forbid what another lists.
COMPOSED = frozenset({"allOf", "not", "if", "dependentSchemas", "unevaluatedProperties"})


# The function by which a model answers in words, and its one parameter. Small models choose it much more often than a form of
# its own, such as {"say": …}: it is one of the functions that their template has taught them to choose from.
SAY, TEXT = "say", "text"
SAY_DESCRIPTION = (
    "Tell the user something. Use it when the work is done, when no other tool is needed, and for greetings, thanks and "
    "general questions."
)
SAY_PARAMETERS: Schema = {
    "type": "object",
    "properties": {TEXT: {"type": "string", "description": "What the user reads."}},
    "required": [TEXT],
    "additionalProperties": False,
}


def say_function(taken: Container[str]) -> ChatFunction:
    """The function by which a model answers in words. `taken`: the names of the client's functions."""
    name = SAY
    while name in taken:
        name += "_"
    return ChatFunction(name, SAY_DESCRIPTION, SAY_PARAMETERS)


def functions_to_response_format(functions: Sequence[ChatFunction]) -> dict[str, Any]:
    schema = functions_to_schema(functions)
    return {"type": "json_schema", "json_schema": {"name": NAME, "strict": True, "schema": schema}}


def functions_to_schema(functions: Sequence[ChatFunction]) -> Schema:
    """The schema of a call of one of these functions."""
    definitions: Schema = {}
    calls = [_call(function, definitions) for function in functions]
    schema: Schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {**schema, "$defs": definitions} if definitions else schema


def _call(function: ChatFunction, definitions: Schema) -> Schema:
    parameters = {name: value for name, value in (function.parameters or {}).items() if name not in ("$schema", "$id")}
    if not parameters.keys() & SHAPES:
        parameters = {"type": "object", **parameters}
    arguments = closed(parameters)
    if _has_ref(arguments):
        # References start at the root of the schema, which the parameters are not any more.
        definitions[function.name] = _with_refs_moved(arguments, f"#/$defs/{function.name}")
        arguments = {"$ref": f"#/$defs/{function.name}"}
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def closed(schema: Any) -> Any:
    """The schema without additional members: what a model invents there is of no use."""
    if not isinstance(schema, dict) or schema.keys() & COMPOSED:
        return schema
    result = with_inner(schema, closed)
    if "properties" in result and not result.keys() & {"additionalProperties", "patternProperties"}:
        result["additionalProperties"] = False
    return result


def _has_ref(value: Any) -> bool:
    if isinstance(value, dict):
        return "$ref" in value or any(_has_ref(inner) for inner in value.values())
    return isinstance(value, list) and any(_has_ref(inner) for inner in value)


def _with_refs_moved(value: Any, to: str) -> Any:
    if isinstance(value, list):
        return [_with_refs_moved(inner, to) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        name: to + inner[1:]
        if name == "$ref" and isinstance(inner, str) and inner.startswith("#")
        else _with_refs_moved(inner, to)
        for name, inner in value.items()
    }
