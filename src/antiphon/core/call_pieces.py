"""Which call a piece of one belongs to: engines leave out ids or indexes, or give parallel calls the same index or id."""

from antiphon.core.calls import CallState
from antiphon.core.deltas import CallDelta


class CallPieces:
    """The calls of one answer, as the engine names them."""

    def __init__(self) -> None:
        self.calls: list[CallState] = []
        self._at: dict[int, CallState] = {}

    def find(self, delta: CallDelta) -> CallState | None:
        """None: it opens a call."""
        if delta.id and (known := next((call for call in reversed(self.calls) if _is_named(call, delta)), None)) is not None:
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
        self.calls.append(call)
        if call.engine_index is not None:
            self._at[call.engine_index] = call


def _is_named(call: CallState, delta: CallDelta) -> bool:
    """The piece has the id of this call, and no other index."""
    same_place = delta.index is None or call.engine_index is None or delta.index == call.engine_index
    return same_place and call.engine_id == delta.id
