"""Deltas → output items: which item each delta begins or continues, and what an engine answer ended with."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from antiphon.core.events.deltas import (
    AnnotationsDelta,
    CallDelta,
    CitedDelta,
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
from antiphon.core.events.lifecycle import EventOptions, ExtrasReceived, join_extras
from antiphon.core.items.calls import FORMS, CallState, Forms
from antiphon.core.items.enforcement import Enforcement
from antiphon.core.items.item_sequence import ItemSequence
from antiphon.core.items.item_state import ContentState, ItemState
from antiphon.core.items.messages import CompactionState, MessageState
from antiphon.core.items.reasoning import ReasoningState
from antiphon.core.items.usage import UsageCount, Written
from antiphon.core.protocols.responses.references import beside_id
from antiphon.core.stream.chat_chunks import COMPLETED, ending_of, reason_to_error
from antiphon.errors import ApiError
from antiphon.wire.responses import EngineExtras, OutputItem

# ---- Which call a piece of one belongs to: engines leave out ids or indexes, or give parallel calls the same index or id ----


class CallPieces:
    """The calls of one answer, as the engine names them."""

    def __init__(self) -> None:
        self.calls: list[CallState] = []
        self._at: dict[int, CallState] = {}
        # In the order of `calls`.
        self._numbers: dict[CallState, int] = {}
        # The latest call with an id: at any index, and at a certain one or without any.
        self._named: dict[str, CallState] = {}
        self._named_at: dict[tuple[str, int | None], CallState] = {}

    def find(self, delta: CallDelta) -> CallState | None:
        """None: it opens a call."""
        if delta.id and (known := self._with_id(delta.id, delta.index)) is not None:
            return known
        if delta.index is None:
            return None if delta.name or delta.id or not self.calls else self.calls[-1]
        occupant = self._at.get(delta.index)
        if occupant is None or (not delta.id and not delta.name):
            return occupant
        if delta.id and occupant.engine_id is not None:
            return None
        another = delta.name and occupant.name and (delta.name != occupant.name or occupant.finishable())
        return None if another else occupant

    def add(self, call: CallState) -> None:
        self._numbers[call] = len(self.calls)
        self.calls.append(call)
        if call.engine_index is not None:
            self._at[call.engine_index] = call
        self.name(call)

    def name(self, call: CallState) -> None:
        """Its id is known, from now on."""
        if call.engine_id:
            place = call.engine_id, call.engine_index
            self._named[call.engine_id] = self._later(call, self._named.get(call.engine_id))
            self._named_at[place] = self._later(call, self._named_at.get(place))

    def _with_id(self, id: str, index: int | None) -> CallState | None:
        """The latest call with this id, and no other index."""
        if index is None:
            return self._named.get(id)
        at_index, anywhere = self._named_at.get((id, index)), self._named_at.get((id, None))
        return anywhere if at_index is None else self._later(at_index, anywhere)

    def _later(self, call: CallState, other: CallState | None) -> CallState:
        return call if other is None or self._numbers[call] > self._numbers[other] else other


# ---- Which output item each delta belongs to: the registry of items that are made of deltas --------------------------
# A new output item is a class that follows one of the protocols in `item_state`, its item and its events in `wire`, and a
# row: in `ITEMS` below, by the deltas that it is made of, or in `calls.FORMS`, by the tool that it is a call of.

# Delta → the item that it belongs to. A delta that is not listed belongs to none.
Items = Mapping[type[Delta], type[ContentState]]
ITEMS: Items = {
    TextDelta: MessageState,
    CitedDelta: MessageState,
    RefusalDelta: MessageState,
    ReasoningDelta: ReasoningState,
}
# Of a response that is one sealed summary.
COMPACTED_ITEMS: Items = {TextDelta: CompactionState, RefusalDelta: CompactionState}


class Output:
    """`receive()` each delta of an engine answer, while nothing blocks the sequence; then `begin_answer()` for the next."""

    __slots__ = (
        "_answer_start",
        "_enforcement",
        "_forms",
        "_items",
        "_new_id",
        "_pieces",
        "_round_start",
        "_sequence",
        "_style",
        "_usage",
        "ending",
        "extras",
        "reason",
        "stop_sequence",
    )

    def __init__(
        self,
        sequence: ItemSequence,
        new_id: Callable[[str], str],
        style: EventOptions,
        enforcement: Enforcement,
        usage: UsageCount,
        forms: Forms = FORMS,
    ) -> None:
        # Why the engine finished its current answer, and what that means.
        self.reason: str | None = None
        self.ending = COMPLETED
        # What ended the text, if it was ended here.
        self.stop_sequence: str | None = None
        # What the answers had beside the members of the API.
        self.extras: EngineExtras | None = None
        self._sequence = sequence
        self._new_id = new_id
        self._style = style
        self._items = COMPACTED_ITEMS if style.compacts else ITEMS
        self._forms = forms
        self._enforcement = enforcement
        self._usage = usage
        # Made with the first call of an answer: most have none.
        self._pieces: CallPieces | None = None
        self._round_start = 0
        self._answer_start = 0

    # ---- one engine answer -------------------------------------------------------------------------------------------

    def begin_answer(self) -> None:
        """Another answer of the engine follows."""
        self.reason, self.ending, self.stop_sequence = None, COMPLETED, None
        self._pieces = None
        self._answer_start = len(self._sequence.opened)
        self._sequence.begin_answer()

    def begin_round(self) -> None:
        """The answers before this one are done with: what the model wrote in them is part of the history."""
        self._round_start = len(self._sequence.opened)
        self._sequence.begin_round()
        self.begin_answer()

    def start_over(self) -> None:
        """Forgets the engine's failure, because the engine is asked again. What was emitted before it stays."""
        self._sequence.start_over()
        self.begin_answer()

    @property
    def can_start_over(self) -> bool:
        """Not once the client has seen a call."""
        return not any(isinstance(state, CallState) for state in self._sequence.opened)

    @property
    def round(self) -> list[ItemState]:
        """The items of the current round, shown or not."""
        return [*self._sequence.opened[self._round_start :], *self._sequence.waiting]

    @property
    def is_round_unseen(self) -> bool:
        """The client has seen nothing of the current round."""
        return len(self._sequence.opened) == self._round_start

    @property
    def turn(self) -> list[ItemState]:
        """The items of the current round, and the calls in it that were answered without being shown, in their order."""
        states = self.round
        if not self._sequence.answered:
            return states
        for at, call in reversed(self._sequence.answered):
            states.insert(at - self._round_start, call)
        return states

    @property
    def _answer(self) -> list[ItemState]:
        """The items of the current answer, shown or not."""
        return [*self._sequence.opened[self._answer_start :], *self._sequence.waiting]

    @property
    def written(self) -> str:
        """All that the model wrote in the current answer."""
        return "".join([*self._sequence.withheld, *[state.written for state in self._answer]])

    @property
    def lengths(self) -> Written:
        total, thoughts = sum(map(len, self._sequence.withheld)), 0
        for state in self._answer:
            length = len(state.written)
            total += length
            if isinstance(state, ReasoningState):
                thoughts += length
        return Written(total, thoughts)

    @property
    def has_thought(self) -> bool:
        sequence = self._sequence
        return ReasoningState in map(type, [*sequence.opened[self._answer_start :], *sequence.waiting])

    @property
    def lone_thought(self) -> str | None:
        """The thought of an answer that has ended as it should, and is nothing else."""
        states = self._answer
        if self._sequence.error is not None or self.ending is not COMPLETED or not self.only_thought:
            return None
        return "".join(state.written for state in states) if states else None

    @property
    def only_thought(self) -> bool:
        """The answer is nothing but a thought, if the engine has shown even that."""
        withheld = self._pieces is not None or self._sequence.withheld
        return not withheld and all(isinstance(state, ReasoningState) for state in self._answer)

    @property
    def last_words(self) -> str | None:
        """The message at the end of an answer that has ended by itself. None: it has a call, shown or not, or no message."""
        if self._pieces is not None or self.ending is not COMPLETED or self.stop_sequence is not None:
            return None
        states = self._answer
        return states[-1].written if states and isinstance(states[-1], MessageState) else None

    @property
    def has_cut_call(self) -> bool:
        """The arguments of a call are not whole. Only a finish_reason says that the model itself left them so."""
        calls = (state for state in self._answer if isinstance(state, CallState))
        return any(call.written and not call.closed and not call.finishable() for call in calls)

    @property
    def items(self) -> list[OutputItem]:
        return [state.item for state in self._sequence.opened]

    @property
    def calls(self) -> list[CallState]:
        """All that the client has seen."""
        return [state for state in self._sequence.opened if isinstance(state, CallState)]

    def fail(self, error: ApiError) -> None:
        """The engine is lost. That is not an error any more once it has finished its answer."""
        if self.reason is None:
            self._sequence.fail(error)

    # ---- deltas ------------------------------------------------------------------------------------------------------

    def receive(self, delta: Delta) -> None:
        # An engine that has finished an answer which was rejected still reports its usage.
        if self._sequence.error is None or (self.reason is not None and type(delta) is UsageReport):
            _RECEIVERS[type(delta)](self, delta)

    def _receive_content(self, delta: TextDelta | RefusalDelta | ReasoningDelta) -> None:
        state_type = self._items.get(type(delta))
        if state_type is None:
            return
        sequence = self._sequence
        tail = sequence.waiting[-1] if sequence.waiting else sequence.live
        if type(tail) is state_type:
            sequence.feed(tail.receive(delta))
        elif (first := state_type.first(delta, follows_item=bool(sequence.opened))) is not None:
            check = self._enforcement.requirements.answer if isinstance(delta, TextDelta) else None
            state = state_type(self._item_id(state_type.prefix), self._style, check)
            state.receive(first)
            sequence.add(state)

    def _receive_annotations(self, delta: AnnotationsDelta) -> None:
        if isinstance(tail := self._sequence.tail, MessageState):
            self._sequence.feed(tail.annotate(delta.annotations))

    def _receive_call(self, delta: CallDelta) -> None:
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = CallPieces()
        state = pieces.find(delta)
        if state is None:
            state = self._new_call(delta, pieces)
        elif delta.id and state.engine_id is None:
            state.engine_id = delta.id
            pieces.name(state)
        if delta.name and not state.name:
            state.name = delta.name
            self._sequence.advance()
        # Only white space can follow arguments that were whole, and these have been emitted.
        if delta.arguments and not state.closed and not state.finished:
            self._sequence.feed(state.feed(delta.arguments))

    def _new_call(self, delta: CallDelta, pieces: CallPieces) -> CallState:
        state = self.make_call(partial(CallState, self._call_id(delta.id)))
        state.name = delta.name or ""
        state.engine_id = delta.id
        state.engine_index = delta.index
        pieces.add(state)
        if self._enforcement.is_full(self._sequence.waiting):
            self._enforcement.drop(state)
            return state
        if isinstance(tail := self._sequence.tail, MessageState):
            # Words before a call are not the answer yet.
            tail.waive()
        self._sequence.add(state)
        return state

    def make_call(self, make: Callable[..., CallState]) -> CallState:
        tools = self._enforcement.requirements.tools
        return make(new_id=self._item_id, tools=tools, style=self._style, forms=self._forms)

    def _item_id(self, prefix: str) -> str:
        """A new one. It says whether the model wrote the item beside a call that the gateway runs, and knew no result of it."""
        id = self._new_id(prefix)
        return beside_id(id) if self._sequence.has_hosted_call else id

    def _call_id(self, given: str | None) -> str:
        """The engine's own, unless another call has it: results are assigned to calls by their ids."""
        return self._new_id("call") if not given or given in self._sequence.call_ids else given

    def _receive_thought_end(self, delta: ThoughtEnded) -> None:
        if isinstance(self._sequence.live, MessageState) and not self._sequence.waiting:
            self._sequence.close_unchecked()

    def _receive_usage(self, delta: UsageReport) -> None:
        self._usage.current = delta.usage

    def _receive_extras(self, delta: ExtrasDelta) -> None:
        self.extras = join_extras(self.extras, delta.extras)
        self._sequence.feed([ExtrasReceived(extras=delta.extras, is_all=delta.is_all)])

    def _receive_finish(self, delta: Finished) -> None:
        # The first reason counts; engines repeat themselves.
        if not self.reason:
            self.reason, self.ending, self.stop_sequence = delta.reason, ending_of(delta.reason), delta.stop_sequence
        cut = self.ending.incomplete is not None
        if self.ending.error is not None and (error := reason_to_error(self.reason)) is not None:
            self._sequence.fail(error)
        elif not (cut and self.only_thought):
            # A thought that was cut off may be followed by another answer, and then it is no longer what is incomplete.
            self._sequence.close_items("incomplete" if cut else "completed")

    def _receive_failure(self, delta: EngineFailed) -> None:
        self.fail(delta.error)


_RECEIVERS: dict[type[Any], Callable[[Output, Any], None]] = {
    TextDelta: Output._receive_content,
    CitedDelta: Output._receive_content,
    ReasoningDelta: Output._receive_content,
    RefusalDelta: Output._receive_content,
    AnnotationsDelta: Output._receive_annotations,
    CallDelta: Output._receive_call,
    ThoughtEnded: Output._receive_thought_end,
    UsageReport: Output._receive_usage,
    ExtrasDelta: Output._receive_extras,
    Finished: Output._receive_finish,
    EngineFailed: Output._receive_failure,
}
