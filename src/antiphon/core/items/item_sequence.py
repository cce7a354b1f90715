"""The output items of a response in order: one is live, later ones wait. Events are numbered as they are made.

Items follow one another and never interleave. What belongs to a later item waits in a queue until the live one may be closed.
A check that takes its time blocks the sequence: nothing may be added until its outcome is there, so that the events are the
same however long it takes. A call that the gateway runs stays live until its result is there.
"""

from collections.abc import Iterable, Sequence

from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.core.events.lifecycle import Numbering
from antiphon.core.events.plain_deltas import AnyEvent, FastPath
from antiphon.core.items.calls import CallState
from antiphon.core.items.enforcement import SHOW, Enforcement, Verdict
from antiphon.core.items.item_state import ItemState
from antiphon.errors import ApiError, EngineDisagrees
from antiphon.wire.events import Event
from antiphon.wire.responses import Status


class ItemSequence:
    __slots__ = (
        "_checking",
        "_closing",
        "_enforcement",
        "answered",
        "call_ids",
        "check",
        "error",
        "events",
        "fast_path",
        "has_hosted_call",
        "live",
        "numbering",
        "opened",
        "waiting",
        "withheld",
    )

    def __init__(self, numbering: Numbering, enforcement: Enforcement) -> None:
        self.events: list[AnyEvent] = []
        self.error: ApiError | None = None
        self.opened: list[ItemState] = []
        self.live: ItemState | None = None
        # A list, and a dict below: a deque and a set take ten and three times the memory when they are empty, as most are.
        self.waiting: list[ItemState] = []
        # Of the calls that are shown, or wait to be.
        self.call_ids: dict[str, None] = {}
        # What the model wrote that is not shown.
        self.withheld: list[str] = []
        # The calls of this round that were answered without being shown, and before which of the opened items each was made.
        self.answered: list[tuple[int, CallState]] = []
        # A call of this round that the gateway runs was opened.
        self.has_hosted_call = False
        # The check that blocks the sequence, and the item that it is for.
        self.check: CheckWork | None = None
        self._checking: ItemState | None = None
        # Everything that there is has to be closed, the last item with this status.
        self._closing: Status | None = None
        # Where pieces go that only continue what is open.
        self.fast_path: FastPath | None = None
        self.numbering = numbering
        self._enforcement = enforcement

    @property
    def tail(self) -> ItemState | None:
        """The item that the next piece of its kind belongs to."""
        return self.waiting[-1] if self.waiting else self.live

    # ---- what others may change: why the response fails, the events that were taken, where an answer begins -----------

    def fail(self, error: ApiError) -> None:
        """The first error counts."""
        if self.error is None:
            self.error = error

    def end_with(self, error: ApiError) -> None:
        """Whatever has failed before, the response ends with this error."""
        self.error = error

    def take_events(self) -> list[AnyEvent]:
        """Those that were made since the last time."""
        events, self.events = self.events, []
        return events

    def begin_answer(self) -> None:
        self.withheld = []
        self.set_fast_path()

    def begin_round(self) -> None:
        self.answered = []
        self.has_hosted_call = False

    def start_over(self) -> None:
        """Forgets the error, and what was not emitted before it."""
        while self.waiting:
            self._forget(self.waiting.pop(0))
        self.error = None
        self.close_unchecked()

    # ---- the fast path -----------------------------------------------------------------------------------------------

    def join_pieces(self) -> None:
        """Takes less memory for what is open. To be called now and then."""
        if self.fast_path is not None:
            self.fast_path.join_pieces()

    def set_fast_path(self) -> None:
        """After each read: only an item that is live, and that nothing waits for, can be continued."""
        blocked = self.live is None or self.waiting or self.error is not None or self.check is not None
        self.fast_path = None if blocked else self.live.fast_path  # type: ignore[union-attr]

    # ---- opening and closing -----------------------------------------------------------------------------------------

    def add(self, state: ItemState) -> None:
        self.waiting.append(state)
        if isinstance(state, CallState):
            self.call_ids[state.call_id] = None
        self.advance()

    def insert_after(self, call: CallState, state: ItemState) -> None:
        """An item that comes of a call, right after it."""
        self.waiting.insert(0 if call is self.live else self.waiting.index(call) + 1, state)

    def _forget(self, state: ItemState) -> None:
        """It is not shown, so another call may have its id."""
        if isinstance(state, CallState):
            self.call_ids.pop(state.call_id, None)

    def feed(self, fed: Iterable[Event]) -> None:
        """The events of an item that got another piece; it may be whole now."""
        self.numbering.number_all(fed, self.events.append)
        if self.waiting:
            self.advance()

    def advance(self) -> None:
        """Closes the live item and opens the next ones, as far as they are ready."""
        while self.waiting and self.check is None:
            if self.live is not None and not (self.live.finishable() and self._close_live("completed")):
                return
            first = self.waiting[0]
            if not first.ready() or not (first.check is None or self._is_checked(first)):
                return
            self._show(self.waiting.pop(0))

    def close_items(self, last: Status) -> None:
        """Closes every item, in order; only what was cut off is incomplete. It may take a check or a tool: see `resume()`."""
        self._closing = last
        while self.check is None and self._close_next(last):
            pass
        if self.check is None and isinstance(self.live, CallState) and self.live.must_run:
            self._admit_waiting()

    def _close_next(self, last: Status) -> bool:
        """One step of closing; false if there is none to take now."""
        if self.live is not None:
            whole = self.waiting and self.live.finishable()
            return self._close_live("completed" if whole else last)
        if not self.waiting:
            self._closing = None
            return False
        state = self.waiting[0]
        if isinstance(state, CallState) and not state.name:
            self._forget(self.waiting.pop(0))
            if state.arguments:
                self.fail(EngineDisagrees("The engine sent a tool call without a name."))
            return True
        if last == "incomplete" and len(self.waiting) == 1:
            state.waive()
        if state.check is not None and not self._is_checked(state):
            return False
        self._show(self.waiting.pop(0))
        return True

    def close_unchecked(self) -> None:
        """The live item is not the answer: it is closed as it is."""
        if self.live is not None:
            self.live.waive()
            self._close_live("completed")

    def _show(self, state: ItemState) -> None:
        admitted = isinstance(state, CallState) and state.admitted
        verdict = SHOW if admitted else self._enforcement.judge(state)
        if verdict is SHOW:
            self.live = state
            self.opened.append(state)
            self.numbering.number_all(state.open(len(self.opened) - 1), self.events.append)
            if isinstance(state, CallState) and state.runs_here:
                self.has_hosted_call = True
        else:
            self._withhold(state, verdict, len(self.opened))

    def _withhold(self, state: ItemState, verdict: Verdict, at: int) -> None:
        """`at`: how many items there will be before the place of this one."""
        self.withheld.append(state.written)
        if verdict is Verdict.ANSWER and isinstance(state, CallState):
            # The model sees it again, by its id.
            self.answered.append((at, state))
            return
        self._forget(state)
        if verdict is Verdict.FAIL and (failure := self._enforcement.failure) is not None:
            self.fail(failure)

    def _admit_waiting(self) -> None:
        """The calls behind the live one that the gateway runs, too, are run at the same time. So they are checked and judged
        now, before it is their turn to be shown."""
        for state in list(self.waiting):
            if not isinstance(state, CallState) or not state.must_run or state.admitted:
                continue
            if not self._is_checked(state):
                return
            verdict = self._enforcement.judge(state)
            if verdict is SHOW:
                state.admitted = True
            else:
                at = self.waiting.index(state)
                del self.waiting[at]
                self._withhold(state, verdict, len(self.opened) + at)

    def _close_live(self, status: Status) -> bool:
        """False: a check or a tool comes first."""
        state = self.live
        assert state is not None
        if isinstance(state, CallState) and state.must_run:
            if status == "completed" and self.error is None and self._closing != "incomplete":
                if not state.finished:
                    self.numbering.number_all(state.finish(status), self.events.append)
                    self._enforcement.judge_whole(state)
                if state.must_run:
                    return False
            else:
                # Its result would be of no use.
                status = "incomplete"
        if status == "completed" and state.check is not None:
            if not self._is_checked(state, streamed=True):
                return False
            if (broken := self._enforcement.streamed_complaint(state)) is not None:
                self.fail(broken)
                status = "incomplete"
        self.numbering.number_all(state.close(status), self.events.append)
        self.live = None
        return True

    def abandon(self) -> None:
        """Closes everything as it is: no check and no tool is waited for. What must be checked first is not shown at all."""
        self.check = self._checking = self._closing = self.fast_path = None
        while self.live is not None or self.waiting:
            if self.live is not None:
                self.numbering.number_all(self.live.close("incomplete"), self.events.append)
                self.live = None
                continue
            state = self.waiting.pop(0)
            if state.ready() and not _needs_check(state, streamed=False):
                self._show(state)

    # ---- what blocks it ----------------------------------------------------------------------------------------------

    def _is_checked(self, state: ItemState, *, streamed: bool = False) -> bool:
        """Asks for the check of a buffered item before it is shown, and of a streamed one before it is closed."""
        if state.check is None or not _needs_check(state, streamed=streamed):
            return True
        self.check, self._checking = state.check.work(state.checked_text), state
        return False

    def checked(self, outcome: CheckOutcome) -> None:
        assert self._checking is not None
        self._checking.outcome = outcome
        self.check = self._checking = None
        self.resume()

    def calls_to_run(self) -> Sequence[CallState]:
        """The calls that the gateway can run now: the live one, and those behind it that were admitted."""
        live = self.live
        # A call whose arguments are not whole yet is not run; nor is anything that waits behind it.
        if not isinstance(live, CallState) or not live.finished or not live.must_run:
            return ()
        behind = (state for state in self.waiting if isinstance(state, CallState) and state.admitted and state.must_run)
        return [live, *behind]

    def resume(self) -> None:
        """Continues where it was blocked."""
        if self._closing is not None:
            self.close_items(self._closing)
        else:
            self.advance()


def _needs_check(state: ItemState, *, streamed: bool) -> bool:
    """`streamed`: of an item that was emitted as it came. Otherwise of one that is buffered."""
    check = state.check
    return check is not None and state.outcome is None and check.buffered is not streamed
