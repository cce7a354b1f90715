"""Reasoning that an engine leaves in the text, between `<think>` and `</think>`, found however the text is split.

Tags count only before the first visible text, where a thought can be. Later tags are text, because the model may write *about*
them. One case cannot be decided at the beginning of a stream: if the chat template has already opened the thought, the text
starts inside it and only `</think>` comes. `Start` says what is known about that.
"""

from collections.abc import Callable
from enum import Enum

from antiphon.core.deltas import Delta, ReasoningDelta, TextDelta, ThoughtEnded

OPEN = "<think>"
CLOSE = "</think>"
# A tag directly after one of these is quoted, not used.
QUOTES = "`\"'"


class Start(Enum):
    UNKNOWN = "not known: text is emitted as it arrives"
    INSIDE = "the template has opened the thought: text belongs to it until it is closed"
    NEVER = "the answer is constrained to JSON from its first token on: nothing in it is a thought"
    PATIENT = "not known, and no client is waiting for text: it is buffered until it is known"


class State(Enum):
    BEFORE = "no visible text yet: a thought may open"
    INSIDE = "inside a thought"
    TEXT = "visible text has begun; one unopened `</think>` may still come"
    PLAIN = "no more tags are expected"
    PROMPT = "JSON comes next; an engine that takes it for a thought may repeat the end of the prompt before it"


FIRST_STATES = {Start.INSIDE: State.INSIDE, Start.NEVER: State.PROMPT}
# What JSON may begin with.
JSON_STARTS = frozenset('{["-0123456789tfn')


def partial_tag_length(text: str, tag: str) -> int:
    """The number of characters at the end of the text that may be the beginning of the tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0


# Looked up once, because they are needed for every delta.
PLAIN, TEXT, PATIENT = State.PLAIN, State.TEXT, Start.PATIENT


class ThinkTags:
    """`receive()` takes pieces of content and returns deltas; `close()` returns what was buffered.

    `copy` is set once the engine sends reasoning in a separate field: a tagged thought is then a copy of it, and is dropped
    (llama.cpp's `deepseek-legacy`). `found`: a tagged thought was found. `unopened`: the template had opened it.
    """

    __slots__ = ("_assumed", "_last", "_rest", "_start", "_state", "copy", "found", "unopened")

    def __init__(self, start: Start = Start.UNKNOWN) -> None:
        self._start = start
        self._state = FIRST_STATES.get(start, State.BEFORE)
        self._rest = ""
        self._last = ""
        self._assumed: list[str] = []
        self.copy = False
        self.found = False
        self.unopened = False

    def receive(self, text: str) -> list[Delta]:
        if self.take_if_plain(text):
            return [TextDelta(text)]
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and _STEPS[self._state](self, deltas):
            pass
        return deltas

    def take_if_plain(self, text: str) -> bool:
        """True if the piece is certainly only text: it is then taken, and need not be received."""
        state = self._state
        if state is TEXT and not self._rest and "<" not in text and self._start is not PATIENT:
            self._last = text[-1:]
            return True
        return state is PLAIN

    def close(self, *, cut: bool = False) -> list[Delta]:
        """`cut`: the engine reached its token limit, so a thought may lack its closing tag."""
        rest, self._rest = self._rest, ""
        if self._state is State.INSIDE:
            deltas = self._reasoning(rest)
            # `close()` is called again at the end of the stream: what was cut off stays a thought, and an answer comes once.
            answer = "" if cut else "".join(self._assumed)
            self._assumed.clear()
            # The thought was only assumed, and nothing followed it: it was the answer, and must not be lost.
            return [*deltas, TextDelta(answer)] if answer.strip() else deltas
        return [TextDelta(rest)] if rest else []

    def release(self) -> list[Delta]:
        """A call or a refusal begins: the buffered text is not a tag, and an assumed thought stays a thought."""
        rest, self._rest = self._rest, ""
        self._assumed.clear()
        return self._reasoning(rest) if self._state is State.INSIDE else self._visible(rest)

    def takes_copies(self) -> None:
        """Reasoning arrives in a separate field, so the text does not begin inside a thought, whatever was assumed."""
        self.copy = True
        if self._state is State.INSIDE and self._start is Start.INSIDE:
            self._start, self._state = Start.UNKNOWN, State.BEFORE

    def _before(self, deltas: list[Delta]) -> bool:
        visible = self._rest.lstrip()
        leading_space = self._rest[: len(self._rest) - len(visible)]
        if visible.startswith(OPEN):
            self._rest = visible[len(OPEN) :]
            self._state = State.INSIDE
            self.found = True
            return True
        if not OPEN.startswith(visible):
            self._state = State.TEXT
            return True
        if leading_space:
            deltas.append(TextDelta(leading_space))
        self._rest = visible
        return False

    def _prompt(self, deltas: list[Delta]) -> bool:
        visible = self._rest.lstrip()
        if visible and visible[0] not in JSON_STARTS:
            begins = [at for bracket in "{[" if (at := visible.find(bracket)) >= 0]
            visible = visible[min(begins) :] if begins else ""
        if not visible:
            return False
        self._rest = visible
        self._state = State.PLAIN
        return True

    def _inside(self, deltas: list[Delta]) -> bool:
        thought, closed, rest = self._rest.partition(CLOSE)
        if not closed:
            partial = partial_tag_length(self._rest, CLOSE)
            thought, rest = self._rest[: len(self._rest) - partial], self._rest[len(self._rest) - partial :]
        deltas += self._reasoning(thought)
        self._rest = rest
        if not closed:
            return False
        self.unopened = self._start is Start.INSIDE
        self._start = Start.UNKNOWN
        self._assumed.clear()
        self.found = True
        # Another thought may follow directly; visible text ends the search.
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
        partial = partial_tag_length(self._rest, CLOSE)
        deltas += self._visible(self._rest[: len(self._rest) - partial])
        self._rest = self._rest[len(self._rest) - partial :]
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
    State.PROMPT: ThinkTags._prompt,
}
