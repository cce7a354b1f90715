"""A round of tools that the gateway ran, as the turn of the conversation that the model sees."""

from collections.abc import Iterable

from antiphon.core.calls import CallState
from antiphon.core.item_state import ItemState
from antiphon.core.reasoning import ReasoningState
from antiphon.core.turns import AssistantTurn, Call


def states_to_turn(states: Iterable[ItemState]) -> AssistantTurn:
    turn = AssistantTurn()
    for state in states:
        if isinstance(state, CallState):
            output = state.result.output if state.result is not None else ""
            turn.calls.append(Call(state.call_id, state.name, state.arguments, texts=[output], answered=True))
        elif isinstance(state, ReasoningState):
            turn.reasoning.append(state.written)
        else:
            turn.texts.append(state.written)
    return turn
