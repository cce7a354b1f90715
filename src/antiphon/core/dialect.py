"""What is particular about an engine, as plain facts; and the reading of its chunks, which needs none of them.

The four shapes of reasoning are told apart from the stream itself, so nobody configures them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from antiphon.core.deltas import (
    CallDelta,
    Delta,
    EngineFailed,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageReport,
)
from antiphon.core.failures import error_object_to_failure, failure_to_error
from antiphon.core.think_tags import Start, ThinkTags
from antiphon.errors import EngineDisagrees
from antiphon.wire import UNREADABLE, chat, responses

_decode = msgspec.json.Decoder(chat.Chunk).decode


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that tells an engine: a GET of `path` answers JSON that has `key` (slashes lead inwards), equal to `value`."""

    path: str
    key: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Where an engine tells a fact of a model: `key` in the answer to GET `path`, or to a POST of {`asks`: the model's id}.

    In the key, {at} is the place of the model in the list of models, and a step may have a * for what varies.
    """

    path: str
    key: str
    asks: str | None = None


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The engine's endpoint that turns text into tokens: POST {text_key: text} to `path`, and count `tokens_key`."""

    path: str
    text_key: str
    tokens_key: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's facts. The defaults are the plain dialect: what servers of the Chat Completions API commonly take."""

    name: str
    signs: tuple[Sign, ...] = ()
    # The member of an assistant message that carries earlier reasoning back; without one it goes in as <think>…</think>.
    reasoning_member: Literal["reasoning_content", "reasoning"] | None = None
    # Requested effort → what the engine takes. An effort that is missing here is sent as "medium".
    efforts: Mapping[str, str] = field(
        default_factory=lambda: {
            "none": "low",
            "minimal": "low",
            "low": "low",
            "medium": "medium",
            "high": "high",
            "xhigh": "high",
            "max": "high",
        }
    )
    max_tokens_member: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    # Takes {"type": "function", …} as tool_choice. Otherwise only that tool is sent, and "required".
    takes_named_choice: bool = False
    takes_logprobs_with_tools: bool = True
    # Shows a JSON schema to the model by itself. Otherwise it is put into the prompt too.
    shows_schema: bool = False
    # Goes on writing the last assistant message instead of beginning a new one.
    continues_last_message: bool = False
    # False: templates without a system role; the text goes in front of the first user message.
    takes_system_role: bool = True
    tokenizer: Tokenizer | None = None
    # Where the context window of a model is told, the better source first; and whether it sees images.
    window: tuple[Lookup, ...] = ()
    vision: tuple[Lookup, ...] = ()
    # Where the engine tells its own version.
    version: tuple[Lookup, ...] = ()
    # Fields that are always sent.
    extra: Mapping[str, Any] = field(default_factory=dict)


def _to_usage(usage: chat.ChatUsage, timings: chat.Timings | None) -> responses.Usage | None:
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    if cached is None and timings is not None:
        cached = timings.cache_n
    reasoning = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else None
    return responses.Usage(
        input_tokens=prompt,
        input_tokens_details=responses.InputTokensDetails(cached_tokens=cached or 0),
        output_tokens=completion,
        output_tokens_details=responses.OutputTokensDetails(reasoning_tokens=reasoning or 0),
        total_tokens=usage.total_tokens or prompt + completion,
    )


def _to_logprobs(tokens: list[chat.Logprob]) -> list[responses.Logprob]:
    def octets(token: str, given: list[int] | None) -> list[int]:
        return given if given is not None else list(token.encode())

    return [
        responses.Logprob(
            token=token.token,
            logprob=token.logprob,
            bytes=octets(token.token, token.bytes),
            top_logprobs=[
                responses.TopLogprob(token=top.token, logprob=top.logprob, bytes=octets(top.token, top.bytes))
                for top in token.top_logprobs or []
            ],
        )
        for token in tokens
    ]


def _plain_text(content: str | list[chat.ContentPart]) -> str:
    """Some servers send content in parts."""
    return content if isinstance(content, str) else "".join(part.text for part in content)


class ChunkReader:
    """Reads one stream's chunks into deltas. `receive()` takes the data of a frame, `close()` says that there are no more."""

    __slots__ = ("_logprobs", "_tags")

    def __init__(self, start: Start = Start.UNKNOWN) -> None:
        self._tags = ThinkTags(start)
        self._logprobs: list[responses.Logprob] = []

    @property
    def template_opens_thought(self) -> bool:
        return self._tags.unopened

    def receive(self, data: bytes) -> list[Delta]:
        try:
            chunk = _decode(data)
        except UNREADABLE as broken:
            return [EngineFailed(EngineDisagrees(f"The engine sent a chunk that is not one of Chat Completions: {broken}"))]
        if chunk.error is not None or chunk.object == "error":
            error = chunk.error if chunk.error is not None else msgspec.to_builtins(chunk)
            return [EngineFailed(failure_to_error(error_object_to_failure(error)))]
        deltas: list[Delta] = []
        for choice in chunk.choices or ():
            if choice.index == 0:
                if choice.logprobs is not None and choice.logprobs.content:
                    self._logprobs += _to_logprobs(choice.logprobs.content)
                if (delta := choice.delta or choice.message) is not None:
                    self._delta(delta, deltas)
                if choice.finish_reason is not None:
                    deltas += self._with_logprobs(self._tags.close(cut=choice.finish_reason == "length"))
                    deltas.append(Finished(choice.finish_reason))
        if chunk.usage is not None and (usage := _to_usage(chunk.usage, chunk.timings)) is not None:
            deltas.append(UsageReport(usage))
        return deltas

    def close(self) -> list[Delta]:
        return self._with_logprobs(self._tags.close())

    def _delta(self, delta: chat.DeltaChunk, deltas: list[Delta]) -> None:
        if thought := delta.reasoning_content or delta.reasoning or delta.thinking:
            deltas += self._thought(thought)
        if delta.content:
            deltas += self._with_logprobs(self._tags.receive(_plain_text(delta.content)))
        if delta.refusal or delta.tool_calls or delta.function_call is not None:
            self._calls_and_refusals(delta, deltas)

    def goes_on(self, kind: type[Delta], text: str) -> bool:
        """A piece of this kind is no more than its text: nothing to look for, to hold back or to swallow."""
        if kind is TextDelta:
            return not self._logprobs and self._tags.passes(text)
        return self._tags.copy if kind is ReasoningDelta else True

    def _thought(self, thought: str) -> list[Delta]:
        """Reasoning from a field of its own. Whichever source speaks first is the one; the other is its copy."""
        tags = self._tags
        if tags.copy:
            return [ReasoningDelta(thought)]
        if tags.found:
            return []
        held = self._with_logprobs(tags.release())
        tags.copy = True
        return [*held, ReasoningDelta(thought)]

    def _calls_and_refusals(self, delta: chat.DeltaChunk, deltas: list[Delta]) -> None:
        deltas += self._with_logprobs(self._tags.release())
        if delta.refusal:
            deltas.append(RefusalDelta(delta.refusal))
        for call in delta.tool_calls or ():
            deltas.append(_call_to_delta(call.index, call.id, call.function))
        if delta.function_call is not None:
            deltas.append(_call_to_delta(0, None, delta.function_call))

    def _with_logprobs(self, pieces: list[Delta]) -> list[Delta]:
        """Gives the tokens' probabilities to the last visible piece of this read, and drops those of thoughts."""
        if not self._logprobs or not pieces:
            return pieces
        for at in range(len(pieces) - 1, -1, -1):
            piece = pieces[at]
            if isinstance(piece, TextDelta):
                pieces[at] = TextDelta(piece.text, self._logprobs)
                break
        self._logprobs = []
        return pieces


def _call_to_delta(index: int | None, id: str | None, function: chat.FunctionDelta | None) -> CallDelta:
    if function is None:
        return CallDelta(index, id or None)
    arguments = function.arguments
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    return CallDelta(index, id or None, function.name or None, arguments or "")
