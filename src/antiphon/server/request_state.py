"""What every request has: an id, a key, headers of its answer, errors as OpenAI's envelope, and one line in the log."""

import logging
import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import hdrs, web
from multidict import CIMultiDict, istr

from antiphon import __version__
from antiphon.errors import ApiError, RequestTimeout, Unauthorized
from antiphon.ids import ADMIN, new_id
from antiphon.logs import log, logger
from antiphon.server.answers import rate_headers
from antiphon.server.app_keys import GATEWAY, KEYRING
from antiphon.server.cors import CROSS_ORIGIN
from antiphon.server.foreign_errors import bug_to_error, foreign_to_error
from antiphon.transport import cut_off

NOTHING_MORE: Mapping[str, Any] = {}
# The names of headers, made once.
REQUEST_ID, PROCESSING_MS = istr("x-request-id"), istr("openai-processing-ms")


class RequestState:
    """What is known of a request from its arrival to its line in the log."""

    __slots__ = ("began", "finished", "id", "logged", "owner", "started")

    def __init__(self, id: str) -> None:
        self.id = id
        self.began = time.perf_counter()
        # For the log.
        self.logged: dict[str, Any] = {}
        # The whole answer has been written, whatever becomes of the connection.
        self.finished = False
        # The answer whose head has been sent, or is about to be.
        self.started: web.StreamResponse | None = None
        # As OWNER. None: its key has not been checked.
        self.owner: str | None = None


STATE = web.RequestKey("request_state", RequestState)
# Whose request it is: the name of its key; a hash of it, if it has no name; "" if no keys are set. What one owner has stored no
# other can see, except for the admin key.
OWNER = web.RequestKey("owner", str)
# The ids that a client may give its request. Anything else could forge a line in a log.
_SANE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
# Health checks come from machines that have no key; who reads the metrics has a key that is for nothing else.
OPEN_PATHS = frozenset({"/health", "/ready", "/metrics"})
# Of every answer.
SERVER = f"antiphon/{__version__}"
# The page of the inspector is the same for everybody: what it shows, it fetches with a key.
PAGE, PAGE_FILES = "/", "/inspector/page/"
# What is about the gateway itself.
INSPECTOR = "/inspector/"


def log_request(request: web.BaseRequest, state: RequestState, status: int) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    log(
        "request",
        level=logging.DEBUG if is_quiet(request.path) else logging.INFO,
        request_id=state.id,
        method=request.method,
        path=request.path,
        status=status,
        seconds=round(time.perf_counter() - state.began, 4),
        **state.logged,
    )


def add_to_log(request: web.BaseRequest, members: Callable[[], Mapping[str, Any]]) -> None:
    """To the line about the request. `members` is called only if that line will be written."""
    if logger.isEnabledFor(logging.INFO):
        request[STATE].logged.update(members())


def is_quiet(path: str) -> bool:
    """Whether it is asked for again and again, by programs that look after the gateway."""
    return path in OPEN_PATHS or path.startswith(INSPECTOR)


def identify(request: web.BaseRequest, headers: Mapping[str, str]) -> RequestState:
    given = headers.get("x-request-id")
    state = RequestState(given if given is not None and _SANE_ID.fullmatch(given) else new_id("req"))
    request[STATE] = state
    return state


def set_headers(request: web.Request, state: RequestState, headers: CIMultiDict[str]) -> None:
    """Of every answer, when its headers are sent: of streams, WebSockets and errors too."""
    headers[hdrs.SERVER] = SERVER
    headers[REQUEST_ID] = state.id
    headers[PROCESSING_MS] = str(round((time.perf_counter() - state.began) * 1000))
    app = request.app
    cross_origin = app[CROSS_ORIGIN]
    if cross_origin.origins:
        headers.update(cross_origin.headers(request.headers.get("Origin")))
    if state.owner is not None and (rate := app[GATEWAY].admission.owners.rate(state.owner)) is not None:
        headers.update(rate_headers(rate))


def answer_failed(request: web.Request, state: RequestState, failure: Exception) -> web.StreamResponse:
    error = failure if isinstance(failure, ApiError) else foreign_to_error(failure, request)
    error = error or _report_bug(failure, state.id)
    state.logged["error"] = error.code or error.kind
    started = state.started
    if started is None:
        return error_to_answer(error)
    # Nothing but the rest of a body may follow its head.
    if request.transport is not None:
        cut_off(request.transport, started)
    return started


def _report_bug(bug: BaseException | None, request_id: str) -> ApiError:
    log("bug", level=logging.ERROR, exc_info=bug, request_id=request_id)
    return bug_to_error()


def answer_unrouted(request: web.BaseRequest, error: BaseException | None) -> web.Response:
    """What no route has seen: it is not HTTP, or aiohttp rejects it before the middlewares."""
    request_id = identify(request, request.headers).id
    answer = foreign_to_error(error, request) or _report_bug(error, request_id)
    log("bad_request", request_id=request_id, status=answer.status, error=answer.code or answer.kind)
    response = error_to_answer(answer)
    response.headers["Server"] = SERVER
    response.headers["x-request-id"] = request_id
    return response


def is_open(path: str) -> bool:
    """Whether it is served without a key."""
    return path in OPEN_PATHS or path == PAGE or path.startswith(PAGE_FILES)


async def owner_of_key(request: web.Request) -> str:
    """By the keys as they are now: while a WebSocket is open, they may change. Raises Unauthorized."""
    keyring = request.app[KEYRING]
    if not keyring:
        return ""
    given = key_of(request)
    if not given:
        raise Unauthorized("No API key: send `Authorization: Bearer KEY`, or `api-key: KEY`.")
    owner = keyring.owner_of(given)
    if owner is None:
        raise Unauthorized("Incorrect API key provided.")
    return await request.app[GATEWAY].owners.settled(owner)


def is_trusted(request: web.Request) -> bool:
    """Whether it may see what is behind the gateway: it has a valid key, or no keys are set."""
    keyring = request.app[KEYRING]
    return not keyring or keyring.owner_of(key_of(request)) is not None


async def owner_seen(request: web.Request, id: str) -> str:
    """Whose response or conversation a request may read and delete: its own, and with the admin key everybody's."""
    owner = request[OWNER]
    return await request.app[GATEWAY].store.owner_of(id) or owner if owner == ADMIN else owner


def key_of(request: web.Request) -> bytes:
    """As OpenAI's clients send it, or Azure's."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    key = given if scheme.lower() == "bearer" else ""
    return (key.strip() or request.headers.get("api-key", "").strip()).encode(errors="surrogateescape")


def error_to_answer(error: ApiError, more: Mapping[str, Any] = NOTHING_MORE) -> web.Response:
    """`more`: members beside the error."""
    return web.Response(
        status=error.status,
        body=msgspec.json.encode({**error.envelope(), **more}),
        content_type="application/json",
        headers=error.headers,
    )


def _to_bytes(error: ApiError) -> bytes:
    """The answer of a connection on which there is no request to answer."""
    body = msgspec.json.encode(error.envelope())
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nServer: {SERVER}\r\nContent-Type: application/json\r\n"
    )
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


TOO_SLOW = _to_bytes(RequestTimeout("The headers of the request were not sent in time. Send it again."))
