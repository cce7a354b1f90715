"""Which call a piece of one belongs to: engines leave out ids or indexes, or give parallel calls the same index or id."""

from antiphon.core.events.deltas import CallDelta
from antiphon.core.items.calls import CallState


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
