"""The arguments of a call as chat templates need them: always a JSON object.

Models write broken JSON, and clients send it back. Then every later request of the conversation fails: Ollama answers with an
error, and vLLM's templates fail.
"""

from typing import Any

import msgspec

from antiphon.wire import UNREADABLE


def arguments_to_text(given: str | dict[str, Any] | None) -> str:
    """Some clients send the object itself, or nothing."""
    return given if isinstance(given, str) else _encode(given or {})


def object_arguments(arguments: str) -> str:
    """The same string if it is a JSON object; otherwise an object that shows the model what it had written."""
    text = arguments.strip()
    if not text:
        return "{}"
    try:
        value = msgspec.json.decode(text)
    except UNREADABLE:
        return _encode({"invalid_json": arguments})
    if isinstance(value, dict):
        return arguments
    # Some models write the object as a string.
    if isinstance(value, str) and object_arguments(value) == value:
        return value
    return _encode({"value": value})


def canonical_arguments(arguments: str) -> bytes:
    """Of arguments that are an object: the same for objects that are equal, however they are written."""
    return msgspec.json.encode(msgspec.json.decode(arguments), order="deterministic")


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")
