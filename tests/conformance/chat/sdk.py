"""The names that the openai SDK knows of Chat Completions, read from its types: of fields, messages, parts, tools and answers.

What has members is named by their paths, without the indices of lists.
"""

import typing
from collections.abc import Iterator
from typing import Any

from conformance.chat.paths import UNREAD
from conformance.sdk import literals, types_of, variants
from openai.types import chat
from openai.types.chat import completion_create_params as create
from openai.types.chat.chat_completion import Choice
from pydantic import BaseModel


def names() -> dict[str, set[str]]:
    """Kind → the names of its things, as the manifest has them."""
    fields = _hints(create.CompletionCreateParamsStreaming)
    messages = {role: message for message in variants(chat.ChatCompletionMessageParam) for role in _roles(message)}
    parts = (part for message in messages.values() for part in _objects(_hints(message)["content"]))
    assistant = _hints(messages["assistant"])
    return {
        "request field": {path for name, kind in fields.items() for path in _paths(name, kind)},
        "message": {f"{role}.{name}" for role, message in messages.items() for name in _hints(message) if name != "role"},
        "content part": {path for part in parts for path in _members(part)},
        "call": {path for call in _objects(assistant["tool_calls"]) for path in _members(call)},
        "tool": {path for tool in _objects(chat.ChatCompletionToolUnionParam) for path in _members(tool)},
        "tool choice": set(types_of(chat.ChatCompletionToolChoiceOptionParam)),
        "response format": {*types_of(create.ResponseFormat), *(path for path in _formats() if path != "type")},
        "completion": set(_members(chat.ChatCompletion)),
        "chunk": set(_members(chat.ChatCompletionChunk)),
        "finish reason": set(literals(Choice.model_fields["finish_reason"].annotation)),
    }


def _formats() -> Iterator[str]:
    return (path for format in _objects(create.ResponseFormat) for path in _members(format))


def _hints(kind: Any) -> dict[str, Any]:
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return typing.get_type_hints(kind)


def _roles(message: Any) -> Iterator[str]:
    return literals(_hints(message)["role"])


def _objects(kind: Any) -> Iterator[Any]:
    """Those of a union, or of a list of them."""
    for variant in variants(kind):
        origin = typing.get_origin(variant)
        if isinstance(variant, type) and (hasattr(variant, "__total__") or issubclass(variant, BaseModel)):
            yield variant
        elif origin not in (None, typing.Literal, dict):
            yield from _objects(typing.get_args(variant)[0])


def _members(kind: Any) -> Iterator[str]:
    """The paths of its members, but for the `type` that names the whole."""
    for name, inner in _hints(kind).items():
        if name != "type" or len(_hints(kind)) == 1:
            yield from _paths(name, inner)


def _paths(name: str, kind: Any) -> Iterator[str]:
    objects = [] if name in UNREAD else [*_objects(kind)]
    if not objects:
        yield name
    for inner in objects:
        yield from (f"{name}.{path}" for path in _members(inner))
