"""Sees what every test puts on the wire of a gateway in this process: records it by name, and validates what is emitted.

Requests and whole answers are seen by a middleware of the gateways under test, WebSocket messages where the connection reads
and writes them, and events where they are encoded: also those of an exchange without a gateway. Text deltas are spliced into
an encoded template; the template is what is seen, once per stream.
"""

import os
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import WSMsgType, web
from conformance.deviations import MEMBER_DEVIATIONS, UNDESCRIBED
from conformance.members import differences
from conformance.validators import JSON, Document, Schema, documents

from antiphon.core.events import encode as sse
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.errors import UNREADABLE, ApiError
from antiphon.server.paths import speaks
from antiphon.server.routes.multipart import FormPart, PartStart
from antiphon.server.routes.websocket import Connection
from antiphon.transport import reads_whole

Body = dict[str, Any]
# A kind of thing and its name: ("event", "response.created").
Seen = tuple[str, str]
CREATE = "POST /responses"
# The prefixes under which the same routes are served.
_PREFIX = re.compile(r"^(/openai)?(/deployments/[^/]+)?(/v1)?(?=/)")


class Recorder:
    def __init__(self) -> None:
        self.test = ""
        self.seen: defaultdict[str, set[Seen]] = defaultdict(set)
        self.passed: set[str] = set()
        self.violations: list[str] = []
        # Where what was emitted is kept, if anybody wants to look at it.
        self.folder: Path | None = None
        # Encoded values that were valid: many tests emit the same ones.
        self._valid: set[int] = set()
        # The names of the fields of the form that is being read.
        self.fields: list[str] = []

    def begin(self, test: str) -> None:
        self.test = test
        self.violations = []

    def take_violations(self) -> list[str]:
        found, self.violations = list(dict.fromkeys(self.violations)), []
        return found

    # ---- what clients send -------------------------------------------------------------------------------------------

    def request(self, method: str, route: str, query: Iterable[str], body: bytes | None) -> None:
        name = f"{method} {route.replace('{}', '{id}')}"
        self.saw("route", name)
        if name == CREATE:
            self.create(body or b"")
            return
        fields, self.fields = self.fields, []
        for parameter in (*(each.partition("[")[0] for each in (*query, *fields)), *_object(body or b"")):
            self.saw("parameter", f"{name} {parameter}")

    def create(self, body: bytes) -> None:
        """The body of POST /responses, or a message that asks for a response."""
        request = _object(body)
        if "type" in request:
            self.saw("client message", str(request.pop("type")))
        self.seen[self.test].update(request_to_seen(request))

    # ---- what they get -----------------------------------------------------------------------------------------------

    def event(self, data: bytes) -> None:
        event = msgspec.json.decode(data)
        self.saw("event", event["type"])
        # An item, or a response that has items.
        self.output([event["item"]] if "item" in event else event.get("response", {}).get("output", ()))
        schemas = [(document, document.events.get(event["type"])) for document in documents()]
        if not any(schema for _, schema in schemas) and event["type"] not in UNDESCRIBED:
            self.violations.append(f"the API has no event {event['type']}")
        self._validate(data, event, schemas)

    def answer(self, method: str, route: str, body: bytes) -> None:
        value = msgspec.json.decode(body)
        if isinstance(value, dict) and value.get("object") in ("response", "response.compaction"):
            self.output(value.get("output", ()))
        routes = [(document, document.routes.get((method, route), {}).get(JSON)) for document in documents()]
        self._validate(body, value, routes)

    def error(self, body: bytes) -> None:
        """The body of an answer that is not a 200."""
        openai, _ = documents()
        self._validate(body, msgspec.json.decode(body)["error"], [(openai, openai.named("Error"))])

    def websocket_error(self, data: bytes) -> None:
        error = msgspec.json.decode(data)
        self.saw("event", "error")
        names = ("ResponseWsError", "WebSocketErrorEvent")
        self._validate(data, error, [(document, document.named(name)) for document in documents() for name in names])

    def _validate(self, data: bytes, value: Any, schemas: Iterable[tuple[Document, Schema | None]]) -> None:
        digest = hash(data)
        if digest in self._valid:
            return
        found = [str(wrong) for document, schema in schemas if schema for wrong in document.violations(value, schema)]
        found += [str(each) for each in differences(value) if not any(known.covers(*each) for known in MEMBER_DEVIATIONS)]
        self.violations += found
        if self.folder is not None:
            self._keep(data)
        if not found:
            self._valid.add(digest)

    def _keep(self, data: bytes) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{os.getpid()}.jsonl").open("ab") as kept:
            kept.write(data + b"\n")

    def output(self, items: Iterable[Body]) -> None:
        self.seen[self.test].update(("output item", str(item.get("type"))) for item in items)

    def saw(self, kind: str, name: str) -> None:
        self.seen[self.test].add((kind, name))


def request_to_seen(request: Body) -> Iterator[Seen]:
    for name in request:
        yield "request field", name
    given = request.get("input")
    for item in _objects(given):
        yield "input item", str(item.get("type") or ("message" if "role" in item else "item_reference"))
        for member in ("content", "output", "summary"):
            for part in _objects(item.get(member)):
                yield "content part", str(part.get("type"))
    for tool in _objects(request.get("tools")):
        yield "tool", str(tool.get("type"))
    choice = request.get("tool_choice")
    if choice is not None:
        yield "tool choice", str(choice.get("type")) if isinstance(choice, dict) else str(choice)


def _object(body: bytes) -> Body:
    """Empty if it is none."""
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Body]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


RECORDER = Recorder()


# ---- where it listens ------------------------------------------------------------------------------------------------


@reads_whole
@web.middleware
async def recorded(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    """The first of the middlewares, so that it sees answers as clients get them."""
    answer = await handler(request)
    route = to_route(request.method, request.path)
    if route is None or speaks(request, MESSAGES):
        # It is a route of our own, or of another API with the same path.
        return answer
    RECORDER.request(request.method, route, request.query, request._read_bytes)
    if isinstance(answer, web.Response) and isinstance(answer.body, bytes) and answer.content_type == JSON:
        if answer.status == 200:
            RECORDER.answer(request.method, route, answer.body)
        else:
            RECORDER.error(answer.body)
    return answer


@cache
def _patterns() -> list[tuple[str, str, re.Pattern[str]]]:
    """Paths without an id first."""
    routes = sorted(documents()[0].routes, key=lambda route: route[1].count("{}"))
    return [(method, path, re.compile(path.replace("{}", "[^/]+"))) for method, path in routes]


def to_route(method: str, path: str) -> str | None:
    """The route of the API that this is; None if it is one of our own."""
    plain = _PREFIX.sub("", path).rstrip("/")
    return next((route for known, route, pattern in _patterns() if known == method and pattern.fullmatch(plain)), None)


def listen() -> None:
    """For the rest of the process."""
    encode, receive, send_error = sse.to_json, Connection._receive, Connection._send_error
    begin_part = FormPart.__init__

    def encoded(value: Any) -> bytes:
        data = encode(value)
        if type(value) is not str:
            RECORDER.event(data)
        return data

    async def received(connection: Connection, kind: WSMsgType, data: Any) -> None:
        RECORDER.saw("route", "WEBSOCKET /responses")
        RECORDER.create(data)
        await receive(connection, kind, data)

    def sent_error(connection: Connection, error: ApiError) -> None:
        RECORDER.websocket_error(msgspec.json.encode({"type": "error", "status": error.status, **error.envelope()}))
        send_error(connection, error)

    def began(part: FormPart, start: PartStart, *more: Any) -> None:
        RECORDER.fields.append(start.name)
        begin_part(part, start, *more)

    FormPart.__init__ = began  # type: ignore[assignment, method-assign]
    sse.to_json = encoded
    Connection._receive = received  # type: ignore[assignment, method-assign]
    Connection._send_error = sent_error  # type: ignore[assignment, method-assign]
