"""What may be shown of an answer, what is withheld, and what the model is asked for again."""

from collections.abc import Hashable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct, field

from antiphon.core.items.calls import CallState, LeftOutCalls, RunHistory
from antiphon.core.items.item_state import ItemState
from antiphon.core.items.messages import MessageState
from antiphon.core.toolbox.prompt_texts import (
    BAD_CALL,
    CALLED_AGAIN,
    MADE_ALREADY,
    NO_CALLS_LEFT,
    NO_SUCH_TOOL,
    NO_TOOLS_LEFT,
)
from antiphon.core.toolbox.requirements import NO_REQUIREMENTS, Requirements
from antiphon.core.toolbox.tools import LONGEST_NAME, ToolResult
from antiphon.errors import AnswerInvalid, NotConstrained

NO_CALLS = "the 0 that may be made"
ONE_CALL = "the 1 that may be made, because parallel_tool_calls is false"
NOT_CHECKED = "The answer could not be checked against its schema in time."

# Why a call was not run, in a notice.
UNKNOWN = "there is no such tool, or it may not be called"
UNFIT = "its arguments do not fit the tool"
BEYOND_LIMIT = "max_tool_calls allows {most}"
# A model that calls a tool that is not there is shown so many of those that are.
MOST_NAMES = 40


class Verdict(Enum):
    SHOW = "emit the item"
    DROP = "a call that is not wanted: collect its pieces, emit nothing"
    ANSWER = "a call that is not run: the model gets the reason as its result, emit nothing"
    REJECT = "ask the model for it again, emit nothing"
    FAIL = "rather no answer than this one"


# Looked up once: it is the verdict on nearly every item.
SHOW = Verdict.SHOW


class Rejection(NamedTuple):
    """What the model is asked for again, and why. Without a call, its answer in words was rejected."""

    complaint: str
    call: CallState | None = None
    words: str = ""


class Enforcement(Struct, eq=False):
    """Measures one engine answer after another by the requirements. Each may be asked for again once."""

    # An answer may be rejected at all, and now.
    _rejects: bool
    _may_reject: bool
    requirements: Requirements = NO_REQUIREMENTS
    rejection: Rejection | None = None
    # Why an item must not be shown, although it cannot be asked for again.
    failure: AnswerInvalid | None = None
    # What was emitted because the engine should have constrained it, and is wrong.
    not_constrained: ItemState | None = None
    _shown_in_round: int = 0
    # The calls of this round that are not run.
    _answered: list[CallState] = []
    # The calls of this answer, by their names and arguments, where each is made once.
    _made: set[Hashable] = set()
    runs: RunHistory = field(default_factory=RunHistory)
    left_out: LeftOutCalls = field(default_factory=LeftOutCalls)

    def begin_answer(self, requirements: Requirements) -> None:
        self.requirements = requirements
        self.rejection = None
        self._made.clear()

    def stop_rejecting(self) -> None:
        """It is too late to ask for anything again: what is left is shown as it is, or fails."""
        self._may_reject = False

    def begin_round(self) -> None:
        """What was required of the answers before this one has been done."""
        self._may_reject = self._rejects
        self._shown_in_round = 0
        self._answered = []
        self.runs.begin_round()

    # ---- one item ----------------------------------------------------------------------------------------------------

    def judge(self, state: ItemState) -> Verdict:
        """Of an item that is about to be emitted, and was checked."""
        if state.check is None and not isinstance(state, CallState):
            # Nothing is required of a thought, nor of words that may be anything.
            return SHOW
        verdict = self._judge(state)
        if verdict is SHOW and isinstance(state, CallState):
            self._shown_in_round += 1
            if state.must_run:
                self.runs.start(state)
            if state.outcome is not None and state.outcome.unfinished:
                self.left_out.add_unchecked(state)
        return verdict

    def _judge(self, state: ItemState) -> Verdict:
        if isinstance(state, CallState) and self.is_full():
            # Its name came late, so it did not count while others were admitted.
            self.drop(state)
            return Verdict.DROP
        if isinstance(state, CallState) and self.rejection is not None:
            # The model is asked again, and would make this call a second time, or in another order.
            self.left_out.add_after_rejected()
            return Verdict.DROP
        if isinstance(state, CallState) and self.requirements.hosted and self._is_answered(state):
            return Verdict.ANSWER
        if _could_not_be_checked(state):
            # The model need not be at fault: it is not asked again.
            self.failure = AnswerInvalid(NOT_CHECKED)
            return Verdict.FAIL
        if isinstance(state, CallState) and self.requirements.once and not self._is_new(state):
            self.left_out.add_twice(state)
            return Verdict.DROP
        complaint, binding = self._complaint(state)
        if complaint is None:
            return SHOW
        if isinstance(state, CallState) and self._shown_in_round and self._is_withheld(state):
            # Asked again, the model would make the call beside it once more.
            self.left_out.add_looping(state)
            return Verdict.DROP
        if self._may_reject:
            call = state if isinstance(state, CallState) else None
            self._reject(Rejection(complaint, call, "" if call else state.written))
            return Verdict.REJECT
        if not binding:
            return SHOW
        if isinstance(state, CallState) and self._is_in_loop(state):
            self.left_out.add_looping(state)
            return Verdict.DROP
        if isinstance(state, CallState) and self.requirements.hosted:
            self._answer(state, BAD_CALL.format(complaint=complaint), UNFIT)
            return Verdict.ANSWER
        self.failure = AnswerInvalid(f"The model gave no valid answer in two attempts: {complaint}.")
        return Verdict.FAIL

    def _complaint(self, state: ItemState) -> tuple[str | None, bool]:
        """What is wrong with the item, beyond repair; and whether it must not be shown."""
        only = self.requirements.only
        if isinstance(state, CallState) and (reason := self._reason_against(state)) is not None:
            # It is shown where a call is required: any call is what the client asked for.
            return reason, not self.requirements.must_call
        if isinstance(state, CallState) and only is not None and not self.requirements.allows(state.name):
            return f"{state.name} is not among the tools that may be called: {', '.join(sorted(only))}", True
        if isinstance(state, CallState) and self._is_made(state):
            return MADE_ALREADY, True
        check, outcome = state.check, state.outcome
        if check is None or not check.buffered or outcome is None:
            return None, False
        return outcome.complaint, check.binding

    def _is_new(self, call: CallState) -> bool:
        """In this answer."""
        key = self.requirements.key_of(call.name, call.arguments)
        is_new = key not in self._made
        self._made.add(key)
        return is_new

    def _is_in_loop(self, call: CallState) -> bool:
        """Tools are withheld, and it is not one of those that are left. The response does not fail for that."""
        required = self.requirements
        if self._is_made(call):
            return True
        if not required.withheld or required.must_call:
            return False
        return self._reason_against(call) is not None or not required.allows(call.name)

    def _is_withheld(self, call: CallState) -> bool:
        return self._reason_against(call) is not None or self._is_made(call)

    def _is_made(self, call: CallState) -> bool:
        """It has succeeded before. What the gateway runs itself is counted by `runs`."""
        return not call.runs_here and self.requirements.is_made(call.name, call.arguments)

    def _reason_against(self, call: CallState) -> str | None:
        return self.requirements.reason_against(call.name, call.arguments) if self.requirements.withheld else None

    def streamed_complaint(self, state: ItemState) -> AnswerInvalid | None:
        """What is wrong with an item that was emitted as it came, because the engine should have constrained it."""
        check, outcome = state.check, state.outcome
        if check is None or check.buffered or outcome is None:
            return None
        if outcome.unfinished:
            return AnswerInvalid(NOT_CHECKED)
        if outcome.complaint is None:
            return None
        self.not_constrained = state
        return NotConstrained(f"The engine did not constrain the answer to its schema: {outcome.complaint}.")

    # ---- calls that are not run --------------------------------------------------------------------------------------

    def _is_answered(self, call: CallState) -> bool:
        """Where the gateway runs tools, the model reads what is wrong with its call, and goes on."""
        required = self.requirements
        if not required.knows(call.name) or not (required.withheld or required.allows(call.name)):
            words = NO_SUCH_TOOL if required.offered else NO_TOOLS_LEFT
            names = ", ".join(required.offered[:MOST_NAMES])
            self._answer(call, words.format(name=call.name[:LONGEST_NAME], names=names), UNKNOWN)
        elif not call.runs_here:
            return False
        elif call.outcome is not None and call.outcome.complaint is not None:
            self._answer(call, BAD_CALL.format(complaint=call.outcome.complaint), UNFIT)
        elif required.most_runs is not None and self.runs.count >= required.most_runs:
            self._answer_beyond(call, required.most_runs)
        elif not call.opens_early and (why := self.runs.repetition(call)) is not None:
            self._answer_repeated(call, why)
        else:
            return False
        return True

    def _answer_repeated(self, call: CallState, why: str) -> None:
        self.runs.is_loop = True
        self._answer(call, CALLED_AGAIN, why)

    def judge_whole(self, call: CallState) -> None:
        """Of a call that was emitted as it came, now that its arguments are whole. One that is repeated is not run."""
        if not call.opens_early:
            return
        if (why := self.runs.repetition(call)) is not None:
            self._answer_repeated(call, why)
        self.runs.add(call)

    def limit_approved(self, calls: Iterable[CallState], most: int | None) -> None:
        """Calls that the client has approved are neither judged nor asked for again. Only so many of them are run."""
        if most is not None:
            for call in [call for call in calls if call.must_run][most:]:
                self._answer_beyond(call, most)

    def _answer_beyond(self, call: CallState, most: int) -> None:
        self._answer(call, NO_CALLS_LEFT.format(count=most), BEYOND_LIMIT.format(most=most))

    def _answer(self, call: CallState, words: str, why: str) -> None:
        call.result = ToolResult(words, failed=True)
        self._answered.append(call)
        self.left_out.add_not_run(call, why)

    def is_answered(self, state: ItemState) -> bool:
        """Of a call of this round that is not run: its result says why."""
        return any(state is call for call in self._answered)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def is_full(self, waiting: Iterable[ItemState] = ()) -> bool:
        """With these, there are as many calls as there may be. A rejected call keeps its place."""
        required = self.requirements
        if not required.may_call or required.parallel:
            return not required.may_call
        rejected = self.rejection is not None and self.rejection.call is not None
        more = rejected + sum(isinstance(state, CallState) and bool(state.name) for state in waiting)
        return self._shown_in_round + more >= 1

    def drop(self, call: CallState) -> None:
        self.left_out.add_dropped(call, ONE_CALL if self.requirements.may_call else NO_CALLS)

    # ---- the whole answer --------------------------------------------------------------------------------------------

    def reject_missing(self, states: Sequence[ItemState], written: str) -> None:
        """Rejects an answer that is at its end and lacks something."""
        if self._may_reject and (missing := self.missing(states)) is not None:
            self._reject(Rejection(missing, words=written))

    @property
    def requires_something(self) -> bool:
        """An answer may lack something."""
        return self.requirements.must_call or self.requirements.answer is not None

    def missing(self, states: Sequence[ItemState]) -> str | None:
        """What an answer at its end should have had besides these items."""
        required = self.requirements
        if not self.requires_something:
            return None
        if self.rejection is not None or any(isinstance(state, CallState) for state in states):
            return None
        if required.must_call:
            return "it called no tool, although it had to"
        if required.answer is not None and not any(isinstance(state, MessageState) for state in states):
            return "it gave no answer"
        return None

    def _reject(self, rejection: Rejection) -> None:
        self._may_reject = False
        self.rejection = rejection


def _could_not_be_checked(state: ItemState) -> bool:
    """Its check did not come to an end, and nothing may be shown that has not passed it."""
    check, outcome = state.check, state.outcome
    return check is not None and check.binding and outcome is not None and outcome.unfinished
