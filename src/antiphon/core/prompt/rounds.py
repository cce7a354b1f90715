"""What follows the items of a request while its response goes on, as turns of the conversation that the model sees."""

from collections.abc import Iterable

from antiphon.core.items.calls import CallState
from antiphon.core.items.enforcement import Rejection
from antiphon.core.items.item_state import ItemState
from antiphon.core.items.reasoning import ReasoningState
from antiphon.core.prompt.turns import AssistantTurn, Call, UserTurn
from antiphon.core.toolbox.prompt_texts import (
    ANSWER_AGAIN,
    BAD_ANSWER,
    BAD_CALL,
    CALL_AGAIN,
    CALL_ANOTHER,
    CALL_INSTEAD,
    must_call,
    one_of,
)
from antiphon.core.toolbox.requirements import Requirements


def states_to_turn(states: Iterable[ItemState]) -> AssistantTurn:
    """A round of tools that the gateway ran, as the requests that continue the response will show it."""
    turn = AssistantTurn()
    for state in states:
        if isinstance(state, CallState):
            output = state.result.output if state.result is not None else ""
            turn.calls.append(Call(state.chat_id, state.chat_name, state.arguments, texts=[output], answered=True))
        elif isinstance(state, ReasoningState):
            turn.reasoning.append(state.written)
        elif text := state.written:
            turn.texts.append(text)
    return turn


def rejection_to_turns(
    rejection: Rejection, requirements: Requirements, *, helped: bool = False
) -> list[AssistantTurn | UserTurn]:
    """The answer that was rejected, and the complaint about it. `helped`: a small model would repeat either of them, so it is
    asked as before, with one sentence more."""
    if helped:
        return [_user(_words_again(rejection, requirements))]
    call = rejection.call
    if call is not None:
        complaint = BAD_CALL.format(complaint=rejection.complaint)
        return [AssistantTurn(calls=[Call(call.call_id, call.name, call.arguments, texts=[complaint], answered=True)])]
    said = [AssistantTurn(texts=[rejection.words])] if rejection.words else []
    if requirements.must_call:
        words = must_call(sorted(requirements.only or ()))
    else:
        words = BAD_ANSWER.format(complaint=rejection.complaint)
    return [*said, _user(words)]


def _words_again(rejection: Rejection, requirements: Requirements) -> str:
    call, complaint = rejection.call, rejection.complaint
    if call is None and requirements.must_call:
        return must_call(sorted(requirements.only or ()))
    if call is None:
        return ANSWER_AGAIN.format(complaint=complaint)
    offered = requirements.offered_as(call.name, call.arguments)
    if not offered:
        return CALL_ANOTHER.format(name=_shown_name(call, requirements), complaint=complaint)
    if call.name in offered:
        return CALL_AGAIN.format(name=call.name, complaint=complaint)
    return CALL_INSTEAD.format(names=one_of(offered), complaint=complaint)


def _shown_name(call: CallState, requirements: Requirements) -> str:
    """The name by which the model knows what it may not call."""
    is_known = call.name in requirements.withheld or not requirements.withheld
    return call.name if is_known else requirements.tools.box.name_in_history(call.name, call.arguments)


def _user(words: str) -> UserTurn:
    return UserTurn([{"type": "text", "text": words}])
