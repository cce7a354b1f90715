"""aiohttp's exceptions → our errors: what its parser, its router and its readers of bodies complain about."""

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

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
from antiphon.gateway.runs.run import BUG
from antiphon.server.nearest_route import NEAREST_ROUTE
from antiphon.transport import BadBody, BadRequest, LongHeader, SlowBody

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


def bug_to_error() -> ApiError:
    # Codex hides the message of a 500, and retries it thirty times.
    return EngineError(BUG, code="internal_error")


def _too_large(request: web.BaseRequest) -> str:
    return f"The body is larger than {counted(request.client_max_size, 'byte')}."


def _no_route(request: web.BaseRequest) -> str:
    nearest = request.app[NEAREST_ROUTE].of(request.method, request.path) if isinstance(request, web.Request) else None
    meant = f" Did you mean {nearest}?" if nearest is not None else ""
    return f"There is no {request.method} {request.path} here.{meant}"


def _allowed(wrong: web.HTTPMethodNotAllowed, request: web.BaseRequest) -> str:
    return f"{request.path} takes {', '.join(sorted(wrong.allowed_methods))}, not {request.method}."
