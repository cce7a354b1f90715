"""Untyped JSON → Structs, with errors that name the field by its path in the request."""

import re
from typing import Any, TypeVar

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.wire import UNREADABLE
from antiphon.wire.responses import CreateResponse

T = TypeVar("T")

_AT = re.compile(r" - at `(?:key` in `)?\$?\.?(?P<path>[^`]*)`$")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")


def convert_strings(value: dict[str, str], kind: type[T]) -> T:
    """The parameters of a query string, some of which are numbers."""
    return convert(value, kind, "", strict=False)


def convert(value: Any, kind: type[T], where: str, *, strict: bool = True) -> T:
    """`where` is the path of the value in the request body: `input[3]`."""
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as wrong:
        message = str(wrong)
        inner = _AT.search(message)
        param = _join(where, inner["path"] if inner else "")
        if missing := _MISSING.search(message):
            param = _join(param, missing["field"])
        raise InvalidRequest(f"Invalid `{param}`: {_AT.sub('', message)}.", param=param or None) from None


def _join(outer: str, inner: str) -> str:
    return outer + inner if not outer or not inner or inner.startswith("[") else f"{outer}.{inner}"


def body_to_request(body: bytes) -> tuple[CreateResponse, list[str]]:
    """The request, and the names of the fields that are not part of the API."""
    value = _object(body)
    return convert(value, CreateResponse, ""), sorted(value.keys() - set(CreateResponse.__struct_fields__))


def message_to_request(message: bytes) -> tuple[CreateResponse, list[str]]:
    """`response.create` over a WebSocket: the answer is always streamed, and never made in the background."""
    request, unknown = body_to_request(message)
    if "stream_id" in unknown:
        # The client would wait for events that carry this id.
        problem = "`stream_id` is not supported: leave it out. A connection has one stream."
        raise InvalidRequest(problem, param="stream_id", code="unsupported_parameter")
    left_out = ["background"] if request.background else []
    request.stream, request.background = True, None
    return request, [*left_out, *(name for name in unknown if name != "type")]


def body_to_struct(body: bytes, kind: type[T]) -> T:
    return convert(_object(body), kind, "")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE as broken:
        raise InvalidRequest(f"The body is not JSON: {broken}.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.", code="invalid_json")
    return value
