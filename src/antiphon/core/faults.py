"""What is wrong with what a model wrote, measured by what was demanded of it."""

from collections.abc import Iterable
from typing import NamedTuple

from antiphon.core.calls import CallState
from antiphon.core.demands import Demands
from antiphon.core.output_items import MessageState, ReasoningState

State = MessageState | ReasoningState | CallState


class Fault(NamedTuple):
    complaint: str
    # Rather no answer than one with it.
    binding: bool


class Refusal(NamedTuple):
    """What the model is to be asked for once more, and why. Without a call it is the answer in words that will not do."""

    complaint: str
    call: CallState | None = None
    words: str = ""


def fault_of(state: State, demands: Demands) -> Fault | None:
    """What is wrong with an item that is about to be shown, beyond what can be mended."""
    only = demands.only
    if isinstance(state, CallState) and only is not None and state.name not in only:
        return Fault(f"{state.name} is not among the tools that may be called: {', '.join(sorted(only))}", binding=True)
    check = state.check
    if check is None or not check.held:
        return None
    complaint = check.complaint(check.mended(state.checked))
    return None if complaint is None else Fault(complaint, check.binding)


def missing_of(states: Iterable[State], demands: Demands) -> str | None:
    """What an answer that is at its end should have had besides these."""
    kinds = {type(state) for state in states}
    if any(issubclass(kind, CallState) for kind in kinds):
        return None
    if demands.must_call:
        return "it called no tool, although it had to"
    if demands.answer is not None and not any(issubclass(kind, MessageState) for kind in kinds):
        return "it gave no answer"
    return None


def is_full(ahead: Iterable[State], demands: Demands, refused: Refusal | None) -> bool:
    """The calls among these are as many as the response may have. One that is asked for again keeps its place."""
    most = demands.most_calls
    if most is None:
        return False
    kept = refused is not None and refused.call is not None
    return sum(isinstance(state, CallState) and bool(state.name) for state in ahead) + kept >= most
