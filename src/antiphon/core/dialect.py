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
    ThoughtEnded,
    UsageReport,
)
from antiphon.core.failures import error_object_to_failure, failure_to_error
from antiphon.core.text_calls import CallFinder
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
class Template:
    """The engine's endpoint that shows the prompt of a chat request: POST its messages and tools to `path`."""

    path: str
    prompt_key: str


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
    # The template shows the tools to the model, and earlier calls with their results. Otherwise all three are written into the
    # messages as text.
    shows_tools: bool = True
    # Takes "auto", and finds the calls in what its model writes. Otherwise "none" is sent, and they are found here.
    reads_calls: bool = True
    # Sees to it that a call is made where tool_choice is "required", and where it names a function.
    enforces_required: bool = False
    enforces_named: bool = False
    # False: `response_format` is refused.
    takes_response_format: bool = True
    # Holds an answer to a JSON schema, and a strict function to its parameters. Otherwise they are checked here.
    constrains_json: bool = False
    constrains_calls: bool = False
    # Holds an answer to its schema also where tools are offered. Otherwise only one of the two is sent.
    constrains_json_with_tools: bool = True
    takes_logprobs_with_tools: bool = True
    # Shows a JSON schema to the model by itself. Otherwise it is put into the prompt too.
    shows_schema: bool = False
    # Goes on writing the last assistant message instead of beginning a new one.
    continues_last_message: bool = False
    # False: templates without a system role; the text goes in front of the first user message.
    takes_system_role: bool = True
    # False: templates that want user and assistant to alternate; user messages in a row become one.
    takes_users_in_a_row: bool = True
    # The template opens the thought: an answer begins inside it, and only `</think>` comes.
    opens_thought: bool = False
    # False: usage is estimated.
    reports_usage: bool = True
    # False: `stream_options` is rejected, and left out.
    takes_stream_options: bool = True
    # Loads a model when it is asked for: it is not asked for anything that nobody wanted.
    loads_on_demand: bool = False
    # False: closes a connection behind each stream, whatever it has promised; it is not used again.
    keeps_connections: bool = True
    tokenizer: Tokenizer | None = None
    # Where the context window of a model is told, the better source first; and whether it sees images.
    window: tuple[Lookup, ...] = ()
    vision: tuple[Lookup, ...] = ()
    # Where the engine tells its own version.
    version: tuple[Lookup, ...] = ()
    # What probes go by: where the prompt is shown, the field that takes a GBNF grammar, and where the engine tells by itself
    # whether the template of a model has tools, several calls in a message, and thoughts.
    template: Template | None = None
    grammar_member: str | None = None
    tells_tools: tuple[Lookup, ...] = ()
    tells_parallel_calls: tuple[Lookup, ...] = ()
    tells_reasoning: tuple[Lookup, ...] = ()
    # Capability → what would mend it on the engine's side: a flag, mostly.
    advice: Mapping[str, str] = field(default_factory=dict)
    # Fields that are always sent, and those that are sent where the answer is constrained.
    extra: Mapping[str, Any] = field(default_factory=dict)
    constrained_extra: Mapping[str, Any] = field(default_factory=dict)


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
    """Reads one stream's chunks into deltas. `receive()` takes the data of a frame, `close()` says that there are no more.

    What the tags leave as text is searched for calls, if there is a finder.
    """

    __slots__ = ("_finder", "_logprobs", "_tags")

    def __init__(self, start: Start = Start.UNKNOWN, finder: CallFinder | None = None) -> None:
        self._tags = ThinkTags(start)
        self._finder = finder
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
                    deltas += self._close_text(cut=choice.finish_reason == "length")
                    deltas.append(Finished(choice.finish_reason))
        if chunk.usage is not None and (usage := _to_usage(chunk.usage, chunk.timings)) is not None:
            deltas.append(UsageReport(usage))
        return deltas

    def close(self) -> list[Delta]:
        return self._close_text()

    def _delta(self, delta: chat.DeltaChunk, deltas: list[Delta]) -> None:
        if thought := delta.reasoning_content or delta.reasoning or delta.thinking:
            deltas += self._thought(thought)
        if delta.content:
            deltas += self._with_logprobs(self._searched(self._tags.receive(_plain_text(delta.content))))
        if delta.refusal or delta.tool_calls or delta.function_call is not None:
            self._calls_and_refusals(delta, deltas)

    def goes_on(self, kind: type[Delta], text: str) -> bool:
        """A piece of this kind is no more than its text: nothing to look for, to hold back or to swallow."""
        if kind is TextDelta:
            finder = self._finder
            return not self._logprobs and self._tags.take_if_plain(text) and (finder is None or finder.take_if_plain(text))
        return self._tags.copy if kind is ReasoningDelta else True

    def _thought(self, thought: str) -> list[Delta]:
        """Reasoning from a field of its own. Whichever source speaks first is the one; the other is its copy."""
        tags = self._tags
        if tags.copy:
            return [ReasoningDelta(thought)]
        if tags.found:
            return []
        held = self._with_logprobs(self._searched(tags.release()))
        tags.takes_copies()
        return [*held, ReasoningDelta(thought)]

    def _calls_and_refusals(self, delta: chat.DeltaChunk, deltas: list[Delta]) -> None:
        released = self._searched(self._tags.release())
        if self._finder is not None:
            released += self._finder.release()
        deltas += self._with_logprobs(released)
        if delta.refusal:
            deltas.append(RefusalDelta(delta.refusal))
        for call in delta.tool_calls or ():
            deltas.append(_call_to_delta(call.index, call.id, call.function))
        if delta.function_call is not None:
            deltas.append(_call_to_delta(0, None, delta.function_call))

    def _searched(self, pieces: list[Delta]) -> list[Delta]:
        """The same pieces, with the calls that the finder sees in their text."""
        finder = self._finder
        if finder is None:
            return pieces
        deltas: list[Delta] = []
        for piece in pieces:
            if isinstance(piece, TextDelta):
                deltas += finder.receive(piece.text)
            else:
                # What was held back as the beginning of a call stood in a thought.
                deltas += finder.release() if isinstance(piece, ThoughtEnded) else []
                deltas.append(piece)
        return deltas

    def _close_text(self, *, cut: bool = False) -> list[Delta]:
        deltas = self._searched(self._tags.close(cut=cut))
        if self._finder is not None:
            deltas += self._finder.close()
        return self._with_logprobs(deltas)

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
