"""What is wrong with a body that cannot be read, and which field has a number that cannot be read.

Such a number is out of the range of all numbers here, or it is NaN or Infinity, which are no JSON, but which some clients
write. A reader of JSON gives up there, and does not know the names around it. So the members are read one by one, and then
those of the member that cannot be read.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.core.protocols.responses.field_errors import join_path
from antiphon.errors import InvalidRequest
from antiphon.wire import UNREADABLE

# msgspec's words.
_OUT_OF_RANGE = re.compile(r"(Number|Integer value) out of range")
_MALFORMED_AT = re.compile(r"\(byte (?P<byte>\d+)\)")
_NO_JSON = re.compile(rb"NaN|Infinity")
# Stands for what is no JSON while its place is searched for.
_TOO_LARGE = b"1e999"
# Each level is read once more. A field that is deeper is named by the levels around it, and one in a larger body is not named.
MOST_LEVELS = 8
LARGEST_BODY = 256 * 1024
# The longest path that is shown, in characters.
LONGEST = 400

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
    where = _place(body, MOST_LEVELS)[:LONGEST] if len(body) <= LARGEST_BODY else ""
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
