"""Reasoning that an engine leaves inside the text, between `<think>` and `</think>`, found at any split.

Tags count only where a thought can stand: before the first visible text. A model that writes *about* the tags later in its
answer is quoted as it is. One case is not decidable from the beginning of a stream: where the chat template has already
opened the thought, the text starts inside it and only `</think>` comes. `Start` says what is known about that.
"""

from collections.abc import Callable
from enum import Enum

from antiphon.core.deltas import Delta, ReasoningDelta, TextDelta, ThoughtEnded

OPEN = "<think>"
CLOSE = "</think>"
# A tag right behind one of these is being talked about, not used.
QUOTES = "`\"'"


class Start(Enum):
    UNKNOWN = "the stream decides; text is passed on as it comes"
    INSIDE = "the template has opened the thought: the first text belongs to it until it is closed"
    PATIENT = "nobody is watching yet: hold the text until it is known whether it was a thought"


class State(Enum):
    BEFORE = "nothing visible yet: a thought may open"
    INSIDE = "within a thought"
    TEXT = "visible text has begun; one unopened `</think>` may still come"
    PLAIN = "nothing more to look for"


def held_back(text: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of the tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0


# Looked up once: the names are asked for on every delta.
PLAIN, TEXT, PATIENT = State.PLAIN, State.TEXT, Start.PATIENT


class ThinkTags:
    """`receive()` takes pieces of content and gives deltas; `close()` gives what was held back.

    `copy` is set once the engine reports reasoning in a field of its own: a tagged thought is then a second copy of it, and
    is swallowed (llama.cpp's `deepseek-legacy`). `unopened` tells afterwards that the template had opened the thought.
    """

    __slots__ = ("_assumed", "_last", "_rest", "_start", "_state", "copy", "found", "unopened")

    def __init__(self, start: Start = Start.UNKNOWN) -> None:
        self._start = start
        self._state = State.INSIDE if start is Start.INSIDE else State.BEFORE
        self._rest = ""
        self._last = ""
        self._assumed: list[str] = []
        self.copy = False
        self.found = False
        self.unopened = False

    def receive(self, text: str) -> list[Delta]:
        if self.passes(text):
            return [TextDelta(text)]
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and _STEPS[self._state](self, deltas):
            pass
        return deltas

    def passes(self, text: str) -> bool:
        """The text is nothing but text, for certain, and is passed on."""
        state = self._state
        if state is TEXT and not self._rest and "<" not in text and self._start is not PATIENT:
            self._last = text[-1:]
            return True
        return state is PLAIN

    def close(self, *, cut: bool = False) -> list[Delta]:
        """`cut`: the engine ran out of tokens, so that a thought may rightly be without its end."""
        rest, self._rest = self._rest, ""
        if self._state is State.INSIDE:
            deltas = self._reasoning(rest)
            # The end of the stream closes once more: what was cut off stays a thought.
            if cut:
                self._assumed.clear()
            answer = "".join(self._assumed)
            # A thought that only we had assumed, and nothing after it: it was the answer, and must not be lost.
            return [*deltas, TextDelta(answer)] if answer.strip() else deltas
        return [TextDelta(rest)] if rest else []

    def release(self) -> list[Delta]:
        """Something else begins, a call or a refusal: what was held back is no tag any more, nor a guess a mistake."""
        rest, self._rest = self._rest, ""
        self._assumed.clear()
        return self._reasoning(rest) if self._state is State.INSIDE else self._visible(rest)

    def takes_copies(self) -> None:
        """Reasoning has come in a field of its own, so that the text does not begin inside a thought, whatever was assumed."""
        self.copy = True
        if self._state is State.INSIDE and self._start is Start.INSIDE:
            self._start, self._state = Start.UNKNOWN, State.BEFORE

    def _before(self, deltas: list[Delta]) -> bool:
        visible = self._rest.lstrip()
        blank = self._rest[: len(self._rest) - len(visible)]
        if visible.startswith(OPEN):
            self._rest = visible[len(OPEN) :]
            self._state = State.INSIDE
            self.found = True
            return True
        if not OPEN.startswith(visible):
            self._state = State.TEXT
            return True
        if blank:
            deltas.append(TextDelta(blank))
        self._rest = visible
        return False

    def _inside(self, deltas: list[Delta]) -> bool:
        thought, closed, rest = self._rest.partition(CLOSE)
        if not closed:
            keep = held_back(self._rest, CLOSE)
            thought, rest = self._rest[: len(self._rest) - keep], self._rest[len(self._rest) - keep :]
        deltas += self._reasoning(thought)
        self._rest = rest
        if not closed:
            return False
        self.unopened = self._start is Start.INSIDE
        self._start = Start.UNKNOWN
        self._assumed.clear()
        self.found = True
        # Another thought may follow at once; visible text ends the search for good.
        self._state = State.BEFORE
        return True

    def _text(self, deltas: list[Delta]) -> bool:
        if self.found or self.copy:
            self._state = State.PLAIN
            return True
        at = self._rest.find(CLOSE)
        while at >= 0 and self._is_quoted(at):
            at = self._rest.find(CLOSE, at + 1)
        if at >= 0:
            shown, self._rest = self._rest[:at], self._rest[at + len(CLOSE) :]
            deltas += self._visible(shown) if self._last else self._reasoning(shown)
            deltas.append(ThoughtEnded())
            self._state = State.PLAIN
            self.found = self.unopened = True
            return True
        if self._start is Start.PATIENT:
            return False
        keep = held_back(self._rest, CLOSE)
        deltas += self._visible(self._rest[: len(self._rest) - keep])
        self._rest = self._rest[len(self._rest) - keep :]
        return False

    def _plain(self, deltas: list[Delta]) -> bool:
        deltas += self._visible(self._rest)
        self._rest = ""
        return False

    def _is_quoted(self, at: int) -> bool:
        before = self._rest[at - 1] if at else self._last
        return before != "" and before in QUOTES

    def _visible(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._last = text[-1]
        return [TextDelta(text)]

    def _reasoning(self, text: str) -> list[Delta]:
        if not text or self.copy:
            return []
        if self._start is Start.INSIDE:
            self._assumed.append(text)
        return [ReasoningDelta(text)]


_STEPS: dict[State, Callable[[ThinkTags, list[Delta]], bool]] = {
    State.BEFORE: ThinkTags._before,
    State.INSIDE: ThinkTags._inside,
    State.TEXT: ThinkTags._text,
    State.PLAIN: ThinkTags._plain,
}
