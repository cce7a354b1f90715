"""msgspec's complaint about a field → our error: OpenAI's code for it, what is wrong, and what is allowed."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec import ValidationError, convert, inspect

from antiphon.errors import UNREADABLE, InvalidRequest
from antiphon.patterns import late_pattern

_AT = late_pattern(r" - at `(?:key` in `)?\$?\.?(?P<path>[^`]*)`$")
LONGEST = 1000
# msgspec's name for a member of an object whose names are free.
_ANY_MEMBER = "[...]"
# How many members are tried to find the one that is wrong.
MOST_TRIED = 100
_STEP = late_pattern(r"\[[^\]]*\]|(?P<name>[^.\[\]]+)")


class Row(NamedTuple):
    """`words`: msgspec's. `message`: ours, with what the words name; {allowed} are the values of an enum."""

    words: re.Pattern[str]
    code: str
    message: str


def _row(words: str, code: str, message: str) -> Row:
    return Row(late_pattern(words), code, message)


# First match first.
ROWS = (
    _row(r"missing required field", "missing_required_parameter", "Missing required parameter: `{param}`."),
    _row(r"contains unknown field", "unknown_parameter", "Unknown parameter: `{param}`."),
    _row(
        r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`",
        "invalid_type",
        "Invalid type for `{param}`: it must be {wanted}, not {got}.",
    ),
    _row(r"Invalid (enum )?value (?P<value>.+)", "invalid_value", "Invalid `{param}`: {value} must be one of: {allowed}."),
    _row(r"Expected `int` >= (?P<limit>.+)", "integer_below_min_value", "Invalid `{param}`: it must be at least {limit}."),
    _row(r"Expected `int` <= (?P<limit>.+)", "integer_above_max_value", "Invalid `{param}`: it must be at most {limit}."),
    _row(r"Expected `float` >= (?P<limit>.+)", "decimal_below_min_value", "Invalid `{param}`: it must be at least {limit}."),
    _row(r"Expected `float` <= (?P<limit>.+)", "decimal_above_max_value", "Invalid `{param}`: it must be at most {limit}."),
    _row(r"Expected `str` of length >= 1$", "empty_string", "Invalid `{param}`: the string must not be empty."),
    _row(
        r"Expected `str` of length <= (?P<limit>.+)",
        "string_above_max_length",
        "Invalid `{param}`: a string may have at most {limit} characters here.",
    ),
    _row(r"Expected `array` of length >= 1$", "empty_array", "Invalid `{param}`: the array must not be empty."),
    _row(
        r"Expected `array` of length <= (?P<limit>.+)",
        "array_above_max_length",
        "Invalid `{param}`: the array may have at most {limit} elements.",
    ),
    _row(
        r"Expected `object` of length <= (?P<limit>.+)",
        "object_above_max_properties",
        "Invalid `{param}`: the object may have at most {limit} members.",
    ),
    _row(
        r"Expected `str` matching regex (?P<pattern>.+)",
        "invalid_value",
        "Invalid `{param}`: the string must match the pattern {pattern}.",
    ),
)  # fmt: skip
OTHERWISE = _row(r"(?P<complaint>.*)", "invalid_value", "Invalid `{param}`: {complaint}.")

TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
# The path is that of the object.
_MEMBER = late_pattern(r"(?:missing required|contains unknown) field `(?P<field>[^`]+)`")


def complaint_to_error(complaint: str, kind: Any, where: str, value: Any = None) -> InvalidRequest:
    """`kind`: the type that the value was converted to. `where`: the path of the value in the request."""
    complaint = _shortened(complaint)
    at = _AT.search(complaint)
    path = at["path"] if at is not None else ""
    words = _AT.sub("", complaint)
    param = join_path(where, _with_member(path, complaint, kind, value))
    if (member := _MEMBER.search(words)) is not None:
        param = join_path(param, member["field"])
    row, found = next(((row, found) for row in ROWS if (found := row.words.search(words))), (OTHERWISE, None))
    named = found.groupdict() if found is not None else {"complaint": words}
    for name in ("wanted", "got"):
        if name in named:
            named[name] = _types_to_words(named[name])
    if "value" in named:
        named["allowed"] = ", ".join(_allowed(kind, path))
    message = row.message.format(param=param or "the body", **named)
    return InvalidRequest(message, param=param or None, code=row.code)


def _shortened(complaint: str) -> str:
    """Its beginning says what is wrong, and its end says where. Between them it may quote all that a client sent."""
    return complaint if len(complaint) <= LONGEST else f"{complaint[: LONGEST // 2]}…{complaint[-LONGEST // 2 :]}"


def _with_member(path: str, complaint: str, kind: Any, value: Any) -> str:
    """The path with the name of the member that is wrong, which msgspec leaves out, if it is a member of a member."""
    outer = path.removesuffix(_ANY_MEMBER)
    members = value.get(outer) if isinstance(value, dict) and outer != path else None
    for name, member in islice(members.items(), MOST_TRIED) if isinstance(members, dict) else ():
        try:
            convert({outer: {name: member}}, kind)
        except ValidationError as wrong:
            if _shortened(str(wrong)) == complaint:
                return f"{outer}.{name}"
    return path.replace(_ANY_MEMBER, "")


def join_path(outer: str, inner: str) -> str:
    return outer + inner if not outer or not inner or inner.startswith("[") else f"{outer}.{inner}"


def _types_to_words(types: str) -> str:
    """`int | null` → an integer. That an optional field may be null need not be said."""
    names = types.split(" | ")
    shown = [name for name in names if name != "null"] or names
    return " or ".join(TYPES.get(name, name) for name in shown)


def _allowed(kind: Any, path: str) -> Iterator[str]:
    """The values of the enum at this path."""
    types = list(flat_types([inspect.type_info(kind)]))
    for step in _STEP.finditer(path):
        types = list(flat_types(_inside(types, step["name"])))
    for each in types:
        if isinstance(each, inspect.LiteralType):
            yield from map(str, each.values)


def _inside(types: Iterable[inspect.Type], name: str | None) -> Iterator[inspect.Type]:
    for each in types:
        if isinstance(each, inspect.ListType) and name is None:
            yield each.item_type
        elif isinstance(each, inspect.DictType):
            yield each.value_type
        elif isinstance(each, inspect.StructType):
            yield from (field.type for field in each.fields if field.encode_name == name)
            # The member that says which of several kinds of object it is.
            if name is not None and each.tag_field == name:
                yield inspect.LiteralType((each.tag,))


def flat_types(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """Without unions, of which it has the members, and without the limits of a type."""
    for each in types:
        if isinstance(each, inspect.UnionType):
            yield from flat_types(each.types)
        elif isinstance(each, inspect.Metadata):
            yield from flat_types([each.type])
        else:
            yield each


# ---- What is wrong with a body that cannot be read, and which field has a number that cannot be read -----------------
# Such a number is out of the range of all numbers here, or it is NaN or Infinity, which are no JSON, but which some clients
# write. A reader of JSON gives up there, and does not know the names around it. So the members are read one by one, and then
# those of the member that cannot be read.

# msgspec's words.
_OUT_OF_RANGE = late_pattern(r"(Number|Integer value) out of range")
_MALFORMED_AT = late_pattern(r"\(byte (?P<byte>\d+)\)")
_NO_JSON = late_pattern(rb"NaN|Infinity")
# Stands for what is no JSON while its place is searched for.
_TOO_LARGE = b"1e999"
# Each level is read once more. A field that is deeper is named by the levels around it, and one in a larger body is not named.
MOST_LEVELS = 8
LARGEST_BODY = 256 * 1024
# The longest path that is shown, in characters.
LONGEST_PLACE = 400

_read_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def unreadable_to_error(complaint: str, body: bytes, what: str = "body") -> InvalidRequest:
    """`complaint`: msgspec's about the body. `what`: the name of that."""
    return _number_error(complaint, body) or InvalidRequest(f"The {what} is not JSON: {complaint}.", code="invalid_json")


def _number_error(complaint: str, body: bytes) -> InvalidRequest | None:
    if _OUT_OF_RANGE.match(complaint) is not None:
        return _error(body, "the number is out of range")
    malformed = _MALFORMED_AT.search(complaint)
    found = _NO_JSON.match(body, int(malformed["byte"])) if malformed is not None else None
    if found is None:
        return None
    problem = f"JSON has no number {found[0].decode()}. Send null, or leave it out"
    return _error(body[: found.start()] + _TOO_LARGE + body[found.end() :], problem)


def _error(body: bytes, problem: str) -> InvalidRequest:
    where = _place(body, MOST_LEVELS)[:LONGEST_PLACE] if len(body) <= LARGEST_BODY else ""
    return InvalidRequest(f"Invalid `{where or 'the body'}`: {problem}.", param=where or None, code="invalid_value")


def _place(data: Any, levels: int) -> str:
    for step, member in _members(data) if levels else ():
        if not _is_readable(member):
            return join_path(step, _place(member, levels - 1))
    return ""


def _members(data: Any) -> Iterator[tuple[str, msgspec.Raw]]:
    """None, if it has none, or is no JSON in other ways, too."""
    try:
        yield from _read_object(data).items()
    except msgspec.ValidationError:
        try:
            yield from ((f"[{at}]", element) for at, element in enumerate(_read_array(data)))
        except UNREADABLE:
            return
    except UNREADABLE:
        return


def _is_readable(data: Any) -> bool:
    try:
        msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return True
