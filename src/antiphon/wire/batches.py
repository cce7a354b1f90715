"""Batches of requests, as OpenAI's API has them, and their lines."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from antiphon.wire.responses import Metadata

BatchStatus = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
# Where the lines of a batch may be sent.
BATCH_ENDPOINTS = ("/v1/responses", "/v1/chat/completions", "/v1/embeddings")


class OutputExpiry(Struct, forbid_unknown_fields=True):
    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=3_600, le=2_592_000)]


class CreateBatch(Struct):
    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Metadata | None = None
    output_expires_after: OutputExpiry | None = None


class BatchError(Struct):
    """What is wrong with the input file, or with a line of it."""

    code: str | None = None
    message: str | None = None
    param: str | None = None
    line: int | None = None


class BatchErrors(Struct):
    data: list[BatchError]
    object: Literal["list"] = "list"


class RequestCounts(Struct):
    total: int = 0
    completed: int = 0
    failed: int = 0


class InputDetails(Struct):
    cached_tokens: int = 0


class OutputDetails(Struct):
    reasoning_tokens: int = 0


class BatchUsage(Struct):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class Batch(Struct, kw_only=True):
    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None = None
    errors: BatchErrors | None = None
    input_file_id: str
    completion_window: str
    status: BatchStatus
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts
    usage: BatchUsage | None = None
    metadata: dict[str, Any] | None = None


# ---- batches of messages, as Anthropic's API has them ----------------------------------------------------------------


class MessageRequest(Struct):
    custom_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    params: dict[str, Any]


class CreateMessageBatch(Struct):
    requests: Annotated[list[MessageRequest], Meta(min_length=1)]


class MessageCounts(Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class MessageBatch(Struct, kw_only=True):
    id: str
    type: Literal["message_batch"] = "message_batch"
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: MessageCounts
    created_at: str
    expires_at: str
    ended_at: str | None = None
    cancel_initiated_at: str | None = None
    archived_at: str | None = None
    results_url: str | None = None
