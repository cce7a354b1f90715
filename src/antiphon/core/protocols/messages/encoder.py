"""The events of a response → the events of a message. Blocks follow one another, as the items do, and never interleave."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from antiphon.core.events.encode import to_frame, to_json
from antiphon.core.events.lifecycle import Heartbeat
from antiphon.core.events.plain_deltas import AnyEvent, DeltaTemplate, PlainDelta
from antiphon.core.protocols.messages.answer import (
    BlockCutter,
    annotation_to_citation,
    applied_edits,
    call_to_block,
    failed_to_details,
    message_ending,
    message_id,
    message_usage,
    shows_thinking,
    signature_of,
    summary_of,
)
from antiphon.core.protocols.messages.facts import MessageFacts
from antiphon.core.protocols.messages.inputs import InputText
from antiphon.core.protocols.messages.server_tools import ServerCall, ServerCalls, item_to_listing
from antiphon.wire import events
from antiphon.wire.events import DOCUMENT_CITATION, DeltaEvent, Event
from antiphon.wire.hosted_items import McpListTools
from antiphon.wire.messages import (
    AnswerBlock,
    Block,
    BlockDelta,
    CitationsDelta,
    CompactionBlock,
    CompactionDelta,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    DeltaUsage,
    ErrorEvent,
    InputJsonDelta,
    Message,
    MessageDelta,
    MessageEvent,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    TextBlock,
    ThinkingBlock,
)
from antiphon.wire.responses import (
    Compaction,
    CreateResponse,
    FunctionCall,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ResponseError,
)


def event_to_frame(event: MessageEvent) -> bytes:
    return to_frame(str(event.__struct_config__.tag), to_json(event))


PING = event_to_frame(Ping())
# What the text of a delta is spliced into.
DELTA, DELTA_END = to_frame(
    "content_block_delta", b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":TEXT}}'
).split(b"TEXT")
# The type of a delta event → that of a block's delta, and the member that has its text.
TEXT, THINKING, INPUT = (b"text_delta", b"text"), (b"thinking_delta", b"thinking"), (b"input_json_delta", b"partial_json")
DELTAS: Mapping[type[Event], tuple[bytes, bytes]] = {
    events.OutputTextDelta: TEXT,
    events.RefusalDelta: TEXT,
    events.ReasoningTextDelta: THINKING,
    events.ReasoningDelta: THINKING,
    events.ReasoningSummaryTextDelta: THINKING,
    events.FunctionCallArgumentsDelta: INPUT,
}


class MessagesEncoder:
    __slots__ = ("_calls", "_cutter", "_facts", "_head", "_index", "_input", "_template", "_thinking")

    end: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self, request: CreateResponse, facts: MessageFacts) -> None:
        self._facts = facts
        self._thinking = shows_thinking(request)
        # The block that is open, or the last one.
        self._index = -1
        self._cutter = BlockCutter()
        self._calls = ServerCalls(facts.search)
        # Of the call that is open.
        self._input: InputText | None = None
        # The template of the last delta, and its encoded beginning; empty: it is not shown.
        self._template: DeltaTemplate | None = None
        self._head = b""

    def encode(self, event: AnyEvent) -> bytes:
        if isinstance(event, PlainDelta):
            if event.template is not self._template:
                self._template, self._head = event.template, self._delta_head(event.template.event)
            head = self._head
        elif isinstance(event, DeltaEvent):
            head = self._delta_head(event)
        else:
            write = WRITERS.get(type(event))
            hides = write is None or (self._facts.only_reads and type(event) not in OF_MESSAGE)
            return b"" if hides or write is None else write(self, event)
        if self._cutter.is_cited:
            return self._behind_citation(head, event.delta)
        delta = event.delta if self._input is None else self._input.receive(event.delta)
        return head + to_json(delta) + DELTA_END if head and delta else b""

    def _behind_citation(self, head: bytes, text: str) -> bytes:
        here, following = self._cutter.split(text)
        shown = head + to_json(here) + DELTA_END if here else b""
        if following is None:
            return shown
        # The next delta has another index, although it is one of the same part.
        self._template = None
        shown += self._stop() + self._start(TextBlock(""))
        return b"".join((shown, DELTA % (self._index, *TEXT), to_json(following), DELTA_END))

    def heartbeat(self) -> bytes:
        return PING

    def _delta_head(self, event: DeltaEvent) -> bytes:
        """b"": it is not shown."""
        form = DELTAS.get(type(event))
        if form is None or self._facts.only_reads:
            return b""
        if form is THINKING and (self._facts.hides_thoughts or not self._thinking):
            return b""
        return DELTA % (self._index, *form)

    # ---- the message -------------------------------------------------------------------------------------------------

    def _created(self, event: events.ResponseCreated) -> bytes:
        response = event.response
        message = Message(model=response.model, id=message_id(response), usage=message_usage(response))
        return event_to_frame(MessageStart(message)) + PING

    def _ended(self, event: events.ResponseCompleted | events.ResponseIncomplete) -> bytes:
        response = event.response
        usage = message_usage(response)
        used = DeltaUsage(
            usage.input_tokens,
            usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens,
            usage.output_tokens_details,
            usage.server_tool_use,
        )
        ended = MessageDelta(message_ending(response, self._facts), used, applied_edits(self._facts))
        return event_to_frame(ended) + event_to_frame(MessageStop())

    def _failed(self, event: events.ResponseFailed) -> bytes:
        error = event.response.error or ResponseError("server_error", "The response failed.")
        return event_to_frame(ErrorEvent(failed_to_details(error, self._facts)))

    def _heartbeat(self, event: Heartbeat) -> bytes:
        return PING

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _start(self, block: AnswerBlock | Block) -> bytes:
        self._index += 1
        return event_to_frame(ContentBlockStart(self._index, block))

    def _delta(self, delta: BlockDelta) -> bytes:
        return event_to_frame(ContentBlockDelta(self._index, delta))

    def _stop(self) -> bytes:
        return event_to_frame(ContentBlockStop(self._index))

    def _item_added(self, event: events.OutputItemAdded) -> bytes:
        match event.item:
            case ReasoningItem() if self._thinking:
                return self._start(ThinkingBlock("", ""))
            case FunctionCall() as call:
                self._input = InputText()
                return self._start(call_to_block(call, self._facts, {}))
        return b""

    def _item_done(self, event: events.OutputItemDone) -> bytes:
        match event.item:
            case ReasoningItem() as item if self._thinking:
                return self._delta(SignatureDelta(signature_of(item))) + self._stop()
            case FunctionCall(arguments=arguments) if self._input is not None:
                end, self._input = self._input.close(arguments), None
                return (self._delta(InputJsonDelta(end)) if end else b"") + self._stop()
            case Compaction(encrypted_content=sealed) as item:
                delta = CompactionDelta(summary_of(item), sealed)
                return self._start(CompactionBlock()) + self._delta(delta) + self._stop()
            case McpListTools() as item:
                return self._start(item_to_listing(item)) + self._stop() if self._facts.shows_listings else b""
        call = self._calls.show(event.item)
        return b"" if call is None else self._server_call(call)

    def _server_call(self, call: ServerCall) -> bytes:
        """Its blocks. The input of a use comes as deltas, as that of a client's tool does."""
        shown = b""
        if call.use is not None:
            input = to_json(call.use["input"]).decode()
            shown += self._start({**call.use, "input": {}}) + self._delta(InputJsonDelta(input)) + self._stop()
        return shown if call.result is None else shown + self._start(call.result) + self._stop()

    def _part_added(self, event: events.ContentPartAdded) -> bytes:
        return self._start(TextBlock("")) if isinstance(event.part, OutputText | OutputRefusal) else b""

    def _part_done(self, event: events.ContentPartDone) -> bytes:
        self._cutter.is_cited = False
        return self._stop() if isinstance(event.part, OutputText | OutputRefusal) else b""

    def _annotated(self, event: events.OutputTextAnnotationAdded) -> bytes:
        citation = annotation_to_citation(event.annotation)
        self._cutter.is_cited |= event.annotation.get("type") == DOCUMENT_CITATION
        return b"" if citation is None else self._delta(CitationsDelta(citation))


# What frames a message, whatever is in it.
OF_MESSAGE = (events.ResponseCreated, events.ResponseCompleted, events.ResponseIncomplete, events.ResponseFailed, Heartbeat)
# What is written for each event. What is not listed has no form in this protocol: a block says it all.
WRITERS: Mapping[type[Event], Callable[..., bytes]] = {
    events.ResponseCreated: MessagesEncoder._created,
    events.ResponseCompleted: MessagesEncoder._ended,
    events.ResponseIncomplete: MessagesEncoder._ended,
    events.ResponseFailed: MessagesEncoder._failed,
    Heartbeat: MessagesEncoder._heartbeat,
    events.OutputItemAdded: MessagesEncoder._item_added,
    events.OutputItemDone: MessagesEncoder._item_done,
    events.ContentPartAdded: MessagesEncoder._part_added,
    events.ContentPartDone: MessagesEncoder._part_done,
    events.OutputTextAnnotationAdded: MessagesEncoder._annotated,
}
