"""What tests put on the wire of the Responses API.

Events are seen where they are encoded: also those of an exchange without a gateway. WebSocket messages are seen where the
connection reads and writes them. Text deltas are spliced into an encoded template; the template is what is seen, once per
stream. The second event of a stream is put together from the first one, and seen as it is sent.
"""

import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from aiohttp import WSMsgType, web
from conformance.deviations import MEMBER_DEVIATIONS, UNDESCRIBED
from conformance.members import differences
from conformance.recorder import Body, Seen, Watcher, object_in, objects_in
from conformance.validators import JSON, Document, Schema, documents

from antiphon.core.events import encode as sse
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.errors import ApiError
from antiphon.server.routes.websocket import Connection

CREATE = "POST /responses"
# The prefixes under which the same routes are served.
_PREFIX = re.compile(r"^(/openai)?(/deployments/[^/]+)?(/v1)?(?=/)")


class ResponsesWatcher(Watcher):
    protocol = RESPONSES

    # ---- what clients send -------------------------------------------------------------------------------------------

    def to_route(self, method: str, path: str) -> str | None:
        plain = _PREFIX.sub("", path).rstrip("/")
        found = (route for known, route, pattern in _patterns() if known == method and pattern.fullmatch(plain))
        return next((f"{method} {route}" for route in found), None)

    def request(self, route: str, request: web.Request, body: bytes) -> None:
        name = route.replace("{}", "{id}")
        self.saw("route", name)
        fields = self.recorder.take_fields()
        if name == CREATE:
            self.create(body)
            return
        for parameter in (*(each.partition("[")[0] for each in (*request.query, *fields)), *object_in(body)):
            self.saw("parameter", f"{name} {parameter}")

    def create(self, body: bytes) -> None:
        """The body of POST /responses, or a message that asks for a response."""
        request = object_in(body)
        if "type" in request:
            self.saw("client message", str(request.pop("type")))
        self.recorder.saw(*(Seen(self.protocol.name, *each) for each in request_to_seen(request)))

    # ---- what they get -----------------------------------------------------------------------------------------------

    def frames(self, data: bytes) -> None:
        """Events are seen before they are framed."""

    def event(self, data: bytes) -> None:
        event = msgspec.json.decode(data)
        self.saw("event", event["type"])
        # An item, or a response that has items.
        self.output([event["item"]] if "item" in event else event.get("response", {}).get("output", ()))
        schemas = [(document, document.events.get(event["type"])) for document in documents()]
        if not any(schema for _, schema in schemas) and event["type"] not in UNDESCRIBED:
            self.recorder.violations.append(f"the API has no event {event['type']}")
        self._validate(data, event, schemas)

    def answer(self, route: str, status: int, body: bytes) -> None:
        value = msgspec.json.decode(body)
        if status != 200:
            openai, _ = documents()
            self._validate(body, value["error"], [(openai, openai.named("Error"))])
            return
        if isinstance(value, dict) and value.get("object") in ("response", "response.compaction"):
            self.output(value.get("output", ()))
        method, _, path = route.partition(" ")
        self._validate(body, value, [(document, document.routes.get((method, path), {}).get(JSON)) for document in documents()])

    def websocket_error(self, data: bytes) -> None:
        self.saw("event", "error")
        names = ("ResponseWsError", "WebSocketErrorEvent")
        schemas = [(document, document.named(name)) for document in documents() for name in names]
        self._validate(data, msgspec.json.decode(data), schemas)

    def output(self, items: Iterable[Body]) -> None:
        for item in items:
            self.saw("output item", str(item.get("type")))

    def _validate(self, data: bytes, value: Any, schemas: Iterable[tuple[Document, Schema | None]]) -> None:
        def find() -> Iterator[str]:
            yield from (str(wrong) for document, schema in schemas if schema for wrong in document.violations(value, schema))
            yield from (str(each) for each in differences(value) if not any(known.covers(*each) for known in MEMBER_DEVIATIONS))

        self.recorder.check(data, find)

    # ---- where it listens --------------------------------------------------------------------------------------------

    def listen(self) -> None:
        # Those of other protocols are imported late, and must not take what is put in its place here.
        for other in ("chat", "messages"):
            importlib.import_module(f"antiphon.core.protocols.{other}.encoder")
        encode, open_stream = sse.to_json, sse.opening_frames
        receive, send_error = Connection._receive, Connection._send_error

        def encoded(value: Any) -> bytes:
            data = encode(value)
            if type(value) is not str:
                self.event(data)
            return data

        def opened(events: Sequence[AnyEvent]) -> list[bytes]:
            frames = open_stream(events)
            for frame in frames[1:]:
                self.event(frame.partition(sse.FRAME_HEAD)[2])
            return frames

        async def received(connection: Connection, kind: WSMsgType, data: Any) -> None:
            self.saw("route", "WEBSOCKET /responses")
            self.create(data)
            await receive(connection, kind, data)

        def sent_error(connection: Connection, error: ApiError) -> None:
            self.websocket_error(msgspec.json.encode({"type": "error", "status": error.status, **error.envelope()}))
            send_error(connection, error)

        sse.to_json = encoded
        sse.opening_frames = opened
        Connection._receive = received  # type: ignore[assignment, method-assign]
        Connection._send_error = sent_error  # type: ignore[assignment, method-assign]


@cache
def _patterns() -> list[tuple[str, str, re.Pattern[str]]]:
    """Paths without an id first."""
    routes = sorted(documents()[0].routes, key=lambda route: route[1].count("{}"))
    return [(method, path, re.compile(path.replace("{}", "[^/]+"))) for method, path in routes]


def request_to_seen(request: Body) -> Iterator[tuple[str, str]]:
    """Kinds and names."""
    for name in request:
        yield "request field", name
    given = request.get("input")
    for item in objects_in(given):
        yield "input item", str(item.get("type") or ("message" if "role" in item else "item_reference"))
        for member in ("content", "output", "summary"):
            for part in objects_in(item.get(member)):
                yield "content part", str(part.get("type"))
    for tool in objects_in(request.get("tools")):
        yield "tool", str(tool.get("type"))
    choice = request.get("tool_choice")
    if choice is not None:
        yield "tool choice", str(choice.get("type")) if isinstance(choice, dict) else str(choice)
