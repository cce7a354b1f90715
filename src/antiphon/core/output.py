"""The output of a response, in order: deltas in, numbered events out.

Items follow one another and never interleave. One item is live; what belongs to a later one waits in a queue until the live
one may be closed. A check that takes its time blocks the output: nothing is received until its outcome is there, so that the
events are the same however long it takes. A call that the gateway runs stays live until its result is there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from antiphon.core.call_pieces import CallPieces
from antiphon.core.calls import FORMS, CallState, Forms
from antiphon.core.check_work import CheckOutcome, CheckWork
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
from antiphon.core.enforcement import Enforcement, Verdict
from antiphon.core.event_style import EventStyle
from antiphon.core.fast_path import AnyEvent, FastPath
from antiphon.core.finish_reasons import ending_of, reason_to_error
from antiphon.core.item_state import ItemState
from antiphon.core.messages import MessageState
from antiphon.core.numbering import Numbering
from antiphon.core.output_items import COMPACTED_ITEMS, ITEMS
from antiphon.core.usage import UsageCount
from antiphon.errors import ApiError, EngineDisagrees
from antiphon.wire.events import Event
from antiphon.wire.responses import OutputItem, Status


class Output:
    """`receive()` each delta while nothing blocks; the events collect in `events`."""

    def __init__(
        self,
        *,
        new_id: Callable[[str], str],
        style: EventStyle,
        enforcement: Enforcement,
        numbering: Numbering,
        usage: UsageCount,
        forms: Forms = FORMS,
    ) -> None:
        self.events: list[AnyEvent] = []
        self.error: ApiError | None = None
        # Why the engine finished its current answer.
        self.reason: str | None = None
        self.opened: list[ItemState] = []
        self.check: CheckWork | None = None
        self._new_id = new_id
        self._style = style
        self._items = COMPACTED_ITEMS if style.compacts else ITEMS
        self._forms = forms
        self._enforcement = enforcement
        self._numbering = numbering
        self._number_delta = numbering.delta
        self._usage = usage
        self._checking: ItemState | None = None
        self._fast_path: FastPath | None = None
        self._live: ItemState | None = None
        self._queue: deque[ItemState] = deque()
        self._pieces = CallPieces()
        # Everything that there is has to be closed, the last item with this status.
        self._closing: Status | None = None
        self._round_start = 0
        self._answer_start = 0
        # What the model wrote in the current answer, and what is not shown.
        self._withheld: list[str] = []

    # ---- one engine answer -------------------------------------------------------------------------------------------

    def begin_answer(self) -> None:
        """Another answer of the engine follows."""
        self.reason = None
        self._pieces = CallPieces()
        self._fast_path = None
        self._answer_start = len(self.opened)
        self._withheld.clear()

    def begin_round(self) -> None:
        """The answers before this one are done with: what the model wrote in them is part of the history."""
        self._round_start = len(self.opened)
        self.begin_answer()

    def start_over(self) -> None:
        """Forgets the engine's failure, because the engine is asked again."""
        self._queue.clear()
        self.error = None
        if self._live is not None:
            # What was emitted before the failure stays. It is not the answer.
            self._live.waive()
            self._close_live("completed")
        self.begin_answer()

    @property
    def can_start_over(self) -> bool:
        """Not once the client has seen a call."""
        return not any(isinstance(state, CallState) for state in self.opened)

    @property
    def round(self) -> list[ItemState]:
        """The items of the current round, shown or not."""
        return [*self.opened[self._round_start :], *self._queue]

    @property
    def written(self) -> str:
        """All that the model wrote in the current answer."""
        states = [*self.opened[self._answer_start :], *self._queue]
        return "".join([*self._withheld, *(state.written for state in states)])

    @property
    def items(self) -> list[OutputItem]:
        return [state.item for state in self.opened]

    # ---- deltas ------------------------------------------------------------------------------------------------------

    def receive(self, delta: Delta) -> None:
        # An engine that has finished an answer which was rejected still reports its usage.
        if self.error is None or (self.reason is not None and type(delta) is UsageReport):
            _RECEIVERS[type(delta)](self, delta)
            self._fast_path = None if self._live is None or self._queue or self.error or self.check else self._live.fast_path

    def continue_part(self, kind: type[Delta], text: str, index: int | None = None) -> bool:
        """The fast path: a piece that only continues what is open. False: it has to be received as a delta."""
        path = self._fast_path
        if path is None or path.kind is not kind or path.index != index:
            return False
        path.pieces.append(text)
        for template in path.templates:
            self.events.append(self._number_delta(template, text))
        return True

    def fail(self, error: ApiError) -> None:
        """The engine is lost. That is not an error any more once it has finished its answer."""
        if self.reason is None and self.error is None:
            self.error = error
            self._fast_path = None

    def _receive_content(self, delta: TextDelta | RefusalDelta | ReasoningDelta) -> None:
        state_type = self._items.get(type(delta))
        if state_type is None:
            return
        tail = self._tail()
        if type(tail) is state_type:
            self._feed(tail.receive(delta))
        elif (first := state_type.first(delta, follows_item=bool(self.opened))) is not None:
            check = self._enforcement.requirements.answer if type(delta) is TextDelta else None
            state = state_type(self._new_id(state_type.prefix), self._style, check)
            state.receive(first)
            self._begin(state)

    def _receive_call(self, delta: CallDelta) -> None:
        state = self._pieces.find(delta)
        if state is None:
            state = self._new_call(delta)
        elif delta.id and state.engine_id is None:
            state.engine_id = delta.id
        if delta.name and not state.name:
            state.name = delta.name
            self._advance()
        # Only white space can follow arguments that were whole, and these have been emitted.
        if delta.arguments and not state.closed and not state.finished:
            self._feed(state.feed(delta.arguments))

    def _receive_thought_end(self, delta: ThoughtEnded) -> None:
        live = self._live
        if isinstance(live, MessageState) and not self._queue:
            # It was a thought, and not the answer.
            live.waive()
            self._close_live("completed")

    def _receive_usage(self, delta: UsageReport) -> None:
        self._usage.report(delta.usage)

    def _receive_finish(self, delta: Finished) -> None:
        # The first reason counts; engines repeat themselves.
        self.reason = self.reason or delta.reason
        self.error = reason_to_error(self.reason)
        if self.error is None:
            self.close_items("incomplete" if ending_of(self.reason).incomplete else "completed")

    def _receive_failure(self, delta: EngineFailed) -> None:
        self.fail(delta.error)

    # ---- items -------------------------------------------------------------------------------------------------------

    def _tail(self) -> ItemState | None:
        return self._queue[-1] if self._queue else self._live

    def _new_call(self, delta: CallDelta) -> CallState:
        state = CallState(
            delta.id or self._new_id("call"),
            new_id=self._new_id,
            tools=self._enforcement.requirements.tools,
            style=self._style,
            forms=self._forms,
        )
        state.name = delta.name or ""
        state.engine_id = delta.id
        state.engine_index = delta.index
        self._pieces.add(state)
        if self._enforcement.is_full(self._queue):
            self._enforcement.drop(state)
            return state
        if isinstance(tail := self._tail(), MessageState):
            # Words before a call are not the answer yet.
            tail.waive()
        self._begin(state)
        return state

    def _begin(self, state: ItemState) -> None:
        self._queue.append(state)
        self._advance()

    def _feed(self, fed: Iterable[Event]) -> None:
        self._emit(fed)
        if self._queue:
            self._advance()

    def _advance(self) -> None:
        """Closes the live item and opens the next ones, as far as they are ready."""
        while self._queue and self.check is None:
            if self._live is not None and not (self._live.finishable() and self._close_live("completed")):
                return
            if not self._queue[0].ready() or not self._is_checked(self._queue[0]):
                return
            self._show(self._queue.popleft())

    def close_items(self, last: Status) -> None:
        """Closes every item, in order; only what was cut off is incomplete. It may take a check or a tool: see `resume()`."""
        self._closing = last
        while self.check is None and self._close_next(last):
            pass

    def _close_next(self, last: Status) -> bool:
        """One step of closing; false if there is none to take now."""
        if self._live is not None:
            whole = self._queue and self._live.finishable()
            return self._close_live("completed" if whole else last)
        if not self._queue:
            self._closing = None
            return False
        state = self._queue[0]
        if isinstance(state, CallState) and not state.name:
            self._queue.popleft()
            if state.arguments and self.error is None:
                self.error = EngineDisagrees("The engine sent a tool call without a name.")
            return True
        if last == "incomplete" and len(self._queue) == 1:
            state.waive()
        if not self._is_checked(state):
            return False
        self._show(self._queue.popleft())
        return True

    def _show(self, state: ItemState) -> None:
        verdict = self._enforcement.judge(state)
        if verdict is Verdict.SHOW:
            self._live = state
            self.opened.append(state)
            self._emit(state.open(len(self.opened) - 1))
            return
        self._withheld.append(state.written)
        if verdict is Verdict.FAIL:
            self.error = self.error or self._enforcement.failure

    def _close_live(self, status: Status) -> bool:
        """False: a check or a tool comes first."""
        state = self._live
        assert state is not None
        if isinstance(state, CallState) and state.must_run:
            if status == "completed" and self.error is None and self._closing != "incomplete":
                self._emit(() if state.finished else state.finish(status))
                return False
            # Its result would be of no use.
            status = "incomplete"
        if status == "completed" and not self._is_checked(state, streamed=True):
            return False
        if status == "completed" and (broken := self._enforcement.streamed_complaint(state)) is not None:
            self.error = self.error or broken
            status = "incomplete"
        self._emit(state.close(status))
        self._live = None
        return True

    # ---- what blocks it ----------------------------------------------------------------------------------------------

    @property
    def running(self) -> CallState | None:
        """The live call that waits for its result."""
        live = self._live
        return live if isinstance(live, CallState) and live.finished and live.result is None else None

    def _is_checked(self, state: ItemState, *, streamed: bool = False) -> bool:
        """Asks for the check of a buffered item before it is shown, and of a streamed one before it is closed."""
        check = state.check
        if check is None or state.outcome is not None or check.buffered is streamed:
            return True
        self.check, self._checking = check.work(state.checked_text), state
        return False

    def checked(self, outcome: CheckOutcome) -> None:
        assert self._checking is not None
        self._checking.outcome = outcome
        self.check = self._checking = None
        self.resume()

    def calls_to_run(self) -> Sequence[CallState]:
        """The calls that the gateway can run now: the live one, and those in the queue that need no check first."""
        waiting = [state for state in self._queue if isinstance(state, CallState) and state.must_run and state.ready()]
        unchecked = [state for state in waiting if state.check is None]
        return [state for state in (self.running, *unchecked) if state is not None]

    def resume(self) -> None:
        """Continues where it was blocked."""
        if self._closing is not None:
            self.close_items(self._closing)
        else:
            self._advance()

    def abandon(self) -> None:
        """Closes everything as it is: no check and no tool is waited for. What must be checked first is not shown at all."""
        self.check = self._checking = self._closing = self._fast_path = None
        while self._live is not None or self._queue:
            if self._live is not None:
                self._emit(self._live.close("incomplete"))
                self._live = None
            elif self._queue[0].ready():
                self._show(self._queue.popleft())
            else:
                self._queue.popleft()

    def _emit(self, made: Iterable[Event]) -> None:
        number = self._numbering.number
        self.events.extend(number(event) for event in made)


_RECEIVERS: dict[type[Any], Callable[[Output, Any], None]] = {
    TextDelta: Output._receive_content,
    ReasoningDelta: Output._receive_content,
    RefusalDelta: Output._receive_content,
    CallDelta: Output._receive_call,
    ThoughtEnded: Output._receive_thought_end,
    UsageReport: Output._receive_usage,
    Finished: Output._receive_finish,
    EngineFailed: Output._receive_failure,
}
