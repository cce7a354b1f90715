"""How an answer is constrained: to JSON that follows a schema, in the field that the engine obeys."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from antiphon.core.checks.gbnf import schema_to_gbnf, text_to_gbnf
from antiphon.core.checks.schema_support import ANY_OBJECT, Schema
from antiphon.core.knowledge.dialect import Dialect
from antiphon.wire.chat import ChatRequest

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
