"""The values of parameters: those without a type, in tags, by the schema of the tool, and literals as programs write them.

Nothing is evaluated.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from antiphon.core.stream.text_calls.nearly_json import Repairs
from antiphon.core.stream.text_calls.source import NotACall, Reading, Source
from antiphon.errors import UNREADABLE
from antiphon.patterns import Pattern, late_pattern

# How deeply a schema is searched for the types of one parameter.
_DEEPEST = 8
_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}

_any = msgspec.json.Decoder().decode


def parameter_types(schema: Any, name: str) -> frozenset[str] | None:
    """The types that a schema allows for one of its properties, or None if it does not say."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or name not in properties:
        return None
    types = list(_types(properties[name], schema, _DEEPEST))
    return None if None in types else frozenset(each for each in types if each is not None)


def _types(schema: Any, root: dict[str, Any], depth: int) -> Iterable[str | None]:
    """None stands for any type."""
    if not isinstance(schema, dict) or depth == 0:
        yield None
    elif isinstance(schema.get("$ref"), str):
        yield from _types(_referenced(schema["$ref"], root), root, depth - 1)
    elif "type" in schema:
        given = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        yield from (each if isinstance(each, str) else None for each in given)
    elif isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
        yield from (_JSON_TYPES.get(type(value)) for value in values)
    else:
        branches = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key) or ()]
        for branch in branches or [None]:
            yield from _types(branch, root, depth - 1)


def _referenced(reference: str, root: dict[str, Any]) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def parameter_to_json(written: str, types: frozenset[str] | None, repairs: Repairs) -> bytes:
    """The value that is meant. Without known types, what is JSON is taken as such, unless it is a string."""
    value = written.removeprefix("\n").removesuffix("\n")
    for candidate in _readings(value, types, repairs):
        try:
            kind = _JSON_TYPES[type(_any(candidate))]
        except UNREADABLE:
            continue
        if kind != "string" and _is_allowed(kind, types):
            return candidate.strip().encode()
    return string_to_json(value)


def _readings(value: str, types: frozenset[str] | None, repairs: Repairs) -> Iterable[str]:
    yield value
    if types is not None and "string" not in types:
        yield _PYTHON_WORDS.get(value.strip(), "")
        if value.lstrip().startswith(("{", "[")):
            yield repairs.repaired(value) or ""


def _is_allowed(kind: str, types: frozenset[str] | None) -> bool:
    # A number that is no string is sent as it is: what is wrong with it can be checked and reported.
    return types is None or kind in types or "string" not in types


def string_to_json(value: str) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


# ---- literals of Python and of Gemma ---------------------------------------------------------------------------------

# How deeply lists and objects may be nested.
DEEPEST = 32

_WORDS = {"True": b"true", "False": b"false", "None": b"null", "true": b"true", "false": b"false", "null": b"null"}
# A number as JSON has it, or a word; what follows shows that it is complete.
_SCALAR = Pattern(r"(?:-?(?:0|[1-9]\d{0,63})(?:\.\d{1,63})?(?:[eE][+-]?\d{1,9})?|[A-Za-z]{4,5})(?=[\s,\]})])")
_ESCAPE = late_pattern(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(0[0-9a-fA-F]{7})|(.))", re.DOTALL)
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
