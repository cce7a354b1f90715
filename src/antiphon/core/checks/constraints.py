"""How an answer is constrained: to JSON that follows a schema, in the field that the engine obeys.

A call is such an answer, too: `{"name": …, "arguments": {…}}`. Most engines that do not enforce a tool choice can constrain an
answer to a JSON schema. The tools stay in the prompt, so that the prefix cache stays valid, and
`core.stream.text_calls.ConstrainedCall` turns the answer into an ordinary call. Where every answer must have this form, one
more function, `say`, is for answers in words. Its text becomes an ordinary message.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from antiphon.core.checks.gbnf import schema_to_gbnf, text_to_gbnf
from antiphon.core.checks.schema_support import ANY_OBJECT, Schema, with_inner
from antiphon.core.knowledge.dialect import Dialect
from antiphon.wire.chat import ChatFunction, ChatRequest

ANSWER = "answer"


def constrains(dialect: Dialect) -> bool:
    """The engine can be made to constrain an answer to a schema."""
    return dialect.constrains_json or dialect.constraint_member == "grammar"


def strict_facts(dialect: Dialect) -> Mapping[str, Any]:
    """What is changed after an answer that was not what it had to be: no thought, and the constraint that leaves no room for
    one."""
    return {"thinks": False, **({"constraint_member": "grammar"} if dialect.grammar_member is not None else {})}


def not_constrained(dialect: Dialect) -> Mapping[str, Any]:
    """What is learned from an answer that breaks the schema that it was constrained to: answers are checked, and another field
    may do better."""
    return {"constrains_json": False, **({"constraint_member": "grammar"} if dialect.grammar_member is not None else {})}


def constraint_ignored(dialect: Dialect) -> Mapping[str, Any]:
    """What is learned from an answer that is nothing like the form that it was constrained to: the engine ignores the field. If
    it has no other one, its models are left free."""
    if dialect.constraint_member == "grammar":
        return {"constrains_json": False, "constraint_member": "response_format", "grammar_member": None}
    return not_constrained(dialect)


def is_constrained(chat: ChatRequest) -> bool:
    return chat.response_format is not UNSET or chat.grammar is not UNSET


def schema_to_response_format(schema: Schema) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": ANSWER, "strict": True, "schema": schema}}


def constrain(chat: ChatRequest, format: dict[str, Any], dialect: Dialect) -> None:
    """Constrains the answer to a `response_format`, whichever field says so."""
    fields = dict(dialect.constrained_extra)
    if dialect.constraint_member == "grammar":
        # It begins with the first token, so the template must not leave a thought open.
        fields |= {"grammar": schema_to_gbnf(_schema_of(format), dialect.answer_prefix), **dialect.no_thinking}
        chat.response_format = UNSET
    else:
        chat.response_format = format
    _set(chat, fields)
    _settle_choice(chat, dialect)


def begin_answer(chat: ChatRequest, dialect: Dialect) -> None:
    """Has the engine write what its own parser wants an answer to begin with. The model is free to write anything after it."""
    if dialect.spells_prefix and not is_constrained(chat):
        chat.grammar = text_to_gbnf(dialect.answer_prefix)
        _settle_choice(chat, dialect)


def is_free_text(chat: ChatRequest, dialect: Dialect) -> bool:
    """Only the beginning of the answer is constrained."""
    return chat.grammar == text_to_gbnf(dialect.answer_prefix)


def stop_thinking(chat: ChatRequest, dialect: Dialect) -> None:
    _set(chat, dialect.no_thinking)


def _settle_choice(chat: ChatRequest, dialect: Dialect) -> None:
    """Constrained to something else, the answer cannot be a call of the engine's own format."""
    if chat.tools is UNSET:
        return
    if chat.grammar is not UNSET or not dialect.calls_when_constrained:
        chat.tool_choice = "none"
    elif not isinstance(chat.tool_choice, str):
        chat.tool_choice = "auto"


def _schema_of(format: dict[str, Any]) -> Any:
    return format["json_schema"]["schema"] if format["type"] == "json_schema" else ANY_OBJECT


def _set(chat: ChatRequest, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(chat, name, value)


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


def functions_to_response_format(
    functions: Sequence[ChatFunction], say: ChatFunction | None = None, *, most: int = 1
) -> dict[str, Any]:
    """`say`: the function by which the model answers in words. `most`: how many calls may be made together, in a list."""
    said = [say] if say is not None else []
    schema = functions_to_schema([*functions, *said]) if most == 1 else functions_to_list_schema(functions, said, most)
    return {"type": "json_schema", "json_schema": {"name": NAME, "strict": True, "schema": schema}}


def functions_to_schema(functions: Sequence[ChatFunction]) -> Schema:
    """The schema of a call of one of these functions."""
    definitions: Schema = {}
    calls = [_call(function, definitions) for function in functions]
    schema = _any_of(calls)
    return {**schema, "$defs": definitions} if definitions else schema


def functions_to_list_schema(functions: Sequence[ChatFunction], said: Sequence[ChatFunction], most: int) -> Schema:
    """The schema of a list of calls. An answer in words stands alone: it would say what has come of the calls beside it."""
    definitions: Schema = {}
    lists = [
        {"type": "array", "items": _any_of([_call(each, definitions) for each in these]), "minItems": 1, "maxItems": count}
        for these, count in ((functions, most), (said, 1))
        if these
    ]
    schema = _any_of(lists)
    return {**schema, "$defs": definitions} if definitions else schema


def _any_of(schemas: list[Schema]) -> Schema:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


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
