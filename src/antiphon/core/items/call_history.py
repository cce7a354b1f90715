"""What is remembered of the calls of a response: those that the gateway ran, and those that were left out."""

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from antiphon.core.items.calls import CallState
from antiphon.core.toolbox.tools import LONGEST_NAME
from antiphon.partial_json import canonical_arguments, object_arguments

REPEATED = "it was made in the two answers before, with the same arguments"
NOTHING_NEW = "it was made before, with the same arguments, and so was every call of the two answers before"
# The same call in so many rounds in a row is a loop, and so are these many rounds without a new call: it is not run any more.
LOOP_AT = 3

# Shared: an empty set takes 216 bytes.
NOTHING_RAN: frozenset[Hashable] = frozenset()


class RunHistory(Struct):
    """The calls that the gateway runs, or has run."""

    count: int = 0
    # In this round, and in the latest ones before it.
    _in_round: dict[Hashable, None] = {}
    _before: tuple[AbstractSet[Hashable], ...] = ()
    # In all rounds before this one.
    _ran: frozenset[Hashable] = NOTHING_RAN
    # How many rounds in a row had nothing that was new.
    _without_new: int = 0
    # The model makes the same call in every round.
    is_loop: bool = False

    def begin_round(self) -> None:
        ran = self._in_round.keys()
        self._without_new = self._without_new + 1 if ran and ran <= self._ran else 0
        self._ran = self._ran.union(ran)
        self._before = (*self._before, ran)[1 - LOOP_AT :]
        self._in_round = {}

    def start(self, call: CallState) -> None:
        """The gateway runs the call. What one does that opens early is known when its arguments are whole: see `add()`."""
        self.count += 1
        if not call.opens_early:
            self.add(call)

    def add(self, call: CallState) -> None:
        self._in_round[_action(call)] = None

    def repetition(self, call: CallState) -> str | None:
        """Why the call is one of a loop. Calls that are made together are none: the model had not seen what came of them."""
        action = _action(call)
        if len(self._before) == LOOP_AT - 1 and all(action in round for round in self._before):
            return REPEATED
        return NOTHING_NEW if self._without_new >= LOOP_AT - 1 and action in self._ran else None


def _action(call: CallState) -> Hashable:
    return call.native, canonical_arguments(object_arguments(call.arguments_to_run))


class LeftOutCalls(Struct):
    """The calls that were left out, not run or not checked: what there is to report of them."""

    # Beyond those that the response may have, and why the last of them was dropped.
    _dropped: list[CallState] = []
    limit: str = ""
    # The calls that were not run, and why not: by the names of their tools.
    not_run: dict[tuple[str, str], None] = {}
    # The tools that the model called once more, although they are withheld because of a loop.
    looping: Sequence[str] = ()
    # The tools of which a call was emitted although its check did not come to an end.
    unchecked: Sequence[str] = ()
    # How many calls followed one that was rejected.
    after_rejected: int = 0

    @property
    def any(self) -> bool:
        return bool(self._dropped or self.not_run or self.looping or self.after_rejected or self.unchecked)

    @property
    def dropped(self) -> int:
        """How many calls the model made beyond those that the response may have. An empty placeholder is not a call."""
        return sum(1 for call in self._dropped if call.written)

    def add_dropped(self, call: CallState, limit: str) -> None:
        """Its pieces are still collected, so that they do not end up in another call."""
        self._dropped.append(call)
        self.limit = limit

    def add_not_run(self, call: CallState, why: str) -> None:
        self.not_run[call.name[:LONGEST_NAME], why] = None

    def add_after_rejected(self) -> None:
        self.after_rejected += 1

    def add_looping(self, call: CallState) -> None:
        self.looping = _with(self.looping, call.name)

    def add_unchecked(self, call: CallState) -> None:
        self.unchecked = _with(self.unchecked, call.name)


def _with(known: Sequence[str], one: str) -> Sequence[str]:
    """Each is there once. They are names of tools, few and mostly none."""
    return known if one in known else (*known, one)
