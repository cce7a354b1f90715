"""The shapes of a call in JSON: the members that models give it, in objects and lists."""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from antiphon.core.stream.text_calls.nearly_json import Repairs, escape_control_characters
from antiphon.core.stream.text_calls.values import parameter_types
from antiphon.errors import UNREADABLE
from antiphon.partial_json import Brackets
from antiphon.patterns import late_pattern

# The most text that is buffered because it may become a call.
MAX_BUFFERED = 256 * 1024

# The members that a call without a marker may have, and those beside an inner function.
MEMBERS = frozenset({"name", "function", "arguments", "parameters", "type", "id"})
BESIDE_FUNCTION = frozenset({"function", "type", "id"})
# What the members are called: without a marker, and by the models that use others after one.
STRICT_NAMES = ("name", "function")
STRICT_ARGUMENTS = ("arguments", "parameters")
NAMES = (*STRICT_NAMES, "tool_name", "tool", "function_name", "action")
ARGUMENTS = (*STRICT_ARGUMENTS, "args", "tool_input", "action_input", "tool_args", "params", "kwargs", "input")
# Namespaces that models know from training.
NAMESPACES = ("functions.", "default_api.", "tools.")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_any = msgspec.json.Decoder().decode

_BETWEEN = late_pattern(r"\s*(?:[,;]\s*)?")


class Call(NamedTuple):
    name: str
    arguments: str


class Calls(NamedTuple):
    """The calls at the beginning of a text, and where they end."""

    calls: list[Call]
    end: int


class ToolNames:
    """The names of the tools that a model may call, and the schemas of their parameters, where they are known; for one answer,
    with the repairs of what it writes for them."""

    __slots__ = ("_schemas", "_sorted", "repairs")

    def __init__(self, names: Collection[str]) -> None:
        self._schemas: Mapping[str, Any] = names if isinstance(names, Mapping) else dict.fromkeys(names)
        self._sorted: list[str] | None = None
        self.repairs = Repairs()

    def find(self, written: str) -> str | None:
        """The tool that is meant. Some models prefix the namespace that they know from training."""
        if written in self._schemas:
            return written
        names = (written.removeprefix(namespace) for namespace in NAMESPACES if written.startswith(namespace))
        return next((name for name in names if name in self._schemas), None)

    def may_begin(self, written: str) -> bool:
        """The name of a tool may begin with this text."""
        if self._sorted is None:
            prefixed = (namespace + name for namespace in ("", *NAMESPACES) for name in self._schemas)
            self._sorted = sorted(prefixed)
        at = bisect_left(self._sorted, written)
        return at < len(self._sorted) and self._sorted[at].startswith(written)

    def types(self, name: str, parameter: str) -> frozenset[str] | None:
        """The JSON types that a parameter of a tool may have, or None if they are not known."""
        return parameter_types(self._schemas.get(name), parameter)


def json_to_calls(text: str, tools: ToolNames, *, strict: bool) -> list[Call] | None:
    """The calls in an object or a list of objects; None unless all of them are calls.

    `strict`: there was no marker, so an object with any other member is ordinary data.
    """
    try:
        objects = [bytes(item) for item in _items(text)] if text.lstrip().startswith("[") else [text.encode()]
        calls = [_object_to_call(item, tools, strict) for item in objects]
    except UNREADABLE:
        escaped = escape_control_characters(text)
        return json_to_calls(escaped, tools, strict=strict) if escaped != text else None
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def _object_to_call(encoded: bytes, tools: ToolNames, strict: bool) -> Call | None:
    members = {key: bytes(value) for key, value in _members(encoded).items()}
    if strict and not (members.keys() <= MEMBERS and _string(members.get("type", b'"function"')) == "function"):
        return None
    function = members.get("function", b"")
    if function.startswith(b"{"):
        return None if strict and not members.keys() <= BESIDE_FUNCTION else _object_to_call(function, tools, strict)
    return _members_to_call(members, tools, strict)


def _members_to_call(members: dict[str, bytes], tools: ToolNames, strict: bool) -> Call | None:
    written = [members[key] for key in (STRICT_NAMES if strict else NAMES) if key in members]
    given = [members[key] for key in (STRICT_ARGUMENTS if strict else ARGUMENTS) if key in members]
    if not written and not strict and len(members) == 1:
        # Some models write the name as the only member.
        name, arguments = next(iter(members.items()))
        written, given = [msgspec.json.encode(name)], [arguments]
    if not written or not written[0].startswith(b'"') or (strict and (len(given) != 1 or len(written) != 1)):
        return None
    found = tools.find(_string(written[0]))
    arguments_text = _arguments(given[0].decode() if given else "null", strict)
    if found is None or arguments_text is None or _is_definition(members):
        return None
    return Call(found, arguments_text)


def _is_definition(members: dict[str, bytes]) -> bool:
    """The description of a tool, as a model may repeat it from its prompt: its parameters are a schema."""
    if "parameters" not in members or "arguments" in members:
        return False
    parameters = _any(members["parameters"])
    is_schema = isinstance(parameters, dict) and isinstance(parameters.get("properties"), dict)
    return "description" in members or (is_schema and parameters.get("type") == "object")


def _arguments(text: str, strict: bool) -> str | None:
    if text.startswith('"'):
        # Some models write the object as a string.
        text = _string(text).strip()
    if not strict and text in ("", "null"):
        return "{}"
    return text if is_object(text) else None


def is_object(text: str) -> bool:
    try:
        return isinstance(_any(text), dict)
    except UNREADABLE:
        return False


def marked_arguments(text: str, repairs: Repairs) -> str | None:
    """The arguments alone after a marker: as the model wrote them, unless they must be repaired."""
    text = text.strip()
    if not text:
        return "{}"
    for meant in (text, escape_control_characters(text)):
        if is_object(meant):
            return meant
    repair = repairs.repaired(text)
    return repair if repair is not None and is_object(repair) else None


def marked_calls(text: str, tools: ToolNames) -> list[Call] | None:
    """All the calls of a text between markers, as objects one after another or in lists."""
    calls, end = leading_calls(text, tools)
    if calls and _after(text, end) == len(text):
        return calls
    meant = tools.repairs.repaired(text)
    return None if meant is None else json_to_calls(meant, tools, strict=False)


def leading_calls(text: str, tools: ToolNames, at: int = 0) -> Calls:
    calls: list[Call] = []
    end = at
    while text.startswith(("{", "["), start := _after(text, end)):
        stop = Brackets().receive(text, start)
        found = None if stop is None else json_to_calls(text[start:stop], tools, strict=False)
        if stop is None or found is None:
            break
        calls += found
        end = stop
    return Calls(calls, end)


def _after(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return at if between is None else between.end()
