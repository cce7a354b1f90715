"""Deltas → numbered events → the response object.

This is the only place that numbers events and assigns output indexes. Items follow one another and never interleave: one item
is live, and what belongs to a later one waits in a queue until the live one may be closed. The answer that is not streamed, the
stream, and everything else that comes of a response drain this one machine.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from antiphon.core.call_pieces import CallPieces
from antiphon.core.calls import CallState
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
from antiphon.core.demands import NO_DEMANDS, Demands
from antiphon.core.endings import COMPLETED, TERMINAL, beginning, ending_of, summed
from antiphon.core.event_style import Lane, Style, encode_text
from antiphon.core.faults import Refusal, State, fault_of, is_full, missing_of
from antiphon.core.output_items import CompactionState, MessageState, ReasoningState, RefusalPart, TextPart
from antiphon.errors import AnswerInvalid, ApiError, Cancelled, EngineDisagrees, EngineError
from antiphon.wire import events
from antiphon.wire.events import Event
from antiphon.wire.responses import (
    IncompleteDetails,
    Logprob,
    Response,
    ResponseError,
    Status,
    Usage,
)

# The code of the error for an answer that the engine was to hold to a schema, and did not.
SCHEMA_NOT_KEPT = "schema_not_kept"


class Translator:
    """`start()`, then `receive()` each delta, then `close()`; the events gather in `out`."""

    def __init__(
        self,
        response: Response,
        *,
        new_id: Callable[[str], str],
        encode: Callable[[Event], bytes],
        style: Style,
        demands: Demands = NO_DEMANDS,
        asks_again: bool = False,
    ) -> None:
        self.response = response
        self.usage: Usage | None = None
        self.error: ApiError | None = None
        self._new_id = new_id
        self._encode = encode
        self._style = style
        self.demands = demands
        self._asks_again = asks_again
        self._spent: Usage | None = None
        self._refused: Refusal | None = None
        # Encoded events, for whoever writes them to take away.
        self.out: list[bytes] = []
        self._lane: Lane | None = None
        self._count = 0
        self._opened: list[State] = []
        self._live: State | None = None
        self._queue: deque[State] = deque()
        self._pieces = CallPieces()
        # Those past the limit: their pieces are collected, so that they do not land in another call, but nobody is told.
        self._left_out: list[CallState] = []
        self._reason: str | None = None
        self._closed = False
        self._receivers: dict[type[Any], Callable[[Any], None]] = {
            TextDelta: self._receive_text,
            ReasoningDelta: self._receive_reasoning,
            CallDelta: self._receive_call,
            RefusalDelta: self._receive_refusal,
            ThoughtEnded: self._receive_thought_ended,
            UsageReport: self._receive_usage,
            Finished: self._receive_finished,
            EngineFailed: self._receive_failure,
        }

    # ---- the life of a response --------------------------------------------------------------------------------------

    def start(self) -> None:
        self._emit(beginning(self.response))
        self.response.status = "in_progress"
        self._emit((events.ResponseInProgress(response=self.response),))

    def heartbeat(self) -> None:
        """Says again that the response is in progress: comments do not reset a client's idle timer, this does."""
        if not self._closed:
            self._emit((events.ResponseInProgress(response=self.response),))

    def receive(self, delta: Delta) -> None:
        if self.error is None and not self._closed:
            self._receivers[type(delta)](delta)
            self._lane = None if self._live is None or self._queue or self.error else self._live.lane

    def goes_on(self, kind: type[Delta], text: str, index: int | None = None) -> bool:
        """Takes a piece that only goes on with what is open; false if it does not, and has to be received as a delta."""
        lane = self._lane
        if lane is None or lane.kind is not kind or lane.index != index:
            return False
        lane.pieces.append(text)
        encoded = encode_text(text)
        for head, tail in lane.templates:
            self.out.append(head + encoded + tail % self._count)
            self._count += 1
        return True

    def fail(self, error: ApiError) -> None:
        """The engine is lost. Not an error any more once it has said why it finished."""
        if self._reason is None and self.error is None:
            self.error = error
            self._lane = None

    def close(self, *, now: int, ended: bool = True, estimate: Usage | None = None) -> None:
        """Makes the one terminal event. `ended`: the engine said so; otherwise only a finish_reason counts as an end."""
        if self._closed:
            return
        # It is too late to ask for anything again: what is still waiting is shown as it is.
        self._asks_again = False
        if not ended:
            self.fail(EngineDisagrees("The engine's stream ended before the answer did."))
        ending = ending_of(self._reason)
        self._close_items("incomplete" if self.error or ending.incomplete else "completed")
        if self.error is None and (owed := self._owed()) is not None:
            self.error = AnswerInvalid(f"The model was asked twice, and {owed}.")
        if self._style.compacts and not self._opened and self.error is None:
            self.error = EngineError("The engine gave no summary of the conversation.")
        self._closed = True
        self._lane = None
        self.response.output = [state.item for state in self._opened]
        if self.error is not None:
            self._end_failed(self.error)
        elif ending.incomplete:
            self._end("incomplete", estimate)
        else:
            self.response.completed_at = now
            self._end("completed", estimate)

    def retract(self, error: ApiError) -> None:
        """Makes the response that has just ended a failed one: its terminal event is the last in `out`, and not written yet."""
        self.out.pop()
        self._count -= 1
        self.error = error
        self.response.completed_at = self.response.incomplete_details = None
        self._end_failed(error)

    def written(self) -> str:
        """All that the model wrote so far, for counting."""
        return "".join(state.written for state in [*self._opened, *self._queue])

    @property
    def left_out(self) -> int:
        """How many calls the model made beyond those that the response may have."""
        # A placeholder that was never filled is no call.
        return sum(1 for call in self._left_out if call.written)

    def refusal(self, *, ended: bool) -> Refusal | None:
        """What to ask the model for once more, now that the engine has said all that it will say."""
        whole = self.error is None and (ended or self._reason is not None)
        if whole and self._asks_again and (owed := self._owed()) is not None:
            self._asks_again = False
            self._refused = Refusal(owed, words=self.written())
        return None if self.error is not None else self._refused

    def _owed(self) -> str | None:
        """What an answer that is at its end should have had."""
        if self._refused is not None or ending_of(self._reason) is not COMPLETED:
            return None
        return missing_of(self._opened, self.demands)

    @property
    def can_start_over(self) -> bool:
        """Not once the client has been told of a call."""
        return not any(isinstance(state, CallState) for state in self._opened)

    def start_over(self) -> None:
        """Forgets the engine's failure, because it is asked again."""
        self._queue.clear()
        if self._live is not None:
            # What was said before is whole as far as it goes; it is not the answer.
            self._live.waive()
            self._close_live("completed")
        self.error = None
        self.go_on()

    def go_on(self) -> None:
        """Another answer of the engine follows, in place of what was refused."""
        self._refused = None
        self._reason = None
        self._pieces = CallPieces()
        self._spent, self.usage = self.usage, None

    # ---- deltas ------------------------------------------------------------------------------------------------------

    def _receive_text(self, delta: TextDelta) -> None:
        tail = self._tail()
        if isinstance(tail, MessageState):
            self._feed(tail, tail.feed(TextPart, delta.text, delta.logprobs))
            return
        # Engines put line breaks between a thought and what follows it; a message does not begin with them, and white space
        # between two calls is none.
        text = delta.text.lstrip("\r\n")
        if text and not (text.isspace() and self._opened):
            self._message(TextPart, text, delta.logprobs)

    def _receive_refusal(self, delta: RefusalDelta) -> None:
        tail = self._tail()
        if isinstance(tail, MessageState):
            self._feed(tail, tail.feed(RefusalPart, delta.text))
        else:
            self._message(RefusalPart, delta.text, None)

    def _receive_reasoning(self, delta: ReasoningDelta) -> None:
        if self._style.compacts:
            return
        tail = self._tail()
        if type(tail) is ReasoningState:
            self._feed(tail, tail.feed(delta.text))
            return
        if text := delta.text.lstrip():
            state = ReasoningState(self._new_id("rs"), self._style, self._encode)
            state.feed(text)
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
        # Only white space can follow arguments that were whole, and the client has been told that they were.
        if delta.arguments and not state.closed:
            self._feed(state, state.feed(delta.arguments))

    def _receive_thought_ended(self, delta: ThoughtEnded) -> None:
        if self._live is not None and not self._queue:
            self._close_live("completed")

    def _receive_usage(self, delta: UsageReport) -> None:
        self.usage = delta.usage

    def _receive_finished(self, delta: Finished) -> None:
        # The first word counts; what an engine says after it is an echo.
        self._reason = self._reason or delta.reason
        ending = ending_of(self._reason)
        self._close_items("incomplete" if ending.incomplete or ending.error else "completed")
        if ending.error:
            self.error = self.error or EngineError(ending.error)

    def _receive_failure(self, delta: EngineFailed) -> None:
        self.fail(delta.error)

    # ---- items -------------------------------------------------------------------------------------------------------

    def _tail(self) -> State | None:
        return self._queue[-1] if self._queue else self._live

    def _message(self, kind: type[TextPart] | type[RefusalPart], text: str, logprobs: list[Logprob] | None) -> None:
        if self._style.compacts:
            state: MessageState = CompactionState(self._new_id("cmp"), self._style, self._encode)
        else:
            check = self.demands.answer if kind is TextPart else None
            state = MessageState(self._new_id("msg"), self._style, self._encode, check)
        state.feed(kind, text, logprobs)
        self._begin(state)

    def _begin(self, state: State) -> None:
        self._queue.append(state)
        self._advance()

    def _advance(self) -> None:
        while self._queue:
            if self._live is not None:
                if not self._live.finishable():
                    return
                self._close_live("completed")
            if not self._queue[0].ready():
                return
            self._show(self._queue.popleft())

    def _feed(self, state: State, fed: Iterable[Event]) -> None:
        self._emit(fed)
        if self._queue:
            self._advance()

    def _show(self, state: State) -> None:
        """Opens an item, unless it is one that the model is to be asked for again, or that nobody may see."""
        if isinstance(state, CallState) and is_full(self._opened, self.demands, self._refused):
            # One whose name came late did not count while others were let in.
            self._left_out.append(state)
            return
        fault = fault_of(state, self.demands)
        if fault is not None and self._asks_again:
            self._asks_again = False
            call = state if isinstance(state, CallState) else None
            self._refused = Refusal(fault.complaint, call, "" if call else state.written)
        elif fault is not None and fault.binding:
            self.error = self.error or AnswerInvalid(f"The model gave no valid answer, though asked twice: {fault.complaint}.")
        else:
            self._open(state)

    def _open(self, state: State) -> None:
        self._live = state
        self._opened.append(state)
        self._emit(state.open(len(self._opened) - 1))

    def _close_live(self, status: Status) -> None:
        assert self._live is not None
        check = self._live.check
        if status == "completed" and check is not None and not check.held and (wrong := check.complaint(self._live.checked)):
            # It was told as it came, because the engine was to hold it to its schema.
            self.error = self.error or AnswerInvalid(
                f"The engine did not hold the answer to its schema: {wrong}.", code=SCHEMA_NOT_KEPT
            )
            status = "incomplete"
        self._emit(self._live.close(status))
        self._live = None

    def _close_items(self, last: Status) -> None:
        """Ends every item, in order; only what was cut off is incomplete."""
        while self._live is not None or self._queue:
            if self._live is not None:
                whole = self._queue and self._live.finishable()
                self._close_live("completed" if whole else last)
            elif not isinstance(self._queue[0], CallState) or self._queue[0].name:
                state = self._queue.popleft()
                if last == "incomplete" and not self._queue:
                    state.waive()
                self._show(state)
            elif self._drop_nameless() and self.error is None:
                self.error = EngineDisagrees("The engine sent a tool call without a name.")

    def _drop_nameless(self) -> bool:
        """Takes a call that never got its name out of the queue; true if it was more than an empty placeholder."""
        call = self._queue.popleft()
        return isinstance(call, CallState) and bool(call.arguments)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _new_call(self, delta: CallDelta) -> CallState:
        state = CallState(
            delta.id or self._new_id("call"),
            new_id=self._new_id,
            tools=self.demands.tools,
            style=self._style,
            encode=self._encode,
        )
        state.name = delta.name or ""
        state.engine_id = delta.id
        state.engine_index = delta.index
        self._pieces.add(state)
        if is_full((*self._opened, *self._queue), self.demands, self._refused):
            self._left_out.append(state)
            return state
        if isinstance(tail := self._tail(), MessageState):
            # Words before a call are not the answer yet.
            tail.waive()
        self._begin(state)
        return state

    # ---- events ------------------------------------------------------------------------------------------------------

    def _emit(self, made: Iterable[Event]) -> None:
        for event in made:
            event.sequence_number = self._count
            self._count += 1
            self.out.append(self._encode(event))

    def _end(self, status: str, estimate: Usage | None) -> None:
        self.response.status = status
        self.response.usage = summed(self._spent, self.usage or estimate)
        if status == "incomplete":
            self.response.incomplete_details = IncompleteDetails(ending_of(self._reason).incomplete or "")
        self._emit((TERMINAL[status](response=self.response),))

    def _end_failed(self, error: ApiError) -> None:
        self.response.usage = self.usage
        if isinstance(error, Cancelled):
            self.response.status = "cancelled"
            self._emit((TERMINAL["cancelled"](response=self.response),))
            return
        self.response.status = "failed"
        self.response.error = ResponseError(code=error.event_code, message=error.message)
        self._emit((events.ResponseFailed(response=self.response),))
