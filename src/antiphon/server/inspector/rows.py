"""A request in the list of the inspector, while it runs and afterwards."""

from typing import Any, Literal

from msgspec import Struct, structs

from antiphon.core.items.item_type import item_kind
from antiphon.errors import shortened
from antiphon.gateway.state.owners import shown_owner
from antiphon.wire.responses import CreateResponse, OutputItem, Response, Usage

Status = Literal["running", "completed", "incomplete", "failed", "cancelled", "refused", "left"]

# So many characters of the last message of the user are shown.
PREVIEW_LENGTH = 120

# Of an error, so many characters are kept: rows are counted as if all of them had the same size.
MESSAGE_LENGTH = 500
PARAM_LENGTH = 100

# What a filter stands for; other statuses stand for themselves.
FAILED: frozenset[Status] = frozenset({"failed", "refused"})


class RowError(Struct, frozen=True):
    code: str | None
    message: str
    param: str | None = None

    @classmethod
    def of(cls, code: str | None, message: str, param: str | None = None) -> "RowError":
        return cls(code, shortened(message, MESSAGE_LENGTH), None if param is None else shortened(param, PARAM_LENGTH))


class CountedRow(Struct, kw_only=True):
    """The tokens of a response."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None

    def count(self, usage: Usage) -> None:
        self.input_tokens, self.output_tokens = usage.input_tokens, usage.output_tokens
        self.cached_tokens = usage.input_tokens_details.cached_tokens
        self.reasoning_tokens = usage.output_tokens_details.reasoning_tokens


class TimedRow(CountedRow, kw_only=True):
    """When a request came, in seconds since 1970, and how long it took, in seconds."""

    at: float
    first_token: float | None = None
    seconds: float | None = None
    tokens_per_second: float | None = None

    def time(self, seconds: float) -> None:
        """It has ended, so many seconds after it came."""
        self.seconds = round(seconds, 4)
        if self.output_tokens and self.first_token is not None and seconds > self.first_token:
            self.tokens_per_second = round(self.output_tokens / (seconds - self.first_token), 2)


class Row(TimedRow, kw_only=True):
    # Rises with each request.
    number: int
    # None: it was refused.
    id: str | None = None
    channel: str
    stream: bool | None = None
    owner: str
    model: str | None = None
    engine: str | None = None
    dialect: str | None = None
    status: Status = "running"
    http_status: int | None = None
    error: RowError | None = None
    asks: int = 0
    tool_calls: int = 0
    notices: int = 0
    preview: str | None = None
    # The number of the turn before, and whether its prompt is not the beginning of this one.
    previous: int | None = None
    prefix_changed: bool | None = None

    def describe(self, response_id: str, request: CreateResponse) -> None:
        self.id, self.model, self.stream = response_id, request.model, bool(request.stream)
        self.preview = last_words(request)

    def finish(self, response: Response) -> None:
        """With what the response says of itself."""
        self.status = response.status  # type: ignore[assignment]
        self.model = response.model
        if (failed := response.error) is not None:
            self.error = RowError.of(failed.code, failed.message)
        if response.usage is not None:
            self.count(response.usage)
        self.tool_calls = sum(map(_is_call, response.output))
        self.notices = len(response.antiphon_notices or ())

    def matches(self, status: str | None, model: str | None, search: str | None, *, bodies: bool = True) -> bool:
        """`bodies`: texts are shown, so they can be searched, too."""
        statuses = FAILED if status == "failed" else {status}
        if (status is not None and self.status not in statuses) or (model is not None and self.model != model):
            return False
        return search is None or any(search in text.lower() for text in self._texts(bodies=bodies) if text)

    def _texts(self, *, bodies: bool) -> list[str | None]:
        """Those that are shown."""
        error = self.error
        code, message = (error.code, error.message) if error is not None else (None, None)
        texts = [self.id, self.model, self.engine, shown_owner(self.owner), self.status, code]
        return [*texts, self.preview, message] if bodies else texts

    def shown(self) -> "Row":
        return structs.replace(self, owner=shown_owner(self.owner))

    def redacted(self) -> "Row":
        """Without what the client wrote; messages of errors may quote it."""
        error = self.error
        hidden = RowError(error.code, hide(error.message), error.param) if error is not None else None
        return structs.replace(self, preview=None, error=hidden)


def _is_call(item: OutputItem) -> bool:
    """A call of any tool, whether the client or the gateway runs it."""
    return str(type(item).__struct_config__.tag).endswith("_call")


def hide(text: str) -> str:
    return f"[{len(text)} characters]"


def last_words(request: CreateResponse) -> str | None:
    """The beginning of what the user wrote last."""
    if isinstance(request.input, str):
        return request.input[:PREVIEW_LENGTH]
    for item in reversed(request.input or ()):
        if item_kind(item) == "message" and item.get("role") == "user":
            return _text(item.get("content"))[:PREVIEW_LENGTH]
    return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    # Each part that counts has a character at least, and a blank follows it.
    parts = content[:PREVIEW_LENGTH] if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return " ".join(text for text in texts if isinstance(text, str))
