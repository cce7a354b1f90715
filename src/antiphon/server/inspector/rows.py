"""A request in the list of the inspector, while it runs and afterwards; and which request is the turn before another one."""

from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from antiphon.core.items.item_type import item_kind
from antiphon.core.recording.prompt_changes import PromptPrint
from antiphon.errors import UNREADABLE, shortened
from antiphon.gateway.state.owners import shown_owner
from antiphon.wire.responses import CreateResponse, OutputItem, OutputMessage, OutputText, Response, Usage

Json = dict[str, Any]
Messages = list[Json]
Status = Literal["running", "completed", "incomplete", "failed", "cancelled", "refused", "left", "passed"]

# So many characters of the last message of the user are shown, and of the answer.
PREVIEW_LENGTH = 120
ANSWER_LENGTH = 200
# So many calls are named, each in so many characters.
MOST_NAMES = 8
NAME_LENGTH = 64
# The longest body of a chat request that was passed on in which they are looked for, in bytes.
LONGEST_READ = 64 * 1024

# Of an error, so many characters are kept: rows are counted as if all of them had the same size.
MESSAGE_LENGTH = 500
PARAM_LENGTH = 100

# HTTP statuses from here on are errors.
LEAST_ERROR = 400
ENGINE_ERROR = "The engine answered with HTTP {status}."

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
        self.seconds = seconds
        if self.output_tokens and self.first_token is not None and seconds > self.first_token:
            self.tokens_per_second = self.output_tokens / (seconds - self.first_token)


class Row(TimedRow, kw_only=True):
    # Rises with each request.
    number: int
    # None: it was refused.
    id: str | None = None
    channel: str
    # Where it was sent.
    path: str = ""
    stream: bool | None = None
    owner: str
    model: str | None = None
    engine: str | None = None
    dialect: str | None = None
    status: Status = "running"
    http_status: int | None = None
    error: RowError | None = None
    asks: int = 0
    # The share of the prompt that the engine has read, while it reads, if it reports that.
    prompt_read: float | None = None
    tool_calls: int = 0
    # The names of the first of them.
    called: list[str] = []
    notices: int = 0
    preview: str | None = None
    # The beginning of the answer.
    answer: str | None = None
    # The number of the turn before, and whether its prompt is not the beginning of this one.
    previous: int | None = None
    prefix_changed: bool | None = None
    # The number of the first turn of its conversation: its own, if it continues nothing that is known.
    conversation: int | None = None

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
        calls = [item for item in response.output if type(item) is not OutputMessage and _is_call(item)]
        self.tool_calls, self.called = len(calls), list(map(_name_of_call, calls[:MOST_NAMES]))
        self.answer = first_words(response.output)
        self.notices = len(response.antiphon_notices or ())

    def passed(self, messages: Messages, model: str | None, engine: str, status: int) -> None:
        """To this engine, as it came. `status`: of the engine's answer."""
        self.preview = last_words_of_chat(messages)
        self.status = "passed" if status < LEAST_ERROR else "failed"
        self.model, self.engine, self.http_status = model, engine, status
        if self.status == "failed":
            self.error = RowError.of(None, ENGINE_ERROR.format(status=status))

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
        return [*texts, self.preview, self.answer, message] if bodies else texts

    def shown(self) -> "Row":
        return structs.replace(
            self,
            owner=shown_owner(self.owner),
            first_token=_rounded(self.first_token, 4),
            seconds=_rounded(self.seconds, 4),
            tokens_per_second=_rounded(self.tokens_per_second, 2),
        )

    def redacted(self) -> "Row":
        """Without what the client and the model wrote; messages of errors may quote it."""
        error = self.error
        hidden = RowError(error.code, hide(error.message), error.param) if error is not None else None
        return structs.replace(self, preview=None, answer=None, error=hidden)


def _rounded(number: float | None, digits: int) -> float | None:
    """Only of a row that is looked at: this takes 2,800 instructions."""
    return None if number is None else round(number, digits)


def _is_call(item: OutputItem) -> bool:
    """A call of any tool, whether the client or the gateway runs it."""
    return str(type(item).__struct_config__.tag).endswith("_call")


def _name_of_call(item: OutputItem) -> str:
    """Of the tool that is called; calls of hosted tools have a type instead."""
    name: str = getattr(item, "name", None) or str(type(item).__struct_config__.tag).removesuffix("_call")
    return name[:NAME_LENGTH]


def first_words(output: Iterable[OutputItem]) -> str | None:
    """The beginning of the first message that says something."""
    for item in output:
        if isinstance(item, OutputMessage):
            for part in item.content:
                if text := part.text if isinstance(part, OutputText) else part.refusal:
                    return text[:ANSWER_LENGTH]
    return None


def hide(text: str) -> str:
    return f"[{len(text)} characters]"


def last_words(request: CreateResponse) -> str | None:
    """The beginning of what the user wrote last."""
    if isinstance(request.input, str):
        return request.input[:PREVIEW_LENGTH]
    return _last_of_user(item for item in reversed(request.input or ()) if item_kind(item) == "message")


def last_words_of_chat(messages: Messages) -> str | None:
    return _last_of_user(reversed(messages))


def messages_of_chat(body: bytes) -> Messages:
    """None of a long one: this is done on the event loop."""
    if len(body) > LONGEST_READ:
        return []
    try:
        return _read_messages(body).messages
    except UNREADABLE:
        return []


class _Messages(Struct):
    messages: Messages


_read_messages = msgspec.json.Decoder(_Messages).decode


def _last_of_user(messages: Iterable[Json]) -> str | None:
    """`messages`: the last one first."""
    for message in messages:
        if message.get("role") == "user":
            return _text(message.get("content"))[:PREVIEW_LENGTH]
    return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    # Each part that counts has a character at least, and a blank follows it.
    parts = content[:PREVIEW_LENGTH] if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return " ".join(text for text in texts if isinstance(text, str))


# Of each conversation, so many turns are compared.
MOST_TURNS = 16
# So many conversations of requests that are passed on are known.
MOST_PASSED = 1000


# What a conversation is known by: its kind, the owner, and its id; or a hash of the key for its cache, or of its first message.
Thread = tuple[Literal["conversation", "key", "first"], str, Hashable]


class Turn(Struct, eq=False):
    """What is known of the prompts of one request."""

    number: int
    # The number of the first turn of its conversation: its own, at first.
    first: int
    owner: str
    response_id: str = ""
    previous_id: str | None = None
    # What the conversation is known by, the better first.
    threads: list[Thread] = []
    # One for each chat request.
    prints: list[PromptPrint] = []

    def describe(self, response_id: str, request: CreateResponse) -> None:
        self.response_id, self.previous_id = response_id, request.previous_response_id
        if request.conversation is not None and (conversation := _conversation_id(request)) is not None:
            self.threads.append(("conversation", self.owner, conversation))
        if request.prompt_cache_key:
            self.threads.append(("key", self.owner, hash(request.prompt_cache_key)))

    def continues(self, earlier: "Turn") -> bool:
        """The prompt of this one begins with one of the earlier one's."""
        return any(self.prints[0].extends(each) for each in earlier.prints)

    def shared(self, earlier: "Turn") -> int:
        return max((self.prints[0].shared(each) for each in earlier.prints), default=0)

    @property
    def length(self) -> int:
        return len(self.prints[0].messages)


def _conversation_id(request: CreateResponse) -> str | None:
    given = request.conversation
    id = given.get("id") if isinstance(given, dict) else given
    return id if isinstance(id, str) else None


class Turns:
    """Those that are remembered, by what their conversations are known by."""

    def __init__(self) -> None:
        self._by_id: dict[str, Turn] = {}
        self._threads: dict[Thread, deque[Turn]] = {}
        # Of conversations that are passed on, by owner, model and first message: the first turn, and the length of the last.
        self._passed: dict[tuple[str, str | None, int], tuple[int, int]] = {}

    def asked(self, turn: Turn, prompt: PromptPrint, model: str) -> Turn | None:
        """A turn has its first prompt: the turn before it, if it is known."""
        turn.prints.append(prompt)
        if (first := prompt.first) is not None:
            turn.threads.append(("first", turn.owner, (model, first)))
        previous = self._find(turn)
        turn.first = turn.number if previous is None else previous.first
        self._by_id[turn.response_id] = turn
        for thread in turn.threads:
            if (turns := self._threads.get(thread)) is None:
                turns = self._threads[thread] = deque(maxlen=MOST_TURNS)
            turns.append(turn)
        return previous

    def passed(self, turn: Turn, messages: Messages, model: str | None) -> int:
        """The first turn of the conversation, which begins with the same message and has grown: a request that is passed on
        is not to cost more than that."""
        at = 1 if messages and messages[0].get("role") == "system" else 0
        if at >= len(messages):
            return turn.number
        key = (turn.owner, model, hash(repr(messages[at])))
        first, length = self._passed.pop(key, (turn.number, 0))
        if len(messages) <= length:
            first = turn.number
        self._passed[key] = (first, len(messages))
        if len(self._passed) > MOST_PASSED:
            del self._passed[next(iter(self._passed))]
        return first

    def forget(self, turn: Turn) -> None:
        if self._by_id.get(turn.response_id) is turn:
            del self._by_id[turn.response_id]
        for thread in turn.threads:
            turns = self._threads.get(thread)
            if turns is not None and turn in turns:
                turns.remove(turn)
                if not turns:
                    del self._threads[thread]

    def _find(self, turn: Turn) -> Turn | None:
        if turn.previous_id is not None:
            named = self._by_id.get(turn.previous_id)
            return named if named is not None and named.owner == turn.owner else None
        for thread in turn.threads:
            earlier = self._threads.get(thread)
            if earlier is None:
                continue
            if thread[0] == "conversation":
                return earlier[-1]
            if (found := _nearest(turn, earlier, is_sure=thread[0] == "key")) is not None:
                return found
        return None


def _nearest(turn: Turn, earlier: Iterable[Turn], *, is_sure: bool) -> Turn | None:
    """The turn whose prompt this one shares most with, the latest of several. `is_sure`: the client says that it is the same
    conversation; otherwise it has to have grown: the same question may be asked twice."""
    prompt = turn.prints[0]
    length = len(prompt.messages)
    if not is_sure and length <= prompt.leading + 1:
        # It has one message: it continues nothing.
        return None
    candidates = [each for each in earlier if is_sure or each.length < length]
    return max(candidates, key=lambda each: (turn.shared(each), each.number)) if candidates else None
