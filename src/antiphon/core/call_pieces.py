"""Which call a piece of one belongs to: engines leave out ids, leave out indexes, or give every parallel call the index 0."""

from antiphon.core.calls import CallState
from antiphon.core.deltas import CallDelta


class CallPieces:
    """The calls of one answer, as the engine names them."""

    def __init__(self) -> None:
        self._calls: list[CallState] = []
        self._at: dict[int, CallState] = {}

    def find(self, delta: CallDelta) -> CallState | None:
        """None: it opens a call."""
        if delta.id:
            known = next((call for call in self._calls if call.engine_id == delta.id), None)
            if known is not None:
                return known
        if delta.index is None:
            return None if delta.name or delta.id or not self._calls else self._calls[-1]
        occupant = self._at.get(delta.index)
        if occupant is None or (not delta.id and not delta.name):
            return occupant
        if delta.id and occupant.engine_id is not None:
            return None
        another = delta.name and occupant.name and (delta.name != occupant.name or occupant.finishable())
        return None if another else occupant

    def add(self, call: CallState) -> None:
        self._calls.append(call)
        if call.engine_index is not None:
            self._at[call.engine_index] = call
