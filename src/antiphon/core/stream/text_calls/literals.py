"""Values as programs write them: the literals of Python, and those of Gemma. Nothing is evaluated."""

import re
from typing import Any, NamedTuple

import msgspec

from antiphon.core.stream.text_calls.parameters import string_to_json
from antiphon.core.stream.text_calls.source import NotACall, Reading, Source
from antiphon.patterns import Pattern

# How deeply lists and objects may be nested.
DEEPEST = 32

_WORDS = {"True": b"true", "False": b"false", "None": b"null", "true": b"true", "false": b"false", "null": b"null"}
# A number as JSON has it, or a word; what follows shows that it is complete.
_SCALAR = Pattern(r"(?:-?(?:0|[1-9]\d{0,63})(?:\.\d{1,63})?(?:[eE][+-]?\d{1,9})?|[A-Za-z]{4,5})(?=[\s,\]})])")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(0[0-9a-fA-F]{7})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0", "\n": ""}
_ESCAPED |= {character: character for character in "\\'\"/"}


class Syntax(NamedTuple):
    """How one language writes strings and the members of objects."""

    # Where a string begins: with one of these, and it ends with the same.
    quote: Pattern
    # The name of a member, and what is between it and its value.
    key: Pattern


# A quotation mark that may become three of them is one only if something else follows.
PYTHON = Syntax(
    quote=Pattern("""["]{3}|'{3}|"(?=[^"])|"(?="[^"])|'(?=[^'])|'(?='[^'])"""),
    key=Pattern(r"(?P<quote>[\"'])(?P<key>[^\"'\\\n]{1,256})(?P=quote)\s{0,99}:"),
)
GEMMA = Syntax(
    quote=Pattern(r'<\|"\|>|<escape>|"'),
    key=Pattern(r'(?P<quote><\|"\|>|<escape>|"|)(?P<key>[^\s:<>"{}]{1,256})(?P=quote)\s{0,99}:'),
)

_AFTER_VALUE = Pattern(r"\s{0,999}([,\]})])")


def literal(source: Source, syntax: Syntax, depth: int = DEEPEST) -> Reading[Any]:
    """One value. Numbers and words are kept as JSON text."""
    if depth == 0:
        raise NotACall
    yield from source.white_space()
    if source.at == len(source.text):
        raise NotACall
    match source.text[source.at]:
        case "[":
            source.at += 1
            return (yield from _list(source, syntax, depth))
        case "{":
            source.at += 1
            return (yield from members(source, syntax, syntax.key, "}", depth))
        case character if character in "\"'<":
            return msgspec.Raw(string_to_json((yield from _string(source, syntax))))
        case _:
            found = (yield from source.token(_SCALAR))[0]
            if found[0].isalpha() and found not in _WORDS:
                raise NotACall
            return msgspec.Raw(_WORDS.get(found) or found.encode())


def members(source: Source, syntax: Syntax, key: Pattern, end: str, depth: int = DEEPEST) -> Reading[dict[str, Any]]:
    """Keys and values up to the closing bracket, which is read too."""
    values: dict[str, Any] = {}
    while not (yield from _closes(source, end)):
        found = (yield from source.token(key))["key"]
        if found in values:
            raise NotACall
        values[found] = yield from literal(source, syntax, depth - 1)
        if (yield from source.token(_AFTER_VALUE))[1] == end:
            break
        if source.text[source.at - 1] != ",":
            raise NotACall
    return values


def _list(source: Source, syntax: Syntax, depth: int) -> Reading[list[Any]]:
    values: list[Any] = []
    while not (yield from _closes(source, "]")):
        values.append((yield from literal(source, syntax, depth - 1)))
        if (yield from source.token(_AFTER_VALUE))[1] == "]":
            break
        if source.text[source.at - 1] != ",":
            raise NotACall
    return values


def _closes(source: Source, end: str) -> Reading[bool]:
    """Whether the closing bracket comes next: nothing, or nothing more, is inside."""
    yield from source.white_space()
    if source.at == len(source.text):
        raise NotACall
    if source.text[source.at] != end:
        return False
    source.at += 1
    return True


def _string(source: Source, syntax: Syntax) -> Reading[str]:
    quote = (yield from source.token(syntax.quote))[0]
    start = searched = source.at
    ends = re.compile(rf"\\|{re.escape(quote)}" if len(quote) in (1, 3) and quote[0] in "\"'" else re.escape(quote))
    while True:
        found = ends.search(source.text, searched)
        if found is None:
            searched = max(searched, len(source.text) - len(quote) + 1)
            yield from source.more()
        elif found[0] == "\\":
            # What follows is escaped, whatever it is.
            searched = found.end() + 1
            while searched > len(source.text):
                yield from source.more()
        else:
            break
    source.at = found.end()
    written = source.text[start : found.start()]
    return _ESCAPE.sub(_unescaped, written) if quote[0] in "\"'" else written


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is not None:
        return chr(min(int(code, 16), 0x10FFFF))
    # Python keeps the backslash before a character that needs none.
    return _ESCAPED.get(found[4], f"\\{found[4]}")
