"""Requests → Structs: bodies and query strings, with errors that name the field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, inspect

from antiphon.core.protocols.responses.field_errors import complaint_to_error, flat_types, unreadable_to_error
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS, NESTED, RequestLimits, check_nesting, check_request
from antiphon.errors import UNREADABLE, InvalidRequest
from antiphon.patterns import late_pattern
from antiphon.wire.batches import MessageRequest
from antiphon.wire.responses import CreateResponse, ReasoningOptions, StreamOptions, TextFormat, TextOptions

# ---- Fields of Chat Completions in a Responses request: what the Responses API has in their place --------------------

# Left out, such a field would change what the client gets without its notice: each is a 400.
INSTEAD = {
    "messages": "use `input`",
    "max_tokens": "use `max_output_tokens`",
    "max_completion_tokens": "use `max_output_tokens`",
    "response_format": "use `text.format`",
    "functions": "use `tools`",
    "function_call": "use `tool_choice`",
    "reasoning_effort": "use `reasoning.effort`",
    "verbosity": "use `text.verbosity`",
    "logprobs": "use `include` with `message.output_text.logprobs`, and `top_logprobs`",
    "n": "send one request for each answer",
    "modalities": "a response is text",
    "audio": "a response is text",
}


def _refuse_chat_fields(body: dict[str, Any]) -> None:
    for name, instead in INSTEAD.items():
        if body.get(name) is not None:
            raise InvalidRequest(
                f"Unsupported parameter: `{name}` is a field of Chat Completions. In the Responses API, {instead}.",
                param=name,
                code="unsupported_parameter",
            )


# ---- How the values of a query string are written: numbers in decimal digits, booleans as true or false --------------
# msgspec by itself takes more for them: 1e2 for 100, 1 for true, and null for a parameter that is not there.


class Form(NamedTuple):
    pattern: re.Pattern[str]
    words: str


FORMS: Mapping[type[inspect.Type], Form] = {
    # One that is negative is reported as too small.
    inspect.IntType: Form(late_pattern(r"-?(0|[1-9][0-9]*)"), "an integer in decimal digits"),
    inspect.BoolType: Form(late_pattern("true|false"), "true or false"),
}


def check_query(query: Mapping[str, str], kind: type[Struct]) -> None:
    for name, form in _forms(kind).items():
        if name in query and form.pattern.fullmatch(query[name]) is None:
            raise InvalidRequest(f"Invalid type for `{name}`: it must be {form.words}.", param=name, code="invalid_type")


@cache
def _forms(kind: type[Struct]) -> dict[str, Form]:
    """By the names of the parameters. Those that are strings may have any form."""
    struct = inspect.type_info(kind)
    assert isinstance(struct, inspect.StructType)
    types = ((field.encode_name, each) for field in struct.fields for each in flat_types([field.type]))
    return {name: FORMS[type(each)] for name, each in types if type(each) in FORMS}


# ---- Untyped JSON → Structs, with errors that name the field by its path in the request ------------------------------

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

# The members of `CreateResponse` that no body can set.
INTERNAL = frozenset({"beyond"})
# How many fields that are not part of the API are named.
MOST_NAMED = 100
# The fields of a request that are objects, and whose members are checked.
OBJECTS: dict[str, type[Struct]] = {
    "text": TextOptions,
    "text.format": TextFormat,
    "reasoning": ReasoningOptions,
    "stream_options": StreamOptions,
}
# Those that are lists of objects.
LISTS: dict[str, type[Struct]] = {"requests": MessageRequest}


def convert_strings(value: dict[str, str], kind: type[S]) -> S:
    """The parameters of a query string, some of which are numbers."""
    check_query(value, kind)
    return convert(value, kind, "", strict=False)


def convert(value: Any, kind: type[T], where: str, *, strict: bool = True) -> T:
    """`where` is the path of the value in the request body: `input[3]`."""
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as wrong:
        raise complaint_to_error(str(wrong), kind, where, value) from None


def body_to_request(body: bytes, limits: RequestLimits = DEFAULT_LIMITS) -> tuple[CreateResponse, list[str]]:
    """The request, and the names of the fields that are not part of the API."""
    value = _object(body, limits)
    given, is_known = value, value.keys() <= _names(CreateResponse)
    if not is_known:
        _refuse_chat_fields(value)
        given = {name: value[name] for name in value if name not in INTERNAL}
    request = _with_items(given) if type(given.get("input")) is list else convert(given, CreateResponse, "")
    check_request(request, limits)
    if (request.prompt_cache_options or {}).get("prewarm") is True:
        # The client wants no answer.
        request.generate = False
    # Most bodies have known fields that are no objects, nor lists of them.
    is_plain = is_known and NESTED.isdisjoint(map(type, value.values()))
    return request, [] if is_plain else sorted(_unknown(value, CreateResponse))


def _with_items(value: dict[str, Any]) -> CreateResponse:
    """Items are objects, and that is all that is said of them here: a list of objects is taken as it is, instead of copied."""
    items = value["input"]
    if set(map(type, items)) != {dict}:
        return convert(value, CreateResponse, "")
    request = convert({**value, "input": None}, CreateResponse, "")
    request.input = items
    return request


@cache
def _names(kind: type[Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__) - INTERNAL


def _unknown(
    value: dict[str, Any], kind: type[Struct], objects: Mapping[str, type[Struct]] = OBJECTS, path: str = ""
) -> Iterator[str]:
    names = _names(kind)
    for name, member in value.items():
        if name not in names:
            yield path + name
        elif isinstance(member, dict) and (inner := objects.get(path + name)) is not None:
            yield from _unknown(member, inner, objects, f"{path}{name}.")
        elif not path and isinstance(member, list) and (inner := LISTS.get(name)) is not None:
            for at, each in enumerate(member):
                yield from (f"{name}[{at}].{unknown}" for unknown in each.keys() - _names(inner))


def unknown_notices(names: Sequence[str]) -> list[str]:
    """About fields that are not part of the API. A body may have as many as fit into it."""
    notices = [f"field {name} is unknown and was left out" for name in names[:MOST_NAMED]]
    others = len(names) - len(notices)
    return notices if others <= 0 else [*notices, f"unknown fields beside these that were left out: {others}"]


def message_to_request(message: bytes, limits: RequestLimits = DEFAULT_LIMITS) -> tuple[CreateResponse, list[str]]:
    """`response.create` over a WebSocket: the answer is always streamed, and never made in the background."""
    request, unknown = body_to_request(message, limits)
    if "stream_id" in unknown:
        # The client would wait for events that carry this id.
        problem = "`stream_id` is not supported: leave it out. A connection has one stream."
        raise InvalidRequest(problem, param="stream_id", code="unsupported_parameter")
    left_out = ["background"] if request.background else []
    request.stream, request.background = True, None
    return request, [*left_out, *(name for name in unknown if name != "type")]


def read_struct(
    body: bytes, kind: type[S], limits: RequestLimits = DEFAULT_LIMITS, objects: Mapping[str, type[Struct]] = OBJECTS
) -> tuple[S, list[str]]:
    """The body, and the names of the fields that are not part of the API. `objects`: the fields whose members are checked."""
    value = _object(body, limits)
    return convert(value, kind, ""), sorted(_unknown(value, kind, objects))


def body_to_struct(body: bytes, kind: type[T], limits: RequestLimits = DEFAULT_LIMITS) -> T:
    return convert(_object(body, limits), kind, "")


def decode_json(body: bytes) -> Any:
    """Whatever JSON it is."""
    try:
        return msgspec.json.decode(body)
    except UNREADABLE as broken:
        raise unreadable_to_error(str(broken), body) from None


def _object(body: bytes, limits: RequestLimits = DEFAULT_LIMITS) -> dict[str, Any]:
    value = decode_json(body)
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.", code="invalid_json")
    check_nesting(value, limits)
    return value
