"""What a request is answered with: JSON, notices as a header, and errors, in the protocol of the request: ours, and what
aiohttp's parser, its router and its readers of bodies complain about."""

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import Payload, hdrs, web

from antiphon.core.events.json_pieces import JsonPieces, long_json
from antiphon.core.protocols.client_protocol import JSON, ClientProtocol
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.errors import (
    ApiError,
    BodyTooLarge,
    EngineError,
    HeadersTooLarge,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    counted,
)
from antiphon.gateway.limits.request_rates import RateState
from antiphon.gateway.runs.run import BUG
from antiphon.logs import log
from antiphon.server.parts import APP
from antiphon.server.paths import ProtocolPaths
from antiphon.server.request_state import SERVER, RequestState, identify
from antiphon.transport import BadBody, BadRequest, LongHeader, SlowBody, cut_off

LONGEST_HEADER = 4000


def to_json(value: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    return to_answer(long_json(value) or msgspec.json.encode(value), JSON, headers or {})


def to_answer(body: bytes | JsonPieces, kind: str, headers: Mapping[str, str]) -> web.Response:
    """`kind`: its `Content-Type`."""
    sent = body if isinstance(body, bytes) else LongBody(body)
    return web.Response(body=sent, headers={hdrs.CONTENT_TYPE: kind, **headers})


class LongBody(Payload):
    """A long body. Each piece of it is encoded when the client has taken the one before."""

    def __init__(self, pieces: JsonPieces) -> None:
        super().__init__(pieces)
        self._pieces = pieces
        self._size = len(pieces)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        for piece in self._pieces:
            await writer.write(piece)


def notice_header(notices: Sequence[str]) -> dict[str, str]:
    text = "; ".join(notices)[:LONGEST_HEADER]
    if not text:
        return {}
    if not (text.isascii() and text.isprintable()):
        text = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return {"antiphon-notice": text}


# ---- The headers that say how many requests a key may still send, as OpenAI's clients know them ----------------------


def rate_headers(state: RateState | None) -> dict[str, str]:
    """None: there is no limit, and nothing to say."""
    if state is None:
        return {}
    return {
        "x-ratelimit-limit-requests": str(state.limit),
        "x-ratelimit-remaining-requests": str(state.remaining),
        "x-ratelimit-reset-requests": duration(state.reset),
    }


def duration(seconds: float) -> str:
    """Such as 1m30s, 12s or 250ms."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


# aiohttp's default.
TOO_LONG = "The request line and each header may have 8190 bytes at most."
UNEXPECTED = "The header `Expect` must be `100-continue`, or absent."
SLOW = "The body was not sent in time. Send the request again."
UNREADABLE = (
    "The body cannot be decoded: it is not in the coding that `Content-Encoding` or `Transfer-Encoding` names. "
    "Send it as it is, or in gzip or deflate."
)

Translate = Callable[[Any, web.BaseRequest], ApiError]

# The first row that fits counts.
TRANSLATIONS: Sequence[tuple[Any, Translate]] = (
    (web.HTTPRequestEntityTooLarge, lambda _, request: BodyTooLarge(_too_large(request))),
    (web.HTTPNotFound, lambda _, request: NotFound(_no_route(request))),
    (web.HTTPMethodNotAllowed, lambda wrong, request: MethodNotAllowed(_allowed(wrong, request), wrong.allowed_methods)),
    (web.HTTPExpectationFailed, lambda _, __: InvalidRequest(UNEXPECTED)),
    (web.HTTPException, lambda other, _: InvalidRequest(f"{other.reason}.")),
    (SlowBody, lambda _, __: RequestTimeout(SLOW)),
    (BadBody | web.RequestPayloadError, lambda _, __: InvalidRequest(UNREADABLE, code="invalid_body")),
    (LongHeader, lambda _, __: HeadersTooLarge(TOO_LONG)),
    (BadRequest, lambda why, _: InvalidRequest(f"The request is not valid HTTP: {why}.", code="invalid_http")),
)


def foreign_to_error(foreign: BaseException | None, request: web.BaseRequest) -> ApiError | None:
    """None: it is a bug."""
    return next((translate(foreign, request) for kind, translate in TRANSLATIONS if isinstance(foreign, kind)), None)


def _report_bug(bug: BaseException | None, request_id: str) -> ApiError:
    log("bug", level=logging.ERROR, exc_info=bug, request_id=request_id)
    # Codex hides the message of a 500, and retries it thirty times.
    return EngineError(BUG, code="internal_error")


def _too_large(request: web.BaseRequest) -> str:
    return f"The body is larger than {counted(request.client_max_size, 'byte')}."


def _no_route(request: web.BaseRequest) -> str:
    nearest = request.app[APP].routing.nearest.of(request.method, request.path) if isinstance(request, web.Request) else None
    meant = f" Did you mean {nearest}?" if nearest is not None else ""
    return f"There is no {request.method} {request.path} here.{meant}"


def _allowed(wrong: web.HTTPMethodNotAllowed, request: web.BaseRequest) -> str:
    return f"{request.path} takes {', '.join(sorted(wrong.allowed_methods))}, not {request.method}."


# ---- answers ---------------------------------------------------------------------------------------------------------


def answer_failed(
    request: web.Request, state: RequestState, failure: Exception, protocols: ProtocolPaths
) -> web.StreamResponse:
    error = failure if isinstance(failure, ApiError) else foreign_to_error(failure, request)
    error = error or _report_bug(failure, state.id)
    state.logged["error"] = error.code or error.kind
    started = state.started
    if started is None:
        return error_to_answer(error, protocols.protocol_of(request.path, request.headers), state.id)
    # Nothing but the rest of a body may follow its head.
    if request.transport is not None:
        cut_off(request.transport, started)
    return started


def answer_unrouted(protocols: ProtocolPaths, request: web.BaseRequest, error: BaseException | None) -> web.Response:
    """What no route has seen: it is not HTTP, or aiohttp rejects it before the middlewares."""
    request_id = identify(request, request.headers).id
    failed = foreign_to_error(error, request) or _report_bug(error, request_id)
    log("bad_request", request_id=request_id, status=failed.status, error=failed.code or failed.kind)
    # Of what is not HTTP, aiohttp knows no path.
    response = error_to_answer(failed, protocols.protocol_of(request.path, request.headers), request_id)
    response.headers["Server"] = SERVER
    response.headers["x-request-id"] = request_id
    return response


def error_to_answer(error: ApiError, protocol: ClientProtocol, request_id: str) -> web.Response:
    answer = protocol.error(error, request_id)
    headers = {**answer.headers, **id_header(protocol, request_id)}
    return web.Response(status=answer.status, body=answer.body, headers=headers)


def id_header(protocol: ClientProtocol, request_id: str) -> dict[str, str]:
    return {} if protocol.id_header is None else {protocol.id_header: request_id}


def _to_bytes(error: ApiError, protocol: ClientProtocol = RESPONSES) -> bytes:
    """The answer of a connection on which there is no request to answer."""
    status, body, headers = protocol.error(error)
    every = {"Server": SERVER, **headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode() + body


TOO_SLOW = _to_bytes(RequestTimeout("The headers of the request were not sent in time. Send it again."))
