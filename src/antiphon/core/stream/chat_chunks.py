"""The chunks of an engine's stream → deltas. It needs no facts about the engine.

The four shapes of reasoning are recognized in the stream itself: there is nothing to configure.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, structs

from antiphon.core.events.deltas import (
    AnnotationsDelta,
    CallDelta,
    Delta,
    EngineFailed,
    ExtrasDelta,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ThoughtEnded,
    UsageReport,
)
from antiphon.core.knowledge.failures import PARSE_ERROR, error_object_to_failure, failure_to_error
from antiphon.core.protocols.responses.fields import is_deeper
from antiphon.core.stream.fast_path import Continues
from antiphon.core.stream.json_text import JsonText
from antiphon.core.stream.reasoning_tags import TAGS, Start
from antiphon.core.stream.text_calls import CallFinder
from antiphon.core.stream.think_tags import ThinkTags
from antiphon.errors import UNREADABLE, ApiError, EngineDisagrees, EngineError, EngineFailure
from antiphon.wire import chat, responses

_decode = msgspec.json.Decoder(chat.Chunk).decode


def cached_tokens_of(chunk: chat.Chunk) -> int | None:
    """None: the engine does not report them."""
    details = chunk.usage.prompt_tokens_details if chunk.usage is not None else None
    if details is not None and details.cached_tokens is not None:
        return details.cached_tokens
    return chunk.timings.cache_n if chunk.timings is not None else None


def _to_usage(usage: chat.ChatUsage, cached: int | None) -> responses.Usage | None:
    """None: it is not reported, or it is not a count."""
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    if not (0 <= prompt <= chat.MOST_TOKENS and 0 <= completion <= chat.MOST_TOKENS):
        return None
    reasoning = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else None
    return responses.Usage(
        input_tokens=prompt,
        input_tokens_details=responses.InputTokensDetails(cached_tokens=_to_count(cached)),
        output_tokens=completion,
        output_tokens_details=responses.OutputTokensDetails(reasoning_tokens=_to_count(reasoning)),
        total_tokens=_to_count(usage.total_tokens) or prompt + completion,
    )


def _to_count(reported: int | None) -> int:
    """-1 says of some that it is not known."""
    return reported if reported is not None and 0 <= reported <= chat.MOST_TOKENS else 0


def _to_logprobs(tokens: list[chat.Logprob], *, with_ids: bool) -> list[responses.Logprob]:
    def octets(token: str, given: list[int] | None) -> list[int]:
        return given if given is not None else list(token.encode())

    def top_of(token: chat.Logprob) -> list[responses.TopLogprob]:
        return [
            responses.TopLogprob(top.token, top.logprob, octets(top.token, top.bytes), top.id if with_ids else UNSET)
            for top in token.top_logprobs or []
        ]

    return [
        responses.Logprob(
            token.token, token.logprob, octets(token.token, token.bytes), top_of(token), token.id if with_ids else UNSET
        )
        for token in tokens
    ]


# What clients require of a citation, and what an engine may leave out.
URL_CITATION = {"url": "", "title": "", "start_index": 0, "end_index": 0}
# What is nested more deeply than that may be decoded and then not encoded.
DEEPEST_ANNOTATION = 32


def _to_annotations(given: Any) -> list[dict[str, Any]]:
    """Chat Completions has the members of a citation in an object of their own. Other types are passed on as they are."""
    if is_deeper(given, DEEPEST_ANNOTATION):
        raise msgspec.ValidationError("annotations are nested too deeply")
    return [_to_annotation(each) for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _to_annotation(given: dict[str, Any]) -> dict[str, Any]:
    if given.get("type") != "url_citation":
        return given
    nested = given.get("url_citation")
    members = nested if isinstance(nested, dict) else given
    known = {name: members[name] for name, missing in URL_CITATION.items() if isinstance(members.get(name), type(missing))}
    return {"type": "url_citation", **URL_CITATION, **known}


# The members of a chunk and of its choice that are read, or written anew.
_OF_CHUNK = frozenset({*chat.Chunk.__struct_fields__, "id", "created", "model", "service_tier"} - {"timings"})
_OF_CHOICE = frozenset(chat.Choice.__struct_fields__)
PROGRESS = "prompt_progress"


def _extras_of(data: bytes, of_chunk: frozenset[str]) -> responses.EngineExtras:
    chunk = msgspec.json.decode(data)
    choices = chunk.get("choices") or [{}]
    members, choice = (
        {name: value for name, value in each.items() if name not in known and value is not None}
        for each, known in ((chunk, of_chunk), (choices[0], _OF_CHOICE))
    )
    return responses.EngineExtras(members, choice)


def _to_progress(given: Any) -> chat.PromptProgress | None:
    """A report that cannot be read is none: it says nothing about the answer."""
    try:
        progress = msgspec.convert(given, chat.PromptProgress)
    except msgspec.ValidationError:
        return None
    return progress if 0 <= progress.processed <= progress.total else None


def _plain_text(content: str | list[chat.ContentPart]) -> str:
    """Some servers send content in parts."""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _may_end_thought(delta: chat.DeltaChunk | None) -> bool:
    if delta is None:
        return False
    others = (delta.reasoning_content, delta.reasoning, delta.thinking, delta.refusal, delta.tool_calls, delta.function_call)
    return any(others) or (bool(delta.content) and TAGS.closings.may_end_in(_plain_text(delta.content or "")))


def _is_bare_error(chunk: chat.Chunk) -> bool:
    """An error object where a chunk should be."""
    return chunk.object == "error" or chunk.message is not None or chunk.detail is not None


class ChunkReader:
    """`receive()` the data of each frame, then `close()`. Text is searched for calls, if there is a finder."""

    __slots__ = (
        "_annotations", "_extras", "_finder", "_is_closed", "_logprobs", "_of_chunk", "_thinks", "failed", "has_logprobs",
        "progress", "tags",
    )  # fmt: skip

    def __init__(
        self,
        start: Start = Start.UNKNOWN,
        finder: CallFinder | None = None,
        *,
        passes_extras: bool = False,
        passes_progress: bool = False,
    ) -> None:
        self._thinks = start is not Start.NEVER
        self.tags = ThinkTags(start) if self._thinks else JsonText()
        self._finder = finder
        self._logprobs: list[responses.Logprob] = []
        # Some have come.
        self.has_logprobs = False
        self.failed = False
        # Of the text so far. They wait for its end, because a part of it may be buffered.
        self._annotations: list[dict[str, Any]] = []
        # Nothing has come since the text was closed.
        self._is_closed = False
        # What the last chunks had beside the members of the API. None: that is not passed on.
        self._extras: responses.EngineExtras | None = responses.EngineExtras() if passes_extras else None
        # The members of a chunk that are never passed on.
        self._of_chunk = _OF_CHUNK - {PROGRESS} if passes_progress else _OF_CHUNK
        # The last report of the engine while it read the prompt.
        self.progress: chat.PromptProgress | None = None

    @property
    def template_opens_thought(self) -> bool:
        return self.tags.unopened

    def receive(self, data: bytes) -> list[Delta]:
        """One method, for the sake of speed: it is called for every chunk."""
        deltas: list[Delta] = []
        try:
            chunk = _decode(data)
            if chunk.error is not None or (not chunk.choices and _is_bare_error(chunk)):
                return [self._reported(chunk)]
            for choice in chunk.choices or ():
                if choice.index == 0:
                    if choice.logprobs is not None and choice.logprobs.content:
                        self._logprobs += _to_logprobs(choice.logprobs.content, with_ids=self._extras is not None)
                        self.has_logprobs = True
                    if (delta := choice.delta or choice.message) is not None:
                        self._delta(delta, deltas)
                    if choice.finish_reason is not None:
                        deltas += self._close_text(cut=choice.finish_reason == "length")
                        deltas.append(Finished(choice.finish_reason))
            if chunk.usage is not None and (usage := _to_usage(chunk.usage, cached_tokens_of(chunk))) is not None:
                deltas.append(UsageReport(usage))
            if chunk.prompt_progress is not None:
                self.progress = _to_progress(chunk.prompt_progress)
            if self._extras is not None:
                deltas = [*self._new_extras(data, is_all=not deltas), *deltas]
        except UNREADABLE as broken:
            return [self.fail(EngineDisagrees(f"The engine sent a chunk that is not one of Chat Completions: {broken}"))]
        return deltas

    def _new_extras(self, data: bytes, *, is_all: bool) -> list[Delta]:
        """Engines repeat some members in every chunk, such as a version: each value is passed on once."""
        found, before = _extras_of(data, self._of_chunk), self._extras or responses.EngineExtras()
        new = {name: value for name, value in found.members.items() if before.members.get(name) != value}
        self._extras = responses.EngineExtras(before.members | new, found.choice)
        if not new and not found.choice:
            return []
        return [ExtrasDelta(responses.EngineExtras(new, found.choice), is_all)]

    @property
    def _has_varying_extras(self) -> bool:
        """A chunk that looks like the last one may say something else, such as the same token once more."""
        extras = self._extras
        return extras is not None and (
            bool(extras.choice) or not all(isinstance(each, str) for each in extras.members.values())
        )

    @property
    def waiting(self) -> int:
        """How many characters have been read that may be searched later, all at once."""
        waiting = self.tags.waiting
        return waiting if self._finder is None else max(waiting, self._finder.buffered)

    @property
    def has_nothing_left(self) -> bool:
        """The text has been closed, and no finder keeps any of it."""
        return self._is_closed and self._finder is None

    def ends_waiting(self, data: bytes) -> bool:
        """After this chunk they may be searched. So may they after what is no chunk, such as the end of the stream."""
        try:
            choices = _decode(data).choices or ()
        except UNREADABLE:
            return True
        return any(choice.finish_reason is not None or _may_end_thought(choice.delta or choice.message) for choice in choices)

    def fail(self, error: ApiError) -> EngineFailed:
        self.failed = True
        return EngineFailed(error)

    def _reported(self, chunk: chat.Chunk) -> EngineFailed:
        error = chunk.error if chunk.error is not None else msgspec.to_builtins(chunk)
        return self.fail(failure_to_error(error_object_to_failure(error)))

    def close(self) -> list[Delta]:
        """The finish_reason, before the end of the stream, has closed the text already; but for what a finder may keep."""
        return [] if self._is_closed and self._finder is None else self._close_text()

    def _delta(self, delta: chat.DeltaChunk, deltas: list[Delta]) -> None:
        self._is_closed = False
        if thought := delta.reasoning_content or delta.reasoning or delta.thinking:
            if not self._thinks:
                # The template has opened a thought, so the engine takes the answer for one.
                deltas += self._text(thought)
            else:
                pieces = self._searched(self.tags.report(thought))
                deltas += pieces if delta.content else self._with_logprobs(pieces)
        # Parts may have no text at all.
        if (content := delta.content) and (text := content if isinstance(content, str) else _plain_text(content)):
            tags = self.tags
            if self._finder is None and not self._logprobs and not tags.dropped and tags.take_if_plain(text):
                deltas.append(TextDelta(text))
            else:
                deltas += self._text(text)
        if delta.annotations:
            # Engines repeat them.
            self._annotations += [each for each in _to_annotations(delta.annotations) if each not in self._annotations]
        if delta.refusal or delta.tool_calls or delta.function_call is not None:
            self._calls_and_refusals(delta, deltas)

    def continues(self, kind: type[Delta]) -> Continues | None:
        """How the next piece of this kind is read if it is nothing but its text: nothing to buffer or to drop. None: it may
        be more than that."""
        if self._has_varying_extras:
            return None
        if kind is CallDelta:
            return Continues(kind)
        if kind is ReasoningDelta:
            return self.tags.continues_reported()
        continues = self.tags.continues() if not self._logprobs else None
        if continues is None or continues.kind is ReasoningDelta or self._finder is None:
            return continues
        return continues._replace(takes=self._finder.take_if_plain)

    def catch_up(self, last: str) -> None:
        """Content was taken without being received, and ended with this character."""
        self.tags.catch_up(last)

    def _text(self, text: str) -> list[Delta]:
        tags = self.tags
        pieces = tags.receive(text)
        if tags.dropped:
            # Of the copy of a thought; those of what follows it in the same chunk cannot be separated.
            self._logprobs.clear()
            tags.dropped = False
        if self._finder is not None:
            pieces = self._searched(pieces)
        return self._with_logprobs(pieces) if self._logprobs else pieces

    def _calls_and_refusals(self, delta: chat.DeltaChunk, deltas: list[Delta]) -> None:
        released = self._searched(self.tags.release())
        if self._finder is not None:
            released += self._finder.release()
        deltas += self._annotated(self._with_logprobs(released))
        if delta.refusal:
            deltas.append(RefusalDelta(delta.refusal))
        for call in delta.tool_calls or ():
            deltas.append(_call_to_delta(call.index, call.id, call.function))
        if delta.function_call is not None:
            deltas.append(_call_to_delta(0, None, delta.function_call))

    def _searched(self, pieces: list[Delta]) -> list[Delta]:
        """The same pieces, with the calls that the finder found in their text."""
        finder = self._finder
        if finder is None:
            return pieces
        deltas: list[Delta] = []
        for piece in pieces:
            if isinstance(piece, TextDelta):
                deltas += finder.receive(piece.text)
            else:
                # What was buffered as the beginning of a call belongs to a thought.
                deltas += finder.release() if isinstance(piece, ThoughtEnded) else []
                deltas.append(piece)
        return deltas

    def _close_text(self, *, cut: bool = False) -> list[Delta]:
        self._is_closed = True
        deltas = self.tags.close(cut=cut)
        if self._finder is not None:
            deltas = [*self._searched(deltas), *self._finder.close()]
        if self._logprobs:
            deltas = self._with_logprobs(deltas)
        return self._annotated(deltas) if self._annotations else deltas

    def _annotated(self, last: list[Delta]) -> list[Delta]:
        """The last pieces of a text, followed by its annotations."""
        annotations, self._annotations = self._annotations, []
        return [*last, AnnotationsDelta(annotations)] if annotations else last

    def _with_logprobs(self, pieces: list[Delta]) -> list[Delta]:
        """Attaches the tokens' probabilities to the last visible piece of this read, and drops those of thoughts."""
        if not self._logprobs or not pieces:
            return pieces
        for at in range(len(pieces) - 1, -1, -1):
            piece = pieces[at]
            if isinstance(piece, TextDelta):
                pieces[at] = structs.replace(piece, logprobs=self._logprobs)
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


# ---- what a finish_reason means --------------------------------------------------------------------------------------


class Ending(Struct, frozen=True):
    """A reason that is not listed is an ordinary end."""

    incomplete: str | None = None
    error: str | None = None


COMPLETED = Ending()
OUT_OF_TOKENS = "max_output_tokens"
ENDINGS: dict[str, Ending] = {
    "length": Ending(incomplete=OUT_OF_TOKENS),
    "content_filter": Ending(incomplete="content_filter"),
    # LMDeploy and SGLang.
    "abort": Ending(error="The engine aborted the request."),
    "error": Ending(error="The engine gave up in the middle of its answer."),
    PARSE_ERROR: Ending(error="The engine could not read its model's tool call."),
}


def ending_of(reason: str | None) -> Ending:
    return ENDINGS.get(reason or "", COMPLETED)


def reason_to_error(reason: str | None) -> EngineError | None:
    """The error that a finish_reason stands for, with the reason as its cause."""
    message = ending_of(reason).error
    return None if message is None else EngineError(message, failure=EngineFailure(500, reason or "", ""))
