"""The events of a response → the chunks of a chat completion."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from antiphon.core.events.encode import DONE, FRAME_HEAD, FRAME_TAIL, STILL_HERE, to_json
from antiphon.core.events.lifecycle import ExtrasReceived, join_extras
from antiphon.core.events.plain_deltas import AnyEvent, DeltaTemplate, PlainDelta
from antiphon.core.protocols.chat.answer import (
    BETWEEN_MESSAGES,
    completion_id,
    completion_usage,
    failed_to_envelope,
    finish_reason,
    item_to_call,
    to_annotation,
)
from antiphon.core.protocols.chat.places import Places
from antiphon.wire import events
from antiphon.wire.chat_completions import ChatLogprobs, ChatStreamOptions, ToolCall
from antiphon.wire.events import DeltaEvent, Event
from antiphon.wire.responses import CreateResponse, EngineExtras, OutputMessage, ResponseError

NULL = b"null"
# What the text of a delta is spliced into, by the type of its event. A call's has its index.
CONTENT, REASONING = (b'{"content":', b"}"), (b'{"reasoning_content":', b"}")
DELTAS: Mapping[type[Event], tuple[bytes, bytes]] = {
    events.OutputTextDelta: CONTENT,
    events.RefusalDelta: (b'{"refusal":', b"}"),
    events.ReasoningTextDelta: REASONING,
    events.ReasoningDelta: REASONING,
    events.ReasoningSummaryTextDelta: REASONING,
    events.FunctionCallArgumentsDelta: (b'{"tool_calls":[{"index":INDEX,"function":{"arguments":', b"}}]}"),
    events.CustomToolCallInputDelta: (b'{"tool_calls":[{"index":INDEX,"custom":{"input":', b"}}]}"),
}


# What a chunk ends with: if the client asked for the usage, each has it, and only the last one has a value for it.
ENDS = {False: b"}" + FRAME_TAIL, True: b',"usage":null}' + FRAME_TAIL}


CHOICES = b',"choices":['


def _more(members: Mapping[str, Any]) -> bytes:
    """The members of an object, behind others."""
    return b"," + to_json(members)[1:-1] if members else b""


class ChatEncoder:
    __slots__ = (
        "_before",
        "_calls",
        "_end",
        "_extras",
        "_has_begun",
        "_has_message",
        "_head",
        "_names_tier",
        "_places",
        "_tail",
        "_template",
        "_usage",
    )

    end: ClassVar[tuple[bytes, ...]] = (DONE,)

    def __init__(self, request: CreateResponse, places: Places) -> None:
        options = request.stream_options
        self._places = places
        self._names_tier = request.service_tier is not None
        self._usage = isinstance(options, ChatStreamOptions) and bool(options.include_usage)
        # What every chunk begins and ends with.
        self._before = b""
        self._end = ENDS[self._usage]
        # The role has been said.
        self._has_begun = False
        self._has_message = False
        self._calls = 0
        # What the engine's answer had beside the members of the API. The next chunk shows it.
        self._extras: EngineExtras | None = None
        # The template of the last delta, and what is around its text; empty: it is not shown.
        self._template: DeltaTemplate | None = None
        self._head = self._tail = b""

    def encode(self, event: AnyEvent) -> bytes:
        if isinstance(event, PlainDelta):
            if self._extras is not None:
                # They are in this chunk alone.
                head, tail = self._around(event.template.event)
                return head + to_json(event.delta) + tail if head else b""
            if event.template is not self._template:
                self._template, (self._head, self._tail) = event.template, self._around(event.template.event)
            return self._head + to_json(event.delta) + self._tail if self._head else b""
        if isinstance(event, DeltaEvent):
            head, tail = self._around(event)
            return head + to_json(event.delta) + tail if head else b""
        write = WRITERS.get(type(event))
        return write(self, event) if write is not None else b""

    def heartbeat(self) -> bytes:
        return STILL_HERE

    def _around(self, event: DeltaEvent) -> tuple[bytes, bytes]:
        """The chunk around the text of a delta."""
        if (form := DELTAS.get(type(event))) is None:
            return b"", b""
        before, after = form
        logprobs = (
            to_json(ChatLogprobs(event.logprobs)) if isinstance(event, events.OutputTextDelta) and event.logprobs else NULL
        )
        head = b'%b{"index":0,"delta":%b' % (self._before, before.replace(b"INDEX", b"%d" % (self._calls - 1)))
        return head, after + self._rest(logprobs=logprobs)

    # ---- chunks ------------------------------------------------------------------------------------------------------

    def _chunk(self, delta: Mapping[str, Any], finish: bytes = NULL) -> bytes:
        return b'%b{"index":0,"delta":%b%b' % (self._before, to_json(delta), self._rest(finish))

    def _rest(self, finish: bytes = NULL, logprobs: bytes = NULL) -> bytes:
        extras, self._extras = self._extras, None
        choice, members = (b"", b"") if extras is None else (_more(extras.choice), _more(extras.members))
        return b',"logprobs":%b,"finish_reason":%b%b}]%b%b' % (logprobs, finish, choice, members, self._end)

    def _begin(self, content: str | None) -> bytes:
        """`content`: null where something else than text comes first."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._chunk({"role": "assistant", "content": content, "refusal": None})

    def _created(self, event: events.ResponseCreated) -> bytes:
        response = event.response
        named = {"id": completion_id(response), "object": "chat.completion.chunk", "created": response.created_at}
        tier = {"service_tier": response.service_tier} if self._names_tier else {}
        self._before = FRAME_HEAD + to_json({**named, "model": response.model, **tier})[:-1] + CHOICES
        return b""

    def _item_added(self, event: events.OutputItemAdded) -> bytes:
        item = event.item
        if isinstance(item, OutputMessage):
            again, self._has_message = self._has_message, True
            return self._chunk({"content": BETWEEN_MESSAGES}) if again else self._begin("")
        call = item_to_call(item, self._calls)
        return self._begin(None) if call is None else self._begin(None) + self._called(call)

    def _called(self, call: ToolCall) -> bytes:
        self._calls += 1
        return self._chunk({"tool_calls": [call]})

    def _extras_received(self, event: ExtrasReceived) -> bytes:
        """A string, such as the version of the engine, is said in every chunk, as OpenAI does it."""
        members = event.extras.members
        named = {name: value for name, value in members.items() if isinstance(value, str)}
        if named:
            self._before = self._before.removesuffix(CHOICES) + _more(named) + CHOICES
            self._template = None
        others = EngineExtras({name: value for name, value in members.items() if name not in named}, event.extras.choice)
        if not others.members and not others.choice:
            return b""
        self._extras = join_extras(self._extras, others)
        return self._begin(None) or self._chunk({}) if event.is_all else b""

    def _annotated(self, event: events.OutputTextAnnotationAdded) -> bytes:
        annotation = to_annotation(event.annotation)
        return b"" if annotation is None else self._chunk({"annotations": [annotation]})

    def _ended(self, event: events.ResponseCompleted | events.ResponseIncomplete) -> bytes:
        response = event.response
        finished = self._begin("") + self._chunk({}, to_json(finish_reason(response)))
        if not self._usage:
            return finished
        return finished + b'%b],"usage":%b}%b' % (self._before, to_json(completion_usage(response)), FRAME_TAIL)

    def _failed(self, event: events.ResponseFailed) -> bytes:
        error = event.response.error or ResponseError("server_error", "The response failed.")
        return FRAME_HEAD + to_json(failed_to_envelope(error, self._places)) + FRAME_TAIL


# What is written for each event. What is not listed has no form in this protocol: a chunk says it all.
WRITERS: Mapping[type[Event], Callable[..., bytes]] = {
    events.ResponseCreated: ChatEncoder._created,
    events.OutputItemAdded: ChatEncoder._item_added,
    events.OutputTextAnnotationAdded: ChatEncoder._annotated,
    ExtrasReceived: ChatEncoder._extras_received,
    events.ResponseCompleted: ChatEncoder._ended,
    events.ResponseIncomplete: ChatEncoder._ended,
    events.ResponseFailed: ChatEncoder._failed,
}
