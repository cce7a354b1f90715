"""The fault matrix: what an engine may do wrong, and what a client gets then. One row for each fault."""

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from faults.engine import Act, Forever, Step
from faults.ways import CHATS, IN_BACKGROUND, MESSAGES, Outcome
from support.engine import DONE, USAGE, answer, call, chunk, text
from support.raw_server import CHUNKED, chunked


@dataclass(frozen=True, slots=True)
class Expected:
    """What a client gets, however it asks."""

    # How the response ends.
    ended: str = "completed"
    # Of the HTTP error that a client gets that does not stream.
    status: int = 200
    code: str | None = None
    # In a `response.failed`.
    event_code: str | None = None
    # The stream has begun when it goes wrong: there it is an event and not an HTTP error.
    begun: bool = True
    # Whether the error has a Retry-After, and whether it asks the client not to try again.
    retry_after: bool = False
    futile: bool = False

    def outcome(self, way: str) -> Outcome:
        if way in MESSAGES:
            return self._of_message(MESSAGES[way])
        if way in CHATS:
            return replace(self, begun=self._has_begun).outcome(CHATS[way])
        if self.ended != "failed":
            return Outcome(self.ended)
        if way in IN_BACKGROUND or (self.begun and way != "whole"):
            return Outcome("failed", self.event_code)
        # A WebSocket has no headers, and a frame with a status in their place.
        return Outcome("error", self.code, self.status, self.retry_after, self.futile and way != "websocket")

    @property
    def _has_begun(self) -> bool:
        """What a client of the Responses API gets as an event, before anything else of a stream, is an HTTP error to others."""
        return self.begun and self.event_code != "context_length_exceeded"

    def _of_message(self, way: str) -> Outcome:
        """Anthropic's errors have a type in place of a code, and a status of their own for an engine that is not there."""
        outcome = replace(self, begun=self._has_begun).outcome(way)
        match outcome.ended:
            case "failed":
                return replace(outcome, code=TYPES_OF_EVENTS.get(outcome.code or "", "api_error"))
            case "error":
                kind = TYPES.get(outcome.status, "api_error" if outcome.status >= 500 else "invalid_request_error")
                return replace(outcome, code=kind, status=529 if outcome.status == 503 else outcome.status)
        return outcome


# Anthropic's.
TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
TYPES_OF_EVENTS = {"rate_limit_exceeded": "rate_limit_error", "invalid_prompt": "invalid_request_error"}

COMPLETED = Expected()
INCOMPLETE = Expected("incomplete")


def failed(status: int, code: str, *, event: str = "server_error", begun: bool = True, **how: bool) -> Expected:
    return Expected("failed", status, code, event, begun, **how)


# The engine breaks off, and what it has sent is no whole answer.
CUT = failed(502, "engine_error", retry_after=True)
# It is not there, or its connection breaks, before it answers.
AWAY = failed(503, "engine_unavailable", begun=False, retry_after=True)
# What it sends is not what an engine sends, before or after the first byte of its body.
NO_HTTP = failed(502, "engine_answer_not_understood", begun=False, retry_after=True)
BROKEN_HTTP = failed(502, "engine_answer_not_understood", retry_after=True)
NO_CHAT = failed(502, "engine_answer_not_understood")
STALLED = failed(504, "engine_stalled", retry_after=True)
SILENT = failed(504, "engine_stalled", begun=False, retry_after=True)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    sends: tuple[Step, ...]
    expected: Expected
    # The chat request is sent once more before the client gets an error.
    tried_again: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


HELLO = chunk({"role": "assistant", "content": "Hello"})
WORLD = chunk({"content": " wörld"})
STOP = chunk(finish="stop")
ANSWER = HELLO + WORLD + STOP + USAGE + DONE
NO_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
OLD = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def piece(data: bytes) -> bytes:
    """One HTTP chunk, with nothing after it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def in_chunks(*frames: bytes) -> bytes:
    """A 200 whose body has these bytes, and ends as it should."""
    return CHUNKED + chunked(*frames)


def begun(*frames: bytes) -> bytes:
    """A 200 whose body has these bytes so far."""
    return CHUNKED + b"".join(map(piece, frames))


def refusal(status: int, body: bytes, kind: str = "application/json", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status} No\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def sized_answer(length: int, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (length, body)


def encoded(coding: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: {coding}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def typed(kind: str, body: bytes) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


# ---- before the answer -----------------------------------------------------------------------------------------------

HEAD = CHUNKED.removesuffix(b"\r\n")
QUICK = {"first_byte_timeout": 0.2, "idle_timeout": 0.2}

CONNECTIONS = (
    Row("the connection is refused", (Act.REFUSE,), AWAY),
    Row("reset before the headers", (Act.RESET,), AWAY, tried_again=True),
    Row("closed before the headers", (Act.CLOSE,), AWAY, tried_again=True),
    Row("reset within the status line", (b"HTTP/1.", Act.RESET), AWAY, tried_again=True),
    Row("closed within the status line", (b"HTTP/1.", Act.CLOSE), AWAY, tried_again=True),
    Row("reset within the headers", (HEAD[:40], Act.RESET), AWAY, tried_again=True),
    Row("closed within the headers", (HEAD[:40], Act.CLOSE), AWAY, tried_again=True),
    Row("headers only, then reset", (CHUNKED, Act.RESET), CUT),
    Row("headers only, then closed", (CHUNKED, Act.CLOSE), CUT),
    Row("headers only, and no length", (NO_LENGTH, Act.CLOSE), NO_CHAT),
    Row("no byte at all", (Act.STALL,), SILENT, settings=QUICK),
    Row("silence within the headers", (HEAD[:40], Act.STALL), SILENT, settings=QUICK),
    Row("silence after the headers", (CHUNKED, Act.STALL), STALLED, settings=QUICK),
    Row("silence in mid-stream", (begun(HELLO), Act.STALL), STALLED, settings=QUICK),
    Row("silence within a frame", (begun(HELLO[:30]), Act.STALL), STALLED, settings=QUICK),
    Row("silence within an HTTP chunk", (CHUNKED + piece(HELLO)[:30], Act.STALL), STALLED, settings=QUICK),
    Row("silence after the finish", (begun(HELLO, STOP), Act.STALL), STALLED, settings=QUICK),
    Row("silence after [DONE]", (begun(ANSWER), Act.STALL), COMPLETED, settings=QUICK),
)

# ---- cuts ------------------------------------------------------------------------------------------------------------

CALL = call("look", '{"place": "here"}')
# A place in the stream, what was sent up to it, and what is left of it.
PLACES: tuple[tuple[str, bytes, Expected], ...] = (
    ("within an HTTP chunk's size", CHUNKED + b"1", CUT),
    ("within an HTTP chunk", CHUNKED + piece(HELLO)[:-20], CUT),
    ("between two frames", begun(HELLO), CUT),
    ("within a frame", begun(HELLO, WORLD[:40]), CUT),
    ("within a character", begun(HELLO, WORLD[: WORLD.index("ö".encode()) + 1]), CUT),
    ("before a blank line", begun(HELLO, WORLD[:-1]), CUT),
    ("within a thought", begun(chunk({"reasoning_content": "Hm"})), CUT),
    ("within a call", begun(CALL[:-40]), CUT),
    ("after a whole call", begun(CALL), CUT),
    ("within the finish", begun(HELLO, STOP[:-30]), CUT),
    ("after the finish", begun(HELLO, STOP), COMPLETED),
    ("within the usage", begun(HELLO, STOP, USAGE[:-30]), COMPLETED),
    ("within [DONE]", begun(HELLO, STOP, USAGE, DONE[:9]), COMPLETED),
    ("after [DONE]", begun(ANSWER), COMPLETED),
)
CUTS = tuple(
    Row(f"{word} {place}", (sent, act), expected)
    for place, sent, expected in PLACES
    for word, act in (("reset", Act.RESET), ("closed", Act.CLOSE))
)

# ---- what is no stream of chunks -------------------------------------------------------------------------------------

ERROR = b'data: {"error":{"code":500,"message":"out of memory","type":"server_error"}}\n\n'
BUSY = b'data: {"error":{"code":429,"message":"slow down"}}\n\n'
BARE_ERROR = b'data: {"object":"error","message":"boom","code":400}\n\n'
REJECTED_IN_STREAM = Expected("failed", 400, None, "invalid_prompt", futile=True)
PAGE = b"<html><body><h1>Welcome</h1></body></html>"


COMMENTS = Forever(piece((b":" + b" still here" * 100 + b"\n\n") * 100))


def wrong(member: str) -> bytes:
    return b'data: {"id":"x","object":"chat.completion.chunk",%b}\n\n' % member.encode()


BODIES = (
    Row("an empty body", (in_chunks(),), NO_CHAT),
    Row("an empty body, with its length", (sized_answer(0, b""),), NO_CHAT),
    Row("garbage", (in_chunks(b"\x00\x01\x02\xff\xfe garbage \x80\x81" * 20),), NO_CHAT),
    Row("garbage in mid-stream", (in_chunks(HELLO, b"\x00\xff\x80 garbage\n\n", WORLD + STOP + DONE),), NO_CHAT),
    Row("a frame of garbage", (in_chunks(HELLO, b"data: \x00\xff\x80\n\n", WORLD + STOP + DONE),), NO_CHAT),
    Row("broken JSON", (in_chunks(HELLO, b'data: {"choices": [\n\n', STOP + DONE),), NO_CHAT),
    Row("broken JSON, and no end", (begun(HELLO, b'data: {"choices": [\n\n'), Act.STALL), NO_CHAT),
    Row("invalid UTF-8", (in_chunks(HELLO, WORLD.replace("ö".encode(), b"\xc3\x28"), STOP + DONE),), NO_CHAT),
    Row("JSON that is no object", (in_chunks(b"data: [1]\n\n", STOP + DONE),), NO_CHAT),
    Row("JSON that is null", (in_chunks(HELLO, b"data: null\n\n", STOP + DONE),), NO_CHAT),
    Row("JSON that is too deep", (in_chunks(b"data: " + b'{"a":' * 5000 + b"\n\n", STOP + DONE),), NO_CHAT),
    Row("choices that are a number", (in_chunks(wrong('"choices":3'), DONE),), NO_CHAT),
    Row("a choice that is a text", (in_chunks(wrong('"choices":["x"]'), DONE),), NO_CHAT),
    Row("a delta that is a list", (in_chunks(wrong('"choices":[{"index":0,"delta":[]}]'), DONE),), NO_CHAT),
    Row("content that is a number", (in_chunks(wrong('"choices":[{"index":0,"delta":{"content":7}}]'), DONE),), NO_CHAT),
    Row("calls that are a text", (in_chunks(wrong('"choices":[{"index":0,"delta":{"tool_calls":"x"}}]'), DONE),), NO_CHAT),
    Row("an index that is a text", (in_chunks(wrong('"choices":[{"index":"0","delta":{"content":"x"}}]'), DONE),), NO_CHAT),
    Row("usage that is a text", (in_chunks(HELLO, wrong('"choices":[],"usage":"much"'), STOP + DONE),), NO_CHAT),
    Row("an error object in a frame", (in_chunks(ERROR, DONE),), failed(502, "engine_error", retry_after=True)),
    Row("an error object in mid-stream", (in_chunks(HELLO, ERROR, DONE),), failed(502, "engine_error", retry_after=True)),
    Row("an error object, and no end", (begun(HELLO, ERROR), Act.STALL), failed(502, "engine_error", retry_after=True)),
    Row(
        "an error object that says 429",
        (in_chunks(BUSY, DONE),),
        failed(429, "rate_limit_exceeded", event="rate_limit_exceeded"),
    ),
    Row(
        "an error object as the body", (typed("application/json", ERROR[6:-2]),), failed(502, "engine_error", retry_after=True)
    ),
    Row("an error object after the finish", (in_chunks(HELLO, STOP, ERROR, DONE),), COMPLETED),
    Row("an error without its object", (in_chunks(BARE_ERROR, DONE),), REJECTED_IN_STREAM),
    Row("only usage", (in_chunks(USAGE, DONE),), COMPLETED),
    Row("usage with the finish", (in_chunks(HELLO, chunk({}, finish="stop", usage={"prompt_tokens": 1})),), COMPLETED),
    Row("HTML with 200", (typed("text/html", PAGE),), NO_CHAT),
    Row("no content type", (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER),), COMPLETED),
    Row("another content type", (typed("text/plain", ANSWER),), COMPLETED),
    Row("no [DONE]", (in_chunks(HELLO, STOP, USAGE),), COMPLETED),
    Row("[DONE] twice", (in_chunks(ANSWER, DONE),), COMPLETED),
    Row("[DONE] before the finish", (in_chunks(HELLO, DONE, WORLD, STOP),), COMPLETED),
    Row("[DONE] at once", (in_chunks(DONE),), COMPLETED),
    Row("chunks after [DONE]", (in_chunks(ANSWER, HELLO, ERROR, b"data: {\n\n"),), COMPLETED),
    Row("no finish, but [DONE]", (in_chunks(HELLO, DONE),), COMPLETED),
    Row("neither finish nor [DONE]", (in_chunks(HELLO, WORLD),), NO_CHAT),
    Row("the finish twice", (in_chunks(HELLO, STOP, STOP, DONE),), COMPLETED),
    Row("text after the finish", (in_chunks(HELLO, STOP, WORLD, STOP, DONE),), COMPLETED),
    Row("an unknown finish", (in_chunks(HELLO, chunk(finish="bored"), DONE),), COMPLETED),
    Row("a finish that is a number", (in_chunks(HELLO, wrong('"choices":[{"index":0,"finish_reason":7}]'), DONE),), NO_CHAT),
    Row("the finish `length`", (in_chunks(HELLO, chunk(finish="length"), DONE),), INCOMPLETE),
    Row("the finish `content_filter`", (in_chunks(HELLO, chunk(finish="content_filter"), DONE),), INCOMPLETE),
    Row("comments without end", (begun(HELLO), COMMENTS), NO_CHAT),
    Row("only comments, without end", (CHUNKED, COMMENTS), NO_CHAT),
    Row("white space without end", (CHUNKED, Forever(piece(b" \n" * 50_000))), NO_CHAT),
    Row("a line without end", (begun(HELLO, b'data: {"'), Forever(piece(b"x" * 100_000))), NO_CHAT),
    Row("a document without end", (begun(b'{"'), Forever(piece(b"x" * 100_000))), NO_CHAT),
)

# ---- statuses --------------------------------------------------------------------------------------------------------


def _says(status: int) -> bytes:
    return b'{"error":{"message":"no, says the engine","type":"some_error","code":%d}}' % status


REJECTED = Expected("failed", 400, None, "invalid_prompt", begun=False, futile=True)
STATUSES: Mapping[int, tuple[Expected, bool]] = {
    400: (REJECTED, False),
    401: (failed(502, "engine_key", begun=False, futile=True), False),
    403: (failed(502, "engine_key", begun=False, futile=True), False),
    404: (failed(502, "engine_answer_not_understood", begun=False, futile=True), False),
    408: (AWAY, True),
    413: (REJECTED, False),
    422: (REJECTED, False),
    429: (failed(429, "rate_limit_exceeded", event="rate_limit_exceeded", begun=False), True),
    500: (failed(502, "engine_error", begun=False, retry_after=True), False),
    502: (failed(502, "engine_error", begun=False, retry_after=True), True),
    503: (AWAY, True),
    504: (failed(502, "engine_error", begun=False, retry_after=True), True),
}
REFUSALS: Mapping[str, tuple[str, bytes]] = {
    "JSON": ("application/json", b""),
    "plain text": ("text/plain", b"no, says the engine"),
    "HTML": ("text/html", PAGE),
    "an empty body": ("text/plain", b""),
}
ANSWERED = tuple(
    Row(
        f"HTTP {status} with {name}",
        (refusal(status, body or (_says(status) if name == "JSON" else b""), kind),),
        expected,
        again,
    )
    for status, (expected, again) in STATUSES.items()
    for name, (kind, body) in REFUSALS.items()
)
REDIRECTED = failed(502, "engine_redirect", begun=False, futile=True)
REDIRECTS = tuple(
    Row(f"a redirect, HTTP {status}", (refusal(status, b"", extra="Location: /elsewhere/v1/chat/completions\r\n"),), REDIRECTED)
    for status in (301, 302, 303, 307, 308)
)
FAR = "Wed, 21 Oct 2199 07:28:00 GMT"
WAIT = failed(429, "rate_limit_exceeded", event="rate_limit_exceeded", begun=False, retry_after=True)
ODD_STATUS = failed(502, "engine_error", begun=False, retry_after=True)
OTHER_STATUSES = (
    Row("HTTP 429 that says to wait a minute", (refusal(429, _says(429), extra="Retry-After: 60\r\n"),), WAIT),
    Row("HTTP 429 that says to wait for ever", (refusal(429, _says(429), extra="Retry-After: inf\r\n"),), WAIT),
    Row("HTTP 429 that says to wait 60,000 ms", (refusal(429, _says(429), extra="retry-after-ms: 60000\r\n"),), WAIT),
    Row("HTTP 429 with a date in a far future", (refusal(429, _says(429), extra=f"Retry-After: {FAR}\r\n"),), WAIT),
    Row(
        "HTTP 503 that says not to try again",
        (refusal(503, _says(503), extra="x-should-retry: false\r\n"),),
        failed(503, "engine_unavailable", begun=False, futile=True),
    ),
    Row("HTTP 204", (b"HTTP/1.1 204 No Content\r\n\r\n",), ODD_STATUS),
    Row("HTTP 100, then an answer", (b"HTTP/1.1 100 Continue\r\n\r\n" + in_chunks(ANSWER),), COMPLETED),
    Row("HTTP 103, then an answer", (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + in_chunks(ANSWER),), COMPLETED),
    Row("HTTP 100 for ever", (Forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),), SILENT, settings=QUICK),
    Row("HTTP 101", (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Act.STALL), ODD_STATUS),
)

# ---- the framing of the body -----------------------------------------------------------------------------------------

SHORT = len(HELLO) + 20
PACKED = gzip.compress(ANSWER, mtime=0)
FRAMINGS = (
    Row("gzip", (encoded("gzip", PACKED),), COMPLETED),
    Row("gzip that is none", (encoded("gzip", ANSWER),), CUT),
    Row("gzip that is cut", (encoded("gzip", PACKED[: len(PACKED) // 2]),), NO_CHAT),
    Row("gzip that turns to garbage", (encoded("gzip", PACKED[:60] + b"\xff" * 60),), CUT),
    Row("gzip of 64 MB of white space", (encoded("gzip", gzip.compress(b" " * 2**26, mtime=0)),), NO_CHAT),
    Row("deflate", (encoded("deflate", zlib.compress(ANSWER)),), COMPLETED),
    Row("deflate that is none", (encoded("deflate", ANSWER),), CUT),
    Row("br, for which nothing is installed", (encoded("br", b"\xff" + ANSWER),), NO_HTTP),
    Row("an unknown content encoding", (encoded("rot13", ANSWER),), COMPLETED),
    Row("a chunk size that is no number", (CHUNKED, Act.PAUSE, b"zz\r\n" + HELLO), BROKEN_HTTP),
    Row("a negative chunk size", (CHUNKED, Act.PAUSE, b"-5\r\n" + HELLO), BROKEN_HTTP),
    Row("a broken chunk in mid-stream", (begun(HELLO), Act.PAUSE, b"zz\r\n" + WORLD), BROKEN_HTTP),
    Row("a chunk longer than its size", (begun(HELLO), Act.PAUSE, b"5\r\n" + WORLD + b"\r\n0\r\n\r\n"), BROKEN_HTTP),
    Row("a chunked body without its last chunk", (begun(ANSWER), Act.CLOSE), COMPLETED),
    Row("Content-Length too short", (sized_answer(SHORT, ANSWER[:SHORT]), Act.PAUSE, ANSWER[SHORT:], Act.CLOSE), NO_CHAT),
    Row("Content-Length too short, all at once", (sized_answer(SHORT, ANSWER), Act.CLOSE), NO_HTTP),
    Row("Content-Length too long", (sized_answer(len(HELLO) + 100, HELLO), Act.CLOSE), CUT),
    Row("Content-Length that is no number", (b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n" + ANSWER,), NO_HTTP),
    Row(
        "two different Content-Lengths",
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n" + ANSWER,),
        NO_HTTP,
    ),
    Row("no status line", (ANSWER,), NO_HTTP),
    Row("a status line of garbage", (b"\x00\xff\xfe\r\n\r\n",), NO_HTTP),
    Row("an enormous header", (HEAD + b"X-Much: " + b"x" * 200_000 + b"\r\n\r\n",), NO_HTTP),
    Row("headers without end", (HEAD, Forever(b"X-More: and more\r\n" * 100)), NO_HTTP, settings=QUICK),
    Row("HTTP/1.0, to the end of the connection", (OLD + ANSWER, Act.CLOSE), COMPLETED),
    Row("HTTP/1.0, cut", (OLD + HELLO, Act.CLOSE), NO_CHAT),
    Row("the end of the connection as the end of the body", (NO_LENGTH + ANSWER, Act.CLOSE), COMPLETED),
    Row("a second answer after the first", (in_chunks(ANSWER) + in_chunks(text("surprise")),), COMPLETED),
    Row("a call as a whole document", (in_chunks(answer(CALL, finish="tool_calls")),), COMPLETED),
)

GROUPS: Mapping[str, tuple[Row, ...]] = {
    "Connections and silence": CONNECTIONS,
    "Cuts": CUTS,
    "Statuses": (*ANSWERED, *REDIRECTS, *OTHER_STATUSES),
    "Bodies": BODIES,
    "Encodings and framing": FRAMINGS,
}
ROWS: tuple[Row, ...] = tuple(row for group in GROUPS.values() for row in group)
