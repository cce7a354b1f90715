"""GET /v1/responses with an upgrade: the Responses API over a WebSocket, one response after another."""

import asyncio
import logging
import time
from functools import partial
from typing import Any, NamedTuple

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web
from msgspec import Struct

from antiphon.core.protocols.responses.field_errors import unreadable_to_error
from antiphon.core.protocols.responses.protocol import RESPONSES_WEBSOCKET
from antiphon.errors import (
    UNREADABLE,
    ApiError,
    BodyTooLarge,
    EngineError,
    InvalidRequest,
    RateLimited,
    UpgradeRequired,
    counted,
    quoted,
)
from antiphon.gateway.limits.threads import LARGE_TO_SKIP
from antiphon.gateway.runs.observers import arrive
from antiphon.gateway.runs.outbox import EncodedSink
from antiphon.gateway.runs.run import BUG
from antiphon.gateway.runs.status import run_summary
from antiphon.gateway.state.recent_histories import RecentHistories
from antiphon.logs import log
from antiphon.server.answers import rate_headers
from antiphon.server.parts import APP, owner_of_key
from antiphon.server.readiness import Leave, OpenConnection
from antiphon.server.request_state import OWNER, STATE
from antiphon.transport import MessageStream, Socket

# How often a client is pinged, in seconds; one that does not answer in half of that is gone.
PING_INTERVAL = 20.0
# How long a client may take to agree to the end, in seconds.
CLOSE_TIMEOUT = 1.0


class Head(Struct):
    """What has to be known of a message before it is answered."""

    type: Any = None
    previous_response_id: Any = None


class Waiting(NamedTuple):
    message: bytes
    previous: str | None


async def converse(request: web.Request) -> web.StreamResponse:
    limits = request.app[APP].limits
    socket = Socket(
        heartbeat=limits.websocket_ping,
        farewell=limits.websocket_farewell,
        # A message of this size is the first that aiohttp takes for too large.
        max_msg_size=limits.max_body_bytes + 1,
        compress=False,
        decode_text=False,
    )
    if not _can_open(socket, request):
        raise UpgradeRequired("GET is for WebSockets: send `Upgrade: websocket`, or use POST.")
    async with request.app[APP].transport.open_messages(request, socket) as stream:
        await _connected(Connection(request, socket, stream), request.app[APP].open.connections, limits.websocket_lifetime)
    return socket


def _can_open(socket: Socket, request: web.Request) -> bool:
    try:
        return bool(socket.can_prepare(request))
    except ValueError:
        # Its key is not even ASCII.
        return False


async def _connected(connection: "Connection", connections: set[OpenConnection], lifetime: float) -> None:
    """Runs the connection to its end, which is at the latest when its time is over."""
    connections.add(connection)
    ageing = asyncio.get_running_loop().call_later(lifetime, connection.leave, too_old(lifetime))
    try:
        await connection.run()
    finally:
        ageing.cancel()
        connections.discard(connection)


def too_old(lifetime: float) -> Leave:
    return Leave(
        WSCloseCode.OK,
        InvalidRequest(
            f"A WebSocket connection lives for {counted(lifetime / 60, 'minute')}. Open another one to continue.",
            code="websocket_connection_limit_reached",
        ),
    )


class Connection:
    """One client: its requests are queued, and answered in order."""

    def __init__(self, request: web.Request, socket: Socket, stream: MessageStream) -> None:
        self._gateway = request.app[APP].gateway
        self._request = request
        # Of the last request: while the connection is open, its key may get a name.
        self._owner = request[OWNER]
        self._socket = socket
        self._stream = stream
        socket.refuse_large = self._refuse_large
        self._histories = RecentHistories()
        self._limits = request.app[APP].limits
        # None ends the wait for the next request, because the connection is to be closed.
        self._waiting: asyncio.Queue[Waiting | None] = asyncio.Queue()
        # The size of the messages in it.
        self._waiting_bytes = 0
        # The client does not read what it is sent.
        self._is_full = False
        self._leaving: Leave | None = None

    async def run(self) -> None:
        """Until either side closes. A client that leaves ends the engine's work at once."""
        reading, answering = asyncio.create_task(self._read()), asyncio.create_task(self._answer_all())
        try:
            done, _ = await asyncio.wait({reading, answering}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if self._leaving is not None and not self._socket.closed:
                await self._close(self._leaving)
        finally:
            reading.cancel()
            answering.cancel()
            await asyncio.gather(reading, answering, return_exceptions=True)

    def leave(self, why: Leave) -> None:
        """Closes the connection once the current response has ended."""
        if self._leaving is None:
            self._leaving = why
            self._waiting.put_nowait(None)

    async def _close(self, why: Leave) -> None:
        """A client that does not read cannot keep its connection open."""
        transport = self._request.transport
        if why.error is not None:
            self._send_error(why.error)
        try:
            async with asyncio.timeout(self._limits.websocket_ping):
                await self._socket.close(code=why.code)
        except TimeoutError:
            if transport is not None:
                transport.abort()

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        async for kind, data, _ in self._socket:
            await self._receive(kind, data)
            if self._is_full:
                # What a client sends is not read until it reads what it got: its errors would fill the memory.
                await self._stream.drain()
                self._is_full = False
        if self._socket.close_code != WSCloseCode.ABNORMAL_CLOSURE:
            # The client said that it ends. Its connection is closed at once, which cancels this request before it can end.
            self._request[STATE].finished = True

    async def _receive(self, kind: WSMsgType, data: Any) -> None:
        try:
            if len(data) < LARGE_TO_SKIP:
                head = _head(kind, data)
            else:
                head = await self._gateway.aside(partial(_head, kind, data), self._owner, large=True)
            self._refuse_more(len(data))
        except ApiError as error:
            self._send_error(error)
            return
        previous = head.previous_response_id
        self._waiting_bytes += len(data)
        self._waiting.put_nowait(Waiting(data, previous if isinstance(previous, str) else None))

    def _refuse_more(self, size: int) -> None:
        """Together, the requests that wait may be as large as one may be."""
        most, largest = self._limits.websocket_queue, self._limits.max_body_bytes
        if self._waiting.qsize() >= most:
            raise RateLimited(
                f"At most {counted(most, 'request')} may wait. Responses run one after another: wait for one to end."
            )
        if self._waiting_bytes and self._waiting_bytes + size > largest:
            raise RateLimited(
                f"The requests that are waiting would be larger than {counted(largest, 'byte')}. "
                "Responses run one after another: wait for one to end."
            )

    # ---- responses ---------------------------------------------------------------------------------------------------

    async def _answer_all(self) -> None:
        state = self._request[STATE]
        # A client that leaves while it waits for nothing has ended the connection: many, like Codex, send no closing frame.
        state.finished = True
        while self._leaving is None and (asked := await self._next()) is not None:
            state.finished = False
            await self._answer(asked)
            state.finished = self._waiting.empty()

    async def _next(self) -> Waiting | None:
        asked = await self._waiting.get()
        if asked is not None:
            self._waiting_bytes -= len(asked.message)
        return asked

    async def _answer(self, asked: Waiting) -> None:
        began = time.perf_counter()
        logged: dict[str, Any] = {}
        status = 499
        try:
            error = await self._respond(asked.message, logged)
            status = 200 if error is None else error.status
            if error is not None and asked.previous is not None:
                # A client whose response failed sends its whole history again.
                self._histories.remove(asked.previous)
        finally:
            log(
                "request",
                request_id=self._request[STATE].id,
                method="WEBSOCKET",
                path=self._request.path,
                status=status,
                seconds=round(time.perf_counter() - began, 4),
                **logged,
            )

    async def _respond(self, message: bytes, logged: dict[str, Any]) -> ApiError | None:
        """What went wrong, if anything: sent as an error before the first event, and as an event after it."""
        begun = False
        try:
            # Its key may have got a name, or be gone.
            self._owner = await owner_of_key(self._request)
            arrival = arrive(message, self._owner, RESPONSES_WEBSOCKET, self._request.headers)
            deployment = self._request.match_info.get("deployment")
            received = await self._gateway.receive(arrival, RESPONSES_WEBSOCKET, model=deployment)
            run = await self._gateway.begin(received, histories=self._histories)
            async with self._gateway.running(run):
                try:
                    await run.connect(self._gateway.heartbeat)
                    begun = True
                    await run.run(EncodedSink(self._stream, RESPONSES_WEBSOCKET.encoder()))
                finally:
                    logged |= run_summary(run)
            return run.error
        except ApiError as error:
            failed = error
        except ConnectionError:
            # It does not read, and what was written for it is not kept.
            if self._request.transport is not None:
                self._request.transport.abort()
            raise
        except Exception as bug:
            log("bug", level=logging.ERROR, exc_info=bug, request_id=self._request[STATE].id)
            failed = EngineError(BUG, code="internal_error")
        logged["error"] = failed.code or failed.kind
        if not begun:
            self._send_error(failed)
        return failed

    def _refuse_large(self) -> None:
        """Nothing is sent after this: what follows such a message cannot be read."""
        error = BodyTooLarge(f"The message is larger than {counted(self._limits.max_body_bytes, 'byte')}.")
        self._request[STATE].logged["error"] = error.code
        self._send_error(error)
        self._stream.end()

    def _send_error(self, error: ApiError) -> None:
        headers = rate_headers(self._gateway.admission.owners.rate(self._owner))
        if (retry_after := error.retry_headers.get("Retry-After")) is not None:
            headers["retry-after"] = retry_after
        self._is_full = self._stream.write([RESPONSES_WEBSOCKET.error_message(error, headers)])


def _head(kind: WSMsgType, data: Any) -> Head:
    if kind is not WSMsgType.TEXT:
        raise InvalidRequest("Messages must be JSON, in text frames.", code="invalid_json")
    try:
        head = msgspec.json.decode(data, type=Head)
    except msgspec.ValidationError:
        raise InvalidRequest("A message must be a JSON object.", code="invalid_json") from None
    except UNREADABLE as broken:
        raise unreadable_to_error(str(broken), data, "message") from None
    if head.type != "response.create":
        raise InvalidRequest(
            f"Invalid `type`: {quoted(head.type)} must be 'response.create'.", param="type", code="unknown_event_type"
        )
    return head
