"""What tests put on the wire of Anthropic Messages. Everything that is emitted is validated by the types of the anthropic SDK,
which may have no member that they do not know, and compared with what was recorded."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, get_args

import msgspec
from aiohttp import web
from conformance.messages.deviations import MEMBER_DEVIATIONS
from conformance.messages.members import differences
from conformance.recorder import RECORDER, Body, Recorder, Watcher, object_in, objects_in
from pydantic import BaseModel, ValidationError

from antiphon.core.protocols.messages.protocol import MESSAGES

CREATE, COUNT = "POST /messages", "POST /messages/count_tokens"
# The prefixes under which the same routes are served.
_PREFIX = re.compile(r"^(/openai)?(/v1)?(?=/)")
ROUTES = (
    *(CREATE, COUNT, "POST /messages/batches", "GET /messages/batches", "POST /messages/batches/{id}/cancel"),
    *("GET /messages/batches/{id}/results", "GET /messages/batches/{id}", "DELETE /messages/batches/{id}"),
    *("GET /models", "GET /models/{id}", "POST /files", "GET /files", "GET /files/{id}/content"),
    *("GET /files/{id}", "DELETE /files/{id}"),
)
# Header → the field that the SDK has for it.
HEADERS = {
    "anthropic-beta": "betas",
    "anthropic-user-profile-id": "user_profile_id",
    "anthropic-workspace-id": "workspace_id",
}
# Where a client says nothing: `?beta=true`.
NO_PARAMETERS = frozenset({"beta"})
_VERSION = re.compile(r"_\d{8}$")
COMMON = frozenset({"type", "cache_control"})
# Deltas of one block differ in their text only.
_DELTA = re.compile(rb'"delta":\{"type":"(\w+)"')
# The kinds of what has members of its own, by its type.
OBJECTS = {"model": "model member", "file": "file member", "message_batch": "batch member"}
# Errors of one object.
MOST_NAMED = 5
# What a count is, which has no type.
COUNTED = "count"


class MessagesWatcher(Watcher):
    protocol = MESSAGES

    def __init__(self, recorder: Recorder = RECORDER) -> None:
        super().__init__(recorder)
        self._last_delta = b""

    # ---- what clients send -------------------------------------------------------------------------------------------

    def to_route(self, method: str, path: str) -> str | None:
        plain = f"{method} {_PREFIX.sub('', path).rstrip('/')}"
        return next((route for route, pattern in _patterns() if pattern.fullmatch(plain)), None)

    def request(self, route: str, request: web.Request, body: bytes) -> None:
        self.saw("route", route)
        sent, fields = object_in(body), self.recorder.take_fields()
        if route == CREATE:
            self._create(sent, request)
        names = (name.removesuffix("[]") for name in (*request.query, *fields))
        for name in (*(each for each in names if each not in NO_PARAMETERS), *sent):
            self.saw("parameter", f"{route} {name}")

    def _create(self, sent: Body, request: web.Request) -> None:
        for kind, name in (
            *request_to_seen(sent),
            *(("request field", HEADERS[name]) for name in HEADERS if name in request.headers),
        ):
            self.saw(kind, name)

    # ---- what they get -----------------------------------------------------------------------------------------------

    def answer(self, route: str, status: int, body: bytes) -> None:
        value = msgspec.json.decode(body)
        if status != 200:
            self._validate(body, value, "error")
            self.saw("error type", value["error"]["type"])
            return
        if value.get("type") == "message":
            self._message(value)
            self._validate(body, value, "message")
        for each in value.get("data", [value]):
            if (kind := OBJECTS.get(each.get("type"))) is not None:
                self._validate(msgspec.json.encode(each), each, each["type"])
                for member in each:
                    self.saw(kind, member)
        if route == COUNT:
            self._validate(body, value, COUNTED)

    def frames(self, data: bytes) -> None:
        for frame in filter(None, data.split(b"\n\n")):
            encoded = frame.partition(b"\ndata: ")[2]
            delta = _DELTA.search(encoded)
            if delta is not None and delta[0] == self._last_delta:
                continue
            self._last_delta = b"" if delta is None else delta[0]
            self.event(encoded)

    def event(self, encoded: bytes) -> None:
        event = msgspec.json.decode(encoded)
        self.saw("event", event["type"])
        match event:
            case {"type": "message_start", "message": message}:
                self._message(message)
            case {"content_block": block}:
                self._block(block)
            case {"type": "content_block_delta", "delta": delta}:
                self.saw("delta", delta["type"])
                if "citation" in delta:
                    self.saw("citation", delta["citation"]["type"])
            case {"type": "message_delta"}:
                self._message(
                    {**event["delta"], **{name: event[name] for name in ("usage", "context_management") if name in event}}
                )
            case {"type": "error", "error": error}:
                self.saw("error type", error["type"])
        self._validate(encoded, event, event["type"])

    def _message(self, message: Body) -> None:
        for member in message:
            self.saw("message member", member)
        if message.get("stop_reason") is not None:
            self.saw("stop reason", message["stop_reason"])
        for block in message.get("content", ()):
            self._block(block)
        for member, value in message.get("usage", {}).items():
            self.saw("usage member", member)
            for inner in value if isinstance(value, dict) else ():
                self.saw("usage member", f"{member}.{inner}")

    def _block(self, block: Body) -> None:
        self.saw("answer block", block["type"])
        for cited in block.get("citations") or ():
            self.saw("citation", cited["type"])

    def _validate(self, data: bytes, value: Any, kind: str) -> None:
        def find() -> Iterator[str]:
            yield from violations(data, kind)
            yield from (str(each) for each in differences(value) if not any(known.covers(*each) for known in MEMBER_DEVIATIONS))

        self.recorder.check(data, find)


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    return [(route, re.compile(re.escape(route).replace(r"\{id\}", "[^/]+"))) for route in ROUTES]


# ---- the names of what a request has -----------------------------------------------------------------------------------

# The fields that are objects, or lists of them, and whose members have names of their own.
WITH_MEMBERS = ("thinking", "output_config", "metadata", "container", "compaction", "context_management", "thread")


def request_to_seen(sent: Body) -> Iterator[tuple[str, str]]:
    """Kinds and names."""
    yield from (("request field", name) for name in sent)
    for name in WITH_MEMBERS:
        yield from (("member", f"{name}.{member}") for member in _members(sent.get(name)))
    for message in objects_in(sent.get("messages")):
        yield from (("member", f"messages.{member}") for member in message)
        yield from _blocks(message.get("content"))
    yield from _blocks(sent.get("system"))
    for server in objects_in(sent.get("mcp_servers")):
        yield from (("member", f"mcp_servers.{member}") for member in server)
        configuration = _members(server.get("tool_configuration"))
        yield from (("member", f"mcp_servers.tool_configuration.{member}") for member in configuration)
    for edit in objects_in(_dict(sent.get("context_management")).get("edits")):
        yield "context edit", str(edit.get("type"))
        yield from (("member", f"{edit.get('type')}.{member}") for member in edit if member != "type")
    yield from _tools(sent)


def _tools(sent: Body) -> Iterator[tuple[str, str]]:
    for tool in objects_in(sent.get("tools")):
        kind = str(tool.get("type") or "custom")
        yield "tool", kind
        yield from (("tool member", f"{_VERSION.sub('', kind)}.{member}") for member in tool if member not in COMMON | {"name"})
    choice = _dict(sent.get("tool_choice"))
    if choice:
        yield "tool choice", str(choice.get("type"))
        yield from (("member", f"tool_choice.{member}") for member in choice if member != "type")


def _blocks(content: Any) -> Iterator[tuple[str, str]]:
    for block in objects_in(content):
        kind = str(block.get("type"))
        yield "input block", kind
        yield from (("block member", f"{kind}.{member}") for member in block if member not in COMMON)
        source = _dict(block.get("source"))
        if source:
            yield "source", f"{kind} {source.get('type')}"
        for inside in (block.get("content"), source.get("content"), block.get("tool_changes")):
            yield from _blocks(inside)


def _dict(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


def _members(value: Any) -> Iterable[str]:
    return _dict(value).keys()


# ---- validation ------------------------------------------------------------------------------------------------------


@cache
def _kinds() -> dict[str, type[BaseModel]]:
    """By the type of the object. Those of a union have one each, so that an error names the member that is wrong."""
    # The SDK takes a second to import: a test that emits nothing for its clients does not wait for it.
    from anthropic.types import beta
    from conformance.sdk import variants

    events = {kind.model_fields["type"].annotation: kind for kind in variants(beta.BetaRawMessageStreamEvent)}
    objects: dict[str, type[BaseModel]] = {"message": beta.BetaMessage, "model": beta.BetaModelInfo}
    objects |= {"file": beta.BetaFileMetadata, "message_batch": beta.messages.BetaMessageBatch}
    named = {get_args(literal)[0]: kind for literal, kind in events.items()}
    return {**objects, **named, COUNTED: beta.BetaMessageTokensCount}


def violations(data: bytes, kind: str) -> Iterator[str]:
    """`kind`: the type of the object. One that the SDK does not know is an error, or nothing but its type."""
    if (model := _kinds().get(kind)) is None:
        return
    try:
        read = model.model_validate_json(data, strict=True)
    except ValidationError as wrong:
        yield from (f"{kind}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong.errors()[:MOST_NAMED])
        return
    yield from (f"{kind}: the SDK has no member {path}" for path in _unknown(read, ""))


def _unknown(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _unknown(each, path)
    if isinstance(value, BaseModel):
        yield from (f"{path}{name}" for name in value.model_extra or ())
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{path}{name}.")
