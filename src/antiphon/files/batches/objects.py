"""Batches as the API shows them, and the lines of their files."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct, structs

from antiphon.errors import NotFound, quoted
from antiphon.files.readers.batch_lines import MESSAGES_ENDPOINT, ReadLine
from antiphon.store.files.records import Complaint, RequestBatch, Usage
from antiphon.wire.batches import (
    Batch,
    BatchError,
    BatchErrors,
    BatchUsage,
    InputDetails,
    OutputDetails,
    RequestCounts,
)
from antiphon.wire.chat import MOST_TOKENS

WINDOW = "24h"
# What a batch may be stopped by → what is said of a line that was not begun.
NOT_RUN: Mapping[str, tuple[str, str]] = {
    "cancelled": ("batch_cancelled", "This request was not executed: the batch was cancelled."),
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
}

_encode = msgspec.json.Encoder().encode


def not_found(id: str) -> NotFound:
    return NotFound(f"No batch found with id {quoted(id)}.", param="batch_id", code="batch_not_found")


def batch_to_object(batch: RequestBatch) -> Batch:
    details = batch.details
    errors = [BatchError(each.code, each.message, each.param, each.line) for each in details.errors]
    return Batch(
        id=batch.id,
        endpoint=batch.endpoint,
        model=batch.models[0] or None if len(batch.models) == 1 else None,
        errors=BatchErrors(errors) if errors else None,
        input_file_id=batch.input_file,
        completion_window=WINDOW,
        status=status_of(batch),
        output_file_id=batch.output_file,
        error_file_id=batch.error_file,
        created_at=batch.created_at,
        expires_at=batch.expires_at,
        request_counts=RequestCounts(batch.total, batch.completed, batch.failed),
        usage=_usage(batch),
        metadata=details.metadata,
        **structs.asdict(details.times),
    )


def status_of(batch: RequestBatch) -> Any:
    """One that was cancelled while its input is read is cancelled when that is done."""
    return "cancelling" if batch.status == "validating" and batch.stop is not None else batch.status


def _usage(batch: RequestBatch) -> BatchUsage:
    given, made = batch.input_tokens, batch.output_tokens
    return BatchUsage(given, InputDetails(batch.cached_tokens), made, OutputDetails(batch.reasoning_tokens), given + made)


# ---- the lines of the output file and of the error file --------------------------------------------------------------


class AnsweredLine(Struct):
    """What the API answered, whether it is an error or not."""

    id: str
    custom_id: str
    response: dict[str, Any]
    error: None = None


class AnswerIds(NamedTuple):
    """Of a line of the output, of the line of the input, and of the request."""

    line: str
    custom_id: str
    request: str


def _noticed(notices: Sequence[str]) -> dict[str, Any]:
    return {"antiphon_notices": notices} if notices else {}


class LineFormat(ABC):
    """How the lines of the files are written. `id`: a new one."""

    # Everything is in the output file.
    has_one_file = False

    @abstractmethod
    def answered(self, ids: AnswerIds, status: int, body: bytes, notices: Sequence[str]) -> bytes:
        """`notices`: those that the body does not have."""

    @abstractmethod
    def refused(self, id: str, line: ReadLine) -> bytes:
        """What comes of a line that cannot be run."""

    @abstractmethod
    def not_run(self, id: str, custom_id: str, stop: str) -> bytes: ...


class OpenAiLines(LineFormat):
    def answered(self, ids: AnswerIds, status: int, body: bytes, notices: Sequence[str]) -> bytes:
        response = {"status_code": status, "request_id": ids.request, "body": Raw(body), **_noticed(notices)}
        return _encode(AnsweredLine(ids.line, ids.custom_id, response))

    def refused(self, id: str, line: ReadLine) -> bytes:
        error = {"code": line.code, "message": line.message, "param": line.param, "line": line.number}
        return self._unanswered(id, line.custom_id, error)

    def not_run(self, id: str, custom_id: str, stop: str) -> bytes:
        code, message = NOT_RUN[stop]
        return self._unanswered(id, custom_id, {"code": code, "message": message})

    def _unanswered(self, id: str, custom_id: str | None, error: dict[str, Any]) -> bytes:
        return _encode({"id": id, "custom_id": custom_id, "response": None, "error": error})


class MessageLines(LineFormat):
    has_one_file = True

    def answered(self, ids: AnswerIds, status: int, body: bytes, notices: Sequence[str]) -> bytes:
        is_message = 200 <= status < 300
        result = {"type": "succeeded", "message": Raw(body)} if is_message else {"type": "errored", "error": Raw(body)}
        return self._line(ids.custom_id, result | _noticed(notices))

    def refused(self, id: str, line: ReadLine) -> bytes:
        error = {"type": "invalid_request_error", "message": line.message}
        return self._line(line.custom_id, {"type": "errored", "error": {"type": "error", "error": error}})

    def not_run(self, id: str, custom_id: str, stop: str) -> bytes:
        return self._line(custom_id, {"type": "expired" if stop == "expired" else "canceled"})

    def _line(self, custom_id: str | None, result: dict[str, Any]) -> bytes:
        return _encode({"custom_id": custom_id, "result": result})


OF_OPENAI, OF_MESSAGES = OpenAiLines(), MessageLines()


def format_of(endpoint: str) -> LineFormat:
    return OF_MESSAGES if endpoint == MESSAGES_ENDPOINT else OF_OPENAI


def complaint_of(line: ReadLine) -> Complaint:
    return Complaint(code=line.code, message=line.message, param=line.param, line=line.number)


# ---- what an answer that was passed on says of its tokens ------------------------------------------------------------


# Anything else is as if nothing was reported.
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | None


class _Details(Struct):
    cached_tokens: _Count = None
    reasoning_tokens: _Count = None


class _Counts(Struct):
    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Answer(Struct):
    usage: _Counts | None = None


_to_answer = msgspec.json.Decoder(_Answer).decode


def usage_of(body: bytes) -> Usage:
    try:
        counts = _to_answer(body).usage or _Counts()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Usage()
    cached = (counts.prompt_tokens_details or _Details()).cached_tokens
    reasoning = (counts.completion_tokens_details or _Details()).reasoning_tokens
    return Usage(counts.prompt_tokens or 0, cached or 0, counts.completion_tokens or 0, reasoning or 0)
