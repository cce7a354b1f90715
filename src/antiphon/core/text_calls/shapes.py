"""The shapes in which models write a call: JSON of a few kinds, and functions with parameters in tags."""

import json
import re
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from antiphon.core.text_calls.brackets import Brackets
from antiphon.wire import UNREADABLE

# The most text that is buffered because it may become a call.
MAX_BUFFERED = 256 * 1024
# Repairing is slow, and delays all other requests.
LONGEST_REPAIRED = 64 * 1024

# The members that a call without a marker may have, and those beside an inner function.
MEMBERS = frozenset({"name", "function", "arguments", "parameters", "type", "id"})
BESIDE_FUNCTION = frozenset({"function", "type", "id"})

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_any = msgspec.json.Decoder().decode

_VISIBLE = re.compile(r"\S")
_FUNCTION = re.compile(r"\s*<function=([^>\s]+)\s*>")
_PARAMETER = re.compile(r"\s*<parameter=([^>]+?)\s*>(.*?)</parameter>(?=\s*(?:<parameter=|</function>))", re.DOTALL)
FUNCTION_END = "</function>"
_FUNCTION_END = re.compile(rf"\s*{FUNCTION_END}")


class Call(NamedTuple):
    name: str
    arguments: str


class Calls(NamedTuple):
    """The calls at the beginning of a text, and where they end."""

    calls: list[Call]
    end: int


class ToolNames:
    """The names of the tools that a model may call."""

    __slots__ = ("_names",)

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def find(self, written: str) -> str | None:
        """The tool that is meant. Some models prefix the namespace that they know from training."""
        name = written if written in self._names else written.removeprefix("functions.")
        return name if name in self._names else None


def skip_whitespace(text: str, at: int = 0) -> int:
    """The position of the first character that is not white space, or the end."""
    found = _VISIBLE.search(text, at)
    return len(text) if found is None else found.start()


# ---- JSON ------------------------------------------------------------------------------------------------------------


def json_to_calls(text: str, tools: ToolNames, *, strict: bool) -> list[Call] | None:
    """The calls in an object or a list of objects; None unless all of them are calls.

    `strict`: there was no marker, so an object with any other member is ordinary data.
    """
    try:
        objects = [bytes(item) for item in _items(text)] if text.lstrip().startswith("[") else [text.encode()]
        calls = [_object_to_call(item, tools, strict) for item in objects]
    except UNREADABLE:
        return None
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def _object_to_call(encoded: bytes, tools: ToolNames, strict: bool) -> Call | None:
    members = {key: bytes(value) for key, value in _members(encoded).items()}
    if strict and not (members.keys() <= MEMBERS and _string(members.get("type", b'"function"')) == "function"):
        return None
    function = members.get("function", b"")
    if function.startswith(b"{"):
        return None if strict and not members.keys() <= BESIDE_FUNCTION else _object_to_call(function, tools, strict)
    written = members.get("name") or function
    given = [members[key] for key in ("arguments", "parameters") if key in members]
    ambiguous = len(given) != 1 or ("name" in members and "function" in members)
    if not written.startswith(b'"') or (strict and ambiguous):
        return None
    name = tools.find(_string(written))
    arguments = _arguments(given[0].decode() if given else "null", strict)
    return None if name is None or arguments is None else Call(name, arguments)


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


def repaired(text: str) -> str | None:
    """The JSON that a text which is almost JSON most likely means."""
    if len(text) > LONGEST_REPAIRED:
        return None
    # Imported here: it is rarely needed, and large.
    import json_repair

    try:
        return json.dumps(json_repair.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def marked_arguments(text: str) -> str | None:
    """The arguments alone after a marker: as the model wrote them, unless they must be repaired."""
    text = text.strip()
    if not text:
        return "{}"
    if is_object(text):
        return text
    meant = repaired(text)
    return meant if meant is not None and is_object(meant) else None


def marked_calls(text: str, tools: ToolNames) -> list[Call] | None:
    """All the calls of a text between markers, as objects one after another or in lists."""
    calls, end = leading_calls(text, tools)
    if calls and skip_whitespace(text, end) == len(text):
        return calls
    meant = repaired(text)
    return None if meant is None else json_to_calls(meant, tools, strict=False)


def leading_calls(text: str, tools: ToolNames, at: int = 0) -> Calls:
    calls: list[Call] = []
    end = at
    while text.startswith(("{", "["), start := skip_whitespace(text, end)):
        stop = Brackets().receive(text, start)
        found = None if stop is None else json_to_calls(text[start:stop], tools, strict=False)
        if stop is None or found is None:
            break
        calls += found
        end = stop
    return Calls(calls, end)


# ---- functions in tags -----------------------------------------------------------------------------------------------


def function_name(text: str, at: int) -> str | None:
    """The name in a complete `<function=NAME>`."""
    found = _FUNCTION.match(text, at)
    return None if found is None else found[1]


def leading_functions(text: str, tools: ToolNames, at: int = 0, *, ended: bool = False) -> Calls:
    """`ended`: the text has ended, so the end tag after complete JSON may be missing."""
    calls: list[Call] = []
    end = at
    while (head := _FUNCTION.match(text, end)) is not None:
        name = tools.find(head[1])
        start = skip_whitespace(text, head.end())
        read = _json_body(text, start, ended) if text.startswith("{", start) else _parameters(text, head.end())
        if name is None or read is None:
            break
        arguments, end = read
        calls.append(Call(name, arguments))
    return Calls(calls, end)


def _json_body(text: str, at: int, ended: bool) -> tuple[str, int] | None:
    """The arguments, and the position after the function. A tag inside a string of the arguments does not end it."""
    stop = Brackets().receive(text, at)
    if stop is not None and is_object(text[at:stop]):
        end = _FUNCTION_END.match(text, stop)
        if end is not None or ended:
            return text[at:stop], stop if end is None else end.end()
    close = text.find(FUNCTION_END, at)
    before = Brackets()
    before.receive(text, at, max(close, at))
    arguments = None if close < 0 or before.in_string else marked_arguments(text[at:close])
    return None if arguments is None else (arguments, close + len(FUNCTION_END))


def _parameters(text: str, at: int) -> tuple[str, int] | None:
    values: dict[str, msgspec.Raw] = {}
    while (found := _PARAMETER.match(text, at)) is not None:
        values[found[1]] = msgspec.Raw(_parameter_to_json(found[2]))
        at = found.end()
    end = _FUNCTION_END.match(text, at)
    return None if end is None else (msgspec.json.encode(values).decode(), end.end())


def _parameter_to_json(written: str) -> bytes:
    value = written.removeprefix("\n").removesuffix("\n")
    try:
        if not isinstance(_any(value), str):
            return value.strip().encode()
    except UNREADABLE:
        pass
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
