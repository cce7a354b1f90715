"""JSON that has not all arrived: where it ends, what it lacks, and strings that are decoded meanwhile."""

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from antiphon.errors import UNREADABLE
from antiphon.patterns import Pattern, late_pattern, possessive


def missing_end(arguments: str) -> str:
    """What makes an object of arguments that are at their end and are none yet. Clients parse them as JSON, also if there are
    none at all. What was emitted before stays as it is."""
    if not arguments.strip():
        return "{}"
    end = missing_brackets(arguments)
    return end if end and is_json_object(arguments + end) else ""


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


# ---- where an object or array ends -----------------------------------------------------------------------------------

_OUTSIDE = late_pattern(r'"|[{\[]+|[}\]]+')
_INSIDE = late_pattern(r'["\\]')
# What closes nothing that was opened before it: words, whole strings, and brackets with such things inside. No part of it is
# ever tried in another way.
_INNERMOST = r'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\[\s\S])*+")*+'
_BALANCED = possessive(rf"(?:{_INNERMOST}[{{\[]{_INNERMOST}(?:[{{\[]{_INNERMOST}[}}\]]{_INNERMOST})*+[}}\]])*+{_INNERMOST}")


class Brackets:
    """`receive()` takes the pieces of a text that begins with a bracket, and returns where that bracket is closed."""

    __slots__ = ("_depth", "_escaped", "in_string")

    def __init__(self) -> None:
        self._depth = 0
        self._escaped = False
        self.in_string = False

    def receive(self, text: str, at: int = 0, until: int | None = None) -> int | None:
        """The position after the closing bracket, or None if it is not between `at` and `until`."""
        end = len(text) if until is None else until
        if self._escaped and at < end:
            self._escaped = False
            at += 1
        may_be_balanced = self._depth > 0 and not self.in_string
        while True:
            if may_be_balanced and (balanced := _BALANCED.match(text, at, end)) is not None:
                at = balanced.end()
            found = (_INSIDE if self.in_string else _OUTSIDE).search(text, at, end)
            if found is None:
                return None
            at, may_be_balanced = found.end(), False
            match found[0][0]:
                case '"':
                    self.in_string = not self.in_string
                    may_be_balanced = self._depth > 0 and not self.in_string
                case "\\":
                    self._escaped = at == end
                    at += 1
                case "{" | "[":
                    self._depth += len(found[0])
                case _:
                    closed = min(max(self._depth, 1), len(found[0]))
                    self._depth -= closed
                    if self._depth <= 0:
                        return found.start() + closed
                    may_be_balanced = True


# ---- the end that a text lacks ---------------------------------------------------------------------------------------
# Some engines lose the last brackets of a call while they stream it.

# A string, or the beginning of one that is cut off. It never starts again inside a string: that would take quadratic time.
STRING = possessive(r'"(?:[^"\\]|\\.)*+(?P<end>"?)', re.DOTALL)
CLOSING = {"{": "}", "[": "]"}


def missing_brackets(text: str) -> str:
    """What closes every open bracket; nothing if the text ends inside a string, because half a string must not be used."""
    if any(not string["end"] for string in STRING.finditer(text)):
        return ""
    open_brackets: list[str] = []
    for character in STRING.sub("", text):
        if character in CLOSING:
            open_brackets.append(CLOSING[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
    return "".join(reversed(open_brackets))


# ---- is an object whole? ---------------------------------------------------------------------------------------------
# Asked after every piece, so none is read twice.


def is_json_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except UNREADABLE:
        return False


class ObjectEnd:
    """Of a list of pieces that only grows. They are joined and decoded once, when the first bracket is closed."""

    __slots__ = ("_brackets", "_is_object", "_read")

    def __init__(self) -> None:
        self._brackets = Brackets()
        self._read = 0
        # None: the bracket is still open.
        self._is_object: bool | None = None

    def is_reached(self, pieces: Sequence[str]) -> bool:
        """Only white space may follow the end."""
        while self._read < len(pieces) and self._is_object is not False:
            piece = pieces[self._read]
            self._read += 1
            if self._is_object:
                self._is_object = not piece or piece.isspace()
            elif (end := self._brackets.receive(piece)) is not None:
                rest = piece[end:]
                self._is_object = (not rest or rest.isspace()) and is_json_object("".join(pieces[: self._read]))
        return bool(self._is_object)


# ---- strings that are decoded while they arrive ----------------------------------------------------------------------

INPUT = ("input",)
# The complete part of a JSON string: an escape sequence that is cut off is left for later, and so is the first half of a
# character that JSON writes as two of them.
_HEX = "[0-9a-fA-F]"
# What JSON does not have, such as the path C:\\users, is text.
_NO_CODE = rf"\\u(?={_HEX}{{0,3}}[^0-9a-fA-F])"
_WHOLE = possessive(
    rf'(?:[^"\\]|\\[^u]|\\u(?![dD][89abAB]){_HEX}{{4}}|\\u[dD][89abAB]{_HEX}{{2}}(?=[^\\]|\\[^u]|\\u{_HEX}{{4}}|{_NO_CODE})'
    rf"|{_NO_CODE})*+",
    re.DOTALL,
)
_ESCAPES = late_pattern(rf"(?:\\u{_HEX}{{4}})+|\\.", re.DOTALL)
# What is left of an escape sequence that was cut off.
_CUT = late_pattern(rf"(?:\\u[dD][89abAB]{_HEX}{{2}})?(?:\\(?:u{_HEX}{{0,3}})?)?")


class JsonString:
    """A JSON string after its opening quotation mark. `receive()` returns what a piece adds to its text."""

    __slots__ = ("_raw", "closed", "rest")

    def __init__(self) -> None:
        self._raw = ""
        self.closed = False
        # What follows the closing quotation mark.
        self.rest = ""

    def takes_as_it_is(self, piece: str) -> bool:
        """The piece is text of the string, with nothing to decode."""
        return not self._raw and not self.closed and '"' not in piece and "\\" not in piece

    def receive(self, piece: str) -> str:
        raw = self._raw + piece
        whole = _WHOLE.match(raw)
        assert whole is not None
        end = whole.end()
        self.closed = raw[end : end + 1] == '"'
        self._raw, self.rest = ("", raw[end + 1 :]) if self.closed else (raw[end:], "")
        return _decode(raw[:end])

    def close(self) -> str:
        """The buffered rest of a string that was cut off, as it was written."""
        raw, self._raw = self._raw, ""
        return raw

    def close_decoded(self) -> str:
        """The same, without the part of an escape sequence: that is no text yet."""
        raw = self.close()
        return "" if _CUT.fullmatch(raw) else raw


@cache
def _opening(names: tuple[str, ...]) -> Pattern:
    """Up to the first character of the value. It may match in part."""
    return Pattern(rf'\s{{0,99}}\{{\s{{0,99}}"(?:{"|".join(names)})"\s{{0,99}}:\s{{0,99}}"')


class StringMember:
    """`receive()` returns what a piece adds to the value; `opened`: the arguments have the expected shape."""

    def __init__(self, names: tuple[str, ...] = INPUT) -> None:
        """`names`: what the member may be called."""
        self._opening = _opening(names)
        self._head = ""
        self._value = JsonString()
        self.opened = False
        # Something else has come in its place.
        self._is_other = False

    def receive(self, piece: str) -> str:
        if self._value.closed or self._is_other:
            return ""
        if not self.opened:
            self._head += piece
            opening = self._opening.match(self._head, partial=True)
            if opening is None or opening.partial:
                self._is_other = opening is None
                return ""
            self.opened = True
            piece, self._head = self._head[opening.end() :], ""
        return self._value.receive(piece)

    def close(self) -> str:
        """The buffered rest of a value that was cut off."""
        return self._value.close()


def _decode(text: str) -> str:
    if "\\" not in text:
        return text
    try:
        # Models write line breaks without escaping them, which strict JSON does not allow.
        value: str = json.loads(f'"{text}"', strict=False)
    except ValueError:
        # Escape sequences that JSON does not have stay as they are; the others do not depend on how the text is split.
        value = _ESCAPES.sub(_unescape, text)
    return value.encode("utf-8", "replace").decode()


def _unescape(found: re.Match[str]) -> str:
    try:
        value: str = json.loads(f'"{found[0]}"', strict=False)
    except ValueError:
        return found[0]
    return value


def whole_input(arguments: str) -> str:
    """The input text that any arguments most likely mean."""
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        member = StringMember()
        cut_off = member.receive(arguments) + member.close()
        return cut_off if member.opened else arguments
    if isinstance(value, dict):
        texts = [member for member in value.values() if isinstance(member, str)]
        preferred = value.get("input")
        if isinstance(preferred, str):
            return preferred
        return texts[0] if len(texts) == 1 and len(value) == 1 else arguments
    return value if isinstance(value, str) else arguments
