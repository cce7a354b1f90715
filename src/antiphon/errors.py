"""Every error that a client can meet.

    ApiError
    ├── InvalidRequest            400   the client can fix it; names the field
    │   └── ContextLengthExceeded 400   a `response.failed` when streaming: Codex compacts on it
    ├── Unauthorized              401
    ├── Forbidden                 403   a web page of another origin, or a host name that is not ours
    ├── NotFound                  404
    ├── MethodNotAllowed          405
    ├── RequestTimeout            408   the client did not send all of its request in time
    ├── Conflict                  409   another request is using it: try again
    │   └── Cancelled             409   the response ends as cancelled, not as failed
    ├── BodyTooLarge              413
    ├── UnsupportedMediaType      415   a body that is not JSON, or in a coding that is not read
    ├── ExternalConnectorError    424   an MCP server did not list its tools; a `response.failed` when streaming
    ├── UpgradeRequired           426
    ├── RateLimited               429   more than the limits allow: our own, or the engine's, passed on
    ├── QuotaExceeded             429   the budget of the key is used up: not before the next day or month
    ├── HeadersTooLarge           431
    ├── StoreUnavailable          503   the store cannot be reached, or does not answer: try again
    └── EngineError               502   the engine or the connection to it is at fault
        ├── EngineUnavailable     503   not there, or not ready: try again
        │   ├── EngineBusy        503   its queue is full, or moved too slowly: try again
        │   └── ShuttingDown      503   the gateway is: try again
        ├── EngineStalled         504   it sent nothing for too long
        ├── OutOfTime             504   the whole response took too long
        ├── EngineDisagrees       502   it answered, but not as Chat Completions
        └── AnswerInvalid         502   the model did not do what the request requires, in two attempts
            └── NotConstrained    502   what was streamed breaks its schema: the next answer is checked before it is shown

`status` and `kind` are the HTTP answer, in which `x-should-retry: false` says that `may_pass` is false: then there is no
`Retry-After` either. `event_code` is the code inside a `response.failed`, by which Codex decides whether to retry.
"""

import math
import re
from collections.abc import Callable, Collection
from typing import ClassVar

import msgspec
from msgspec import Struct

# What decoding foreign JSON can raise: it is malformed, of the wrong shape, not UTF-8, or nested too deeply.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class EngineFailure(Struct, frozen=True):
    """An engine's error in its own words, whatever its shape: an HTTP answer, or an error object inside a stream."""

    status: int
    kind: str
    message: str
    # In seconds.
    retry_after: float | None = None
    # What it says about another attempt; None: nothing.
    should_retry: bool | None = None


_TOKENS = re.compile(r"(\d+)\s*(?:prompt |input )?tokens", re.IGNORECASE)


def token_counts(words: str) -> list[int]:
    """The numbers of tokens in an engine's words about a prompt that is too long: most say how many it has, and how many are
    allowed."""
    return [int(count) for count in _TOKENS.findall(words)]


def seconds_to_header(seconds: float) -> str:
    """As `Retry-After` has them: whole, and never none, because nobody should ask again at once."""
    return str(max(1, math.ceil(seconds)))


# The most characters of a message, of the name of a field, and of a client's value that a message quotes.
LONGEST_MESSAGE = 4000
LONGEST_PARAM = 500
LONGEST_QUOTED = 100


def quoted(value: object) -> str:
    """A client's value in a message. It may have megabytes, and messages are logged, recorded and shown."""
    if isinstance(value, str) and len(value) > LONGEST_QUOTED:
        return f"{value[:LONGEST_QUOTED]!r}…"
    return shortened(repr(value), LONGEST_QUOTED)


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


class ApiError(Exception):
    status: ClassVar[int] = 500
    kind: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None
    event_code: ClassVar[str] = "server_error"
    # Whether the same request may succeed at another time. If not, the answer asks clients not to repeat it.
    may_pass: bool = False
    # Once a client asked for a stream, some errors serve it better as an event than as an HTTP status.
    streams: ClassVar[bool] = False
    # Only time was short: the model can go on from what there is.
    is_pause: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        failure: EngineFailure | None = None,
        may_pass: bool | None = None,
    ) -> None:
        """`failure`: what the engine said, where it is the cause. Code acts on that, never on our own message. `may_pass`: if
        it differs from that of the class."""
        message = shortened(message, LONGEST_MESSAGE)
        super().__init__(message)
        self.message = message
        self.failure = failure
        self.param = None if param is None else shortened(param, LONGEST_PARAM)
        self.code = code or self.default_code
        self.retry_after = retry_after
        if may_pass is not None:
            self.may_pass = may_pass

    def reword(self, words: Callable[[str], str]) -> None:
        """With the names that the client has for what is wrong."""
        self.message = shortened(words(self.message), LONGEST_MESSAGE)
        self.param = None if self.param is None else shortened(words(self.param), LONGEST_PARAM)

    @property
    def retry_headers(self) -> dict[str, str]:
        """For clients like the openai SDK, which tries a 409 or a 5xx again unless a header says not to."""
        if not self.may_pass:
            return {"x-should-retry": "false"}
        asked_to = self.failure is not None and self.failure.should_retry is True
        headers = {"x-should-retry": "true"} if asked_to else {}
        if self.retry_after is not None:
            headers["Retry-After"] = seconds_to_header(self.retry_after)
        return headers

    @property
    def headers(self) -> dict[str, str]:
        """Of an HTTP answer."""
        return self.retry_headers

    def envelope(self) -> dict[str, dict[str, str | None]]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class InvalidRequest(ApiError):
    status = 400
    kind = "invalid_request_error"
    event_code = "invalid_prompt"


class ContextLengthExceeded(InvalidRequest):
    default_code = "context_length_exceeded"
    event_code = "context_length_exceeded"
    streams = True


class Unauthorized(ApiError):
    status = 401
    kind = "invalid_request_error"
    default_code = "invalid_api_key"


class Forbidden(ApiError):
    status = 403
    kind = "invalid_request_error"
    default_code = "forbidden"


class NotFound(ApiError):
    status = 404
    kind = "invalid_request_error"
    default_code = "not_found"


class MethodNotAllowed(ApiError):
    status = 405
    kind = "invalid_request_error"
    default_code = "method_not_allowed"

    def __init__(self, message: str, allowed: Collection[str]) -> None:
        super().__init__(message)
        self._allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        return {"Allow": ", ".join(sorted(self._allowed)), **super().headers}


class RequestTimeout(ApiError):
    status = 408
    kind = "invalid_request_error"
    default_code = "request_timeout"
    may_pass = True


class Conflict(ApiError):
    status = 409
    kind = "conflict_error"
    default_code = "conflict"
    may_pass = True


class Cancelled(Conflict):
    """Ends a background response that the client has cancelled."""

    default_code = "response_cancelled"
    may_pass = False

    def __init__(self) -> None:
        super().__init__("The response was cancelled.")


class BodyTooLarge(ApiError):
    status = 413
    kind = "invalid_request_error"
    default_code = "request_too_large"


class UnsupportedMediaType(ApiError):
    status = 415
    kind = "invalid_request_error"
    default_code = "unsupported_media_type"


class ExternalConnectorError(ApiError):
    status = 424
    kind = "external_connector_error"
    default_code = "http_error"
    may_pass = True
    streams = True


class UpgradeRequired(ApiError):
    status = 426
    kind = "invalid_request_error"
    default_code = "upgrade_required"


class RateLimited(ApiError):
    status = 429
    kind = "rate_limit_error"
    default_code = "rate_limit_exceeded"
    may_pass = True
    event_code = "rate_limit_exceeded"


class QuotaExceeded(ApiError):
    """Another attempt is refused too, until the next day or month begins."""

    status = 429
    kind = "insufficient_quota"
    default_code = "insufficient_quota"
    event_code = "insufficient_quota"


class HeadersTooLarge(ApiError):
    status = 431
    kind = "invalid_request_error"
    default_code = "headers_too_large"


class StoreUnavailable(ApiError):
    status = 503
    default_code = "store_unavailable"
    may_pass = True

    def __init__(self, message: str = "The store of responses is not available. Try again in a moment.") -> None:
        super().__init__(message, retry_after=2.0)


class EngineError(ApiError):
    status = 502
    default_code = "engine_error"
    may_pass = True


class EngineUnavailable(EngineError):
    status = 503
    default_code = "engine_unavailable"


class EngineBusy(EngineUnavailable):
    default_code = "engine_busy"


class ShuttingDown(EngineUnavailable):
    is_pause = True

    def __init__(self) -> None:
        super().__init__("The gateway is shutting down.", retry_after=1)


class EngineStalled(EngineError):
    status = 504
    default_code = "engine_stalled"


class OutOfTime(EngineError):
    status = 504
    default_code = "response_timeout"
    # It would take as long again.
    may_pass = False
    is_pause = True


class EngineDisagrees(EngineError):
    default_code = "engine_answer_not_understood"


class AnswerInvalid(EngineError):
    default_code = "answer_invalid"
    may_pass = False
    # This model answers this prompt no better another time. Codex repeats a request for all other codes of OpenAI's list but
    # those about policies.
    event_code = "invalid_prompt"


class NotConstrained(AnswerInvalid):
    """The engine is known from then on, so another attempt differs: it is repaired, or asked for again."""

    default_code = "schema_not_kept"
    may_pass = True
    event_code = "server_error"


# ---- numbers in messages ---------------------------------------------------------------------------------------------


def counted(number: float, noun: str) -> str:
    """Such as "1 request", "2 requests" and "0.5 seconds". The noun takes an s."""
    shown = f"{number:g}" if isinstance(number, float) else str(number)
    return f"{shown} {noun}" if number == 1 else f"{shown} {noun}s"


def allowed(most: int, noun: str) -> str:
    """Such as "1 tool is allowed" and "2 tools are allowed"."""
    return f"{counted(most, noun)} {'is' if most == 1 else 'are'} allowed"
