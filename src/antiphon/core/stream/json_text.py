"""The text of an answer that is constrained to JSON from its first token on.

JSON comes next; an engine that takes it for a thought may repeat the end of the prompt before it. Nothing in it is a thought.
"""

from collections.abc import Callable
from enum import Enum

from antiphon.core.events.deltas import Delta, TextDelta
from antiphon.core.stream.fast_path import Continues
from antiphon.core.stream.reasoning_tags import TAGS
from antiphon.patterns import late_pattern

# What JSON may begin with.
STARTS = frozenset('{["-0123456789tfn')
# A fence that opens before JSON, and the one that closes it: no string of JSON has a line break in it.
OPENING_FENCE = late_pattern(r"```[\w+-]{0,32}\s*\Z")
CLOSING_FENCE = late_pattern(r"\n[^\S\n]*+```")
# More white space than that is not kept back because a fence may follow.
LONGEST_BEFORE_FENCE = 256


class State(Enum):
    __hash__ = object.__hash__

    BEFORE = "no JSON yet"
    FENCED = "inside JSON in a fence whose opening was left out: so is its end"
    PLAIN = "all that follows is passed on"


PLAIN = State.PLAIN


class JsonText:
    """It reads what `ThinkTags` reads of other answers.

    `left_out`: what preceded the JSON, but for tags, and is not passed on.
    """

    __slots__ = ("_rest", "_skipped", "_skips", "_state", "dropped", "left_out", "unopened", "waiting")

    def __init__(self) -> None:
        self._state = State.BEFORE
        self._rest = ""
        # What precedes the JSON, and whether it is more than white space.
        self._skipped: list[str] = []
        self._skips = False
        self.left_out = ""
        # As of an answer without a thought.
        self.waiting = 0
        self.dropped = self.unopened = False

    def receive(self, text: str) -> list[Delta]:
        if self._state is PLAIN:
            return [TextDelta(text)]
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and _STEPS[self._state](self, deltas):
            pass
        return deltas

    def take_if_plain(self, text: str) -> bool:
        """True if the piece need not be received."""
        return self._state is PLAIN

    def report(self, thought: str) -> list[Delta]:
        """The engine takes the answer for a thought, because the template has opened one."""
        return self.receive(thought)

    def continues(self) -> Continues | None:
        """How the next piece of content is read."""
        return Continues(TextDelta) if self._state is PLAIN else None

    def continues_reported(self) -> None:
        """What comes in the field for reasoning is received."""

    def catch_up(self, last: str) -> None:
        """Pieces were not received, and ended with this character."""

    def close(self, *, cut: bool = False) -> list[Delta]:
        rest = self._take_rest()
        return [] if not rest or (self._state is State.FENCED and rest.strip() == "```") else [TextDelta(rest)]

    def release(self) -> list[Delta]:
        """A call or a refusal begins."""
        rest = self._take_rest()
        return [TextDelta(rest)] if rest else []

    def _take_rest(self) -> str:
        rest = "".join((*self._skipped, self._rest))
        self._skipped.clear()
        self._rest = ""
        return rest

    # ---- the states --------------------------------------------------------------------------------------------------

    def _before(self, deltas: list[Delta]) -> bool:
        visible = self._rest.lstrip()
        if visible and (self._skips or visible[0] not in STARTS):
            self._skips = True
            begins = [at for bracket in "{[" if (at := visible.find(bracket)) >= 0]
            visible = visible[min(begins) :] if begins else ""
        if not visible:
            # Kept for the case that no JSON comes at all, and not read again.
            self._skipped.append(self._rest)
            self._rest = ""
            return False
        before = "".join((*self._skipped, self._rest[: len(self._rest) - len(visible)]))
        self._skipped.clear()
        self._rest = visible
        self._state = State.FENCED if OPENING_FENCE.search(before) is not None else State.PLAIN
        self.left_out = TAGS.removed_from(before).strip()
        return True

    def _fenced(self, deltas: list[Delta]) -> bool:
        closing = CLOSING_FENCE.search(self._rest)
        if closing is not None:
            _show(deltas, self._rest[: closing.start()].rstrip())
            self._rest = self._rest[closing.end() :]
            self._state = State.PLAIN
            return True
        shown = self._rest.rstrip().rstrip("`").rstrip()
        if len(self._rest) - len(shown) > LONGEST_BEFORE_FENCE:
            shown = self._rest
        _show(deltas, shown)
        self._rest = self._rest[len(shown) :]
        return False

    def _plain(self, deltas: list[Delta]) -> bool:
        _show(deltas, self._rest)
        self._rest = ""
        return False


def _show(deltas: list[Delta], text: str) -> None:
    if text:
        deltas.append(TextDelta(text))


_STEPS: dict[State, Callable[[JsonText, list[Delta]], bool]] = {
    State.BEFORE: JsonText._before,
    State.FENCED: JsonText._fenced,
    State.PLAIN: JsonText._plain,
}
