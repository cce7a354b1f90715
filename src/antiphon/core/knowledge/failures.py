"""An engine's failure → the error that the client gets. One table, read from the top."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.errors import (
    UNREADABLE,
    ApiError,
    ContextLengthExceeded,
    EngineDisagrees,
    EngineError,
    EngineFailure,
    EngineUnavailable,
    InvalidRequest,
    RateLimited,
)
from antiphon.patterns import late_pattern

# Codex shows the body of an error; an engine's stack trace does not belong there.
LONGEST_MESSAGE = 2000
NO_REASON = "no reason given"
# The kind of failure of an engine that could not parse its model's tool call.
PARSE_ERROR = "parse_error"
# What llama.cpp says when its parser cannot read what the model wrote.
UNPARSED = late_pattern("does not match the expected .* format", re.IGNORECASE)


class Row(Struct, frozen=True):
    """One row of the table: what a failure looks like, and the error that it becomes. An empty condition matches everything."""

    error: Callable[[EngineFailure], ApiError]
    statuses: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    words: re.Pattern[str] | None = None

    def matches(self, failure: EngineFailure) -> bool:
        return (
            (not self.statuses or failure.status in self.statuses)
            and (not self.kinds or failure.kind in self.kinds)
            and (self.words is None or self.words.search(failure.message) is not None)
        )


# How each engine says that the prompt is too long, from its source.
OVERFLOW = late_pattern(
    r"exceeds? the available context size"  # llama.cpp
    r"|maximum context length|maximum model length|max_model_len"  # vLLM
    r"|longer than the model'?s context length"  # SGLang
    r"|INPUT_LENGTH_ERROR|session_len"  # LMDeploy
    r"|(input|prompt)( length)? (is too long|exceeds the (maximum )?context)"  # Ollama
    r"|(greater|more) than the (model'?s )?context (length|window)|context length of only",  # LM Studio
    re.IGNORECASE,
)
NO_MODEL = late_pattern(r"model .*(does not exist|not found|not loaded|no such)|unknown model", re.IGNORECASE | re.DOTALL)
NO_MEDIA = late_pattern(
    r"(image|audio|video|multi-?modal)\b.*\bnot support|not a multi-?modal model", re.IGNORECASE | re.DOTALL
)
# It was given the address of an image, and could not get it.
UNFETCHED = late_pattern(r"\b(download|fetch)\w* .{0,40}\b(image|media)\b|invalid url value", re.IGNORECASE)
FETCH_HERE = "{message} (The gateway can fetch images for its engines: see `fetch_urls` in its settings.)"
TEMPLATE = late_pattern(r"jinja|chat template|template exception|roles must alternate", re.IGNORECASE)


def _invalid(failure: EngineFailure) -> ApiError:
    return InvalidRequest(f"The engine refused the request: {failure.message}")


TABLE: tuple[Row, ...] = (
    Row(lambda f: ContextLengthExceeded(f.message, param="input"), kinds=frozenset({"exceed_context_size_error"})),
    Row(lambda f: ContextLengthExceeded(f.message, param="input"), words=OVERFLOW),
    Row(lambda f: InvalidRequest(f.message, param="model", code="model_not_found"), words=NO_MODEL),
    # llama.cpp answers these with a 500 although no retry can help.
    Row(lambda f: InvalidRequest(f.message, param="input", code="unsupported_content"), words=NO_MEDIA),
    Row(
        lambda f: InvalidRequest(FETCH_HERE.format(message=f.message), param="input", code="invalid_image_url"),
        statuses=frozenset({400, 500}),
        words=UNFETCHED,
    ),
    Row(_invalid, words=TEMPLATE),
    Row(
        lambda f: EngineError(
            f"The engine rejected the gateway's key (HTTP {f.status}). Check --upstream-key.", code="engine_key", may_pass=False
        ),
        statuses=frozenset({401, 403}),
    ),
    Row(
        lambda f: EngineDisagrees("The engine has no /v1/chat/completions (HTTP 404). Check --upstream.", may_pass=False),
        statuses=frozenset({404, 405}),
    ),
    Row(lambda f: RateLimited(f.message), statuses=frozenset({429})),
    Row(
        lambda f: EngineUnavailable(f"The engine is not ready: {f.message}", retry_after=2),
        statuses=frozenset({408, 503}),
    ),
    Row(_invalid, statuses=frozenset(range(400, 500))),
    Row(lambda f: EngineError(f"The engine failed: {f.message}", retry_after=1)),
)


def failure_to_error(failure: EngineFailure) -> ApiError:
    """The first row that matches decides. What the engine says about another attempt counts more than what its failure looks
    like."""
    error = next(row for row in TABLE if row.matches(failure)).error(failure)
    error.failure = failure
    if failure.should_retry is not None:
        error.may_pass = failure.should_retry
    if failure.retry_after is not None:
        error.retry_after = failure.retry_after
    if not error.may_pass:
        error.retry_after = None
    return error


def error_object_to_failure(error: Any, *, status: int = 500) -> EngineFailure:
    """Reads an `error` member in any of the shapes that engines use: an object, a string, a number in `code`, nothing."""
    if isinstance(error, str):
        return EngineFailure(status, "", error[:LONGEST_MESSAGE] or NO_REASON)
    if not isinstance(error, dict):
        return EngineFailure(status, "", NO_REASON)
    code = error.get("code")
    if isinstance(code, int) and 400 <= code <= 599:
        status = code
    message = error.get("message") or error.get("detail") or NO_REASON
    return EngineFailure(status, str(error.get("type") or ""), str(message)[:LONGEST_MESSAGE])


def http_answer_to_error(
    status: int,
    body: bytes,
    retry_after: float | None = None,
    *,
    should_retry: bool | None = None,
    to_failure: Callable[[int, bytes], EngineFailure] | None = None,
) -> ApiError:
    """The error for `Exchange.refused()`, from an engine's HTTP answer whose status is not 200. `retry_after`, in seconds, and
    `should_retry`: what its headers say about another attempt. `to_failure`: how its API writes failures; None: as Chat
    Completions does."""
    failure = (to_failure or http_answer_to_failure)(status, body)
    return failure_to_error(structs.replace(failure, retry_after=retry_after, should_retry=should_retry))


def http_answer_to_failure(status: int, body: bytes) -> EngineFailure:
    """Reads the body of an answer whose status is not 200, whatever it is."""
    try:
        answer = msgspec.json.decode(body)
    except UNREADABLE:
        text = body.decode("utf-8", "replace").strip()
        return EngineFailure(status, "", text[:LONGEST_MESSAGE] or f"HTTP {status}")
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    # The HTTP status counts: `code` only repeats it, and some engines get it wrong.
    return structs.replace(error_object_to_failure(error), status=status)
