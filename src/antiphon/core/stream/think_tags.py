"""Reasoning that an engine leaves in the text, between tags such as `<think>` and `</think>`, however the text is split.

Tags count only before the first visible text, where a thought can be. Later tags are text, because the model may write *about*
them. One case cannot be decided at the beginning of a stream: if the chat template has already opened the thought, the text
starts inside it and only the closing tag comes. `Start` says what is known about that.

If the engine also reports reasoning in a separate field, one of the two is a copy of the other (llama.cpp's `deepseek-legacy`),
and only the first is passed on. What differs is no copy: a tagged text is then the model's text, and is shown with its tag.
"""

from collections.abc import Callable
from enum import Enum

from antiphon.core.events.deltas import Delta, ReasoningDelta, TextDelta, ThoughtEnded
from antiphon.core.events.plain_deltas import MOST_PIECES, join_from
from antiphon.core.stream.fast_path import Continues
from antiphon.core.stream.reasoning_tags import TAGS, ClosingTags, ReasoningTags, Start
from antiphon.core.stream.thought_copies import ThoughtCopy


class State(Enum):
    __hash__ = object.__hash__

    BEFORE = "no visible text yet: a thought may open"
    INSIDE = "inside a thought"
    COPYING = "inside a tagged text that repeats the reported thought so far: it is withheld"
    COPIED = "such a text was closed before all of it was reported: it is withheld until visible text begins"
    TEXT = "visible text has begun; one closing tag that nothing opened may still come"
    PLAIN = "no more tags are expected"


# Looked up once, because they are needed for every delta.
PLAIN, TEXT, BEFORE, PATIENT = State.PLAIN, State.TEXT, State.BEFORE, Start.PATIENT
PATIENTS = (Start.PATIENT, Start.INSIDE_PATIENT)
# The template has opened the thought.
OPENED = (Start.INSIDE, Start.INSIDE_PATIENT)


class WaitingText:
    """Text that waits for a closing tag. What is new is searched for one, and not all of it again.

    `size`: how many characters wait, those included that others keep.
    """

    __slots__ = ("_end", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._end = ""
        self.size = 0

    def add(self, text: str, closings: ClosingTags) -> None:
        self.pieces.append(text)
        self.size += len(text)
        self._end = (self._end + text[-closings.longest :])[-closings.longest :]

    def is_closed_by(self, text: str, closings: ClosingTags, last: str) -> bool:
        """A closing tag ends with this piece of the text. `last`: the character before all of it."""
        return closings.find_unquoted(self._end + text, last, len(self._end))[0] >= 0

    def take(self) -> str:
        text = "".join(self.pieces)
        self.pieces.clear()
        self._end, self.size = "", 0
        return text


class ThinkTags:
    """`receive()` takes pieces of content, `report()` those of a field for reasoning, and both return deltas. `close()` returns
    what was buffered.

    `found`: a tagged thought was found. `unopened`: the template had opened it. `dropped`: a copy was dropped.
    """

    # What is not passed on because JSON has to come: nothing.
    left_out = ""

    __slots__ = (
        "_assumed",
        "_closings",
        "_copy",
        "_joined",
        "_last",
        "_reported",
        "_rest",
        "_start",
        "_state",
        "_tags",
        "_thought",
        "_waiting",
        "dropped",
        "found",
        "unopened",
    )

    def __init__(self, start: Start = Start.UNKNOWN, tags: ReasoningTags = TAGS) -> None:
        self._start = start
        self._state = State.INSIDE if start in OPENED else State.BEFORE
        self._tags = tags
        # Those that may close the thought: after an opening tag only one, and any of them if the template has opened it.
        self._closings = tags.closings
        self._rest = ""
        self._waiting = WaitingText()
        self._last = ""
        self._assumed: list[str] = []
        # The thought so far, from the place where it came first, and what comes in the other place.
        self._thought: list[str] = []
        # How many of its pieces were made of many.
        self._joined = 0
        self._copy: ThoughtCopy | None = None
        self._reported = False
        self.dropped = False
        self.found = False
        self.unopened = False

    def receive(self, text: str) -> list[Delta]:
        if self.take_if_plain(text):
            return [TextDelta(text)]
        if self._waiting.pieces:
            if self._waiting.is_closed_by(text, self._closings, self._last):
                self._rest = self._take_rest()
            else:
                self._waiting.add(text, self._closings)
                return []
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and _STEPS[self._state](self, deltas):
            pass
        return deltas

    @property
    def waiting(self) -> int:
        """How many characters wait for a closing tag."""
        return self._waiting.size

    def _take_rest(self) -> str:
        rest, self._rest = self._waiting.take() + self._rest, ""
        return rest

    def take_if_plain(self, text: str) -> bool:
        """True if the piece is certainly only text: it is then taken, and need not be received."""
        state = self._state
        closings = self._closings
        if (
            state is TEXT
            and not self._rest
            and self._start is not PATIENT
            and (closings.first not in text or closings.cannot_begin_in(text))
        ):
            self._last = text[-1:]
            return True
        return state is PLAIN

    def report(self, thought: str) -> list[Delta]:
        """A piece of reasoning from a separate field."""
        if not self._reported and self.found and (self._copy is not None or "".join(self._thought).strip()):
            return self._reported_again(thought)
        if not self._reported:
            return self._first_reported(thought)
        if (copy := self._copy) is None:
            self._thought.append(thought)
            return [ReasoningDelta(thought)]
        copy.first(thought)
        return [ReasoningDelta(thought), *(self._show(copy) if copy.differs else ())]

    # ---- pieces that are not received --------------------------------------------------------------------------------

    def continues(self) -> Continues | None:
        """How the next piece of content is read, if it has no tag."""
        state = self._state
        if state is PLAIN:
            return Continues(TextDelta)
        if self._rest or self._start in PATIENTS:
            return None
        if state is TEXT:
            closings = self._closings
            return Continues(TextDelta, None if closings.first else closings.cannot_begin_in, closings.first or None)
        # What comes in the field for reasoning, too, is compared piece by piece.
        return Continues(ReasoningDelta, self._take_thought) if state is State.INSIDE and self._copy is None else None

    def continues_reported(self) -> Continues | None:
        """How the next piece of the field for reasoning is read."""
        if not self._reported or self._copy is not None:
            return None
        # Once visible text has begun, nothing is compared with the thought.
        return Continues(ReasoningDelta, self._take_reported if self._state is BEFORE else None)

    def catch_up(self, last: str) -> None:
        """Pieces were not received, and ended with this character."""
        if self._state is TEXT and last:
            self._last = last

    def _take_thought(self, text: str) -> bool:
        if self._closings.first in text and not self._closings.cannot_begin_in(text):
            return False
        if self._start is Start.INSIDE:
            self._assumed.append(text)
        return self._take_reported(text)

    def _take_reported(self, thought: str) -> bool:
        self._thought.append(thought)
        if len(self._thought) > self._joined + MOST_PIECES:
            self._joined = join_from(self._thought, self._joined)
        return True

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self, *, cut: bool = False) -> list[Delta]:
        """`cut`: the engine reached its token limit, so a thought may lack its closing tag."""
        if self._reported and self._copy is not None:
            return self._settle(self._copy)
        rest = self._take_rest()
        if self._state is State.INSIDE:
            deltas = self._reasoning(rest)
            if cut:
                deltas += self._release_assumed()
            # The thought was only assumed, and nothing followed it: it was the answer, and must not be lost.
            answer = "".join(self._assumed)
            deltas += [TextDelta(answer)] if answer.strip() else []
            # `close()` is called again at the end of the stream.
            self._assumed.clear()
        else:
            deltas = [TextDelta(rest)] if rest else []
        # The field has more than the tags: that was not passed on.
        surplus = self._copy.surplus if self._copy is not None else ""
        self._copy = None
        return [*deltas, ReasoningDelta(surplus)] if surplus else deltas

    def release(self) -> list[Delta]:
        """A call or a refusal begins: the buffered text is not a tag, and an assumed thought stays a thought."""
        if self._reported and self._copy is not None:
            return self._settle(self._copy)
        rest = self._take_rest()
        if self._state is State.INSIDE:
            deltas = self._reasoning(rest)
            return deltas + self._release_assumed()
        return self._visible(rest)

    def _release_assumed(self) -> list[Delta]:
        """What was assumed to be a thought is one."""
        thought = "".join(self._assumed)
        self._assumed.clear()
        return [ReasoningDelta(thought)] if thought and self._start is Start.INSIDE_PATIENT else []

    # ---- a thought that comes twice ----------------------------------------------------------------------------------

    def _first_reported(self, thought: str) -> list[Delta]:
        """From now on a tagged thought may be a copy of it."""
        buffered: list[Delta] = []
        if self._state is State.INSIDE and self._start not in OPENED:
            # A tag without a thought, so far.
            self._copy = ThoughtCopy(thought, withheld="".join((self._closings.opening, *self._thought)))
            self._state = State.COPYING
        elif self._state is not State.BEFORE:
            buffered = self.release()
            # The text does not begin inside a thought, whatever was assumed.
            if self._state is State.INSIDE:
                self._start, self._state = Start.UNKNOWN, State.BEFORE
        self._reported = True
        self._thought, self._joined = [thought], 0
        return [*buffered, ReasoningDelta(thought)]

    def _reported_again(self, thought: str) -> list[Delta]:
        """The tagged thought came first: what the field has is passed on once it differs."""
        if self._copy is None:
            self._copy = ThoughtCopy("".join(self._thought))
        if self._copy.differs:
            return [ReasoningDelta(thought)]
        self._copy.second(thought)
        return [ReasoningDelta(self._copy.withheld)] if self._copy.differs else []

    def _copying(self, deltas: list[Delta]) -> bool:
        assert self._copy is not None
        copy = self._copy
        text, closed, self._rest = self._closings.split(self._rest)
        copy.second(text)
        copy.withhold(closed)
        if copy.differs:
            deltas += self._show(copy)
        elif closed:
            self._state = State.COPIED
            if copy.is_whole or copy.is_blank:
                self._drop()
        return bool(closed)

    def _copied(self, deltas: list[Delta]) -> bool:
        assert self._copy is not None
        visible = self._rest.lstrip()
        self._copy.follow(self._rest[: len(self._rest) - len(visible)])
        self._rest = visible
        if not visible:
            return False
        deltas += self._settle(self._copy)
        return True

    def _settle(self, copy: ThoughtCopy) -> list[Delta]:
        """No more of it comes. What repeats only the beginning of the thought, and is not closed, was cut off."""
        if self._state is State.COPIED and copy.is_whole:
            self._drop()
            return self._visible(copy.space)
        return self._show(copy) if self._state is State.COPIED or copy.second_has_more else []

    def _drop(self) -> None:
        self._state = State.PLAIN
        self._copy = None
        self.dropped = True

    def _show(self, copy: ThoughtCopy) -> list[Delta]:
        """All of it, as it came."""
        self._state = State.PLAIN
        self._copy = None
        rest, self._rest = self._rest, ""
        return self._visible(copy.withheld + rest)

    # ---- the states --------------------------------------------------------------------------------------------------

    def _before(self, deltas: list[Delta]) -> bool:
        visible = self._rest.lstrip()
        leading_space = self._rest[: len(self._rest) - len(visible)]
        if visible.startswith(self._tags.openings):
            self._closings = self._tags.opened_by(visible)
            opening = self._closings.opening
            self._rest = visible[len(opening) :]
            if self._reported:
                self._copy = ThoughtCopy("".join(self._thought), withheld=leading_space + opening)
                self._state = State.COPYING
                return True
            self._state = State.INSIDE
            self.found = True
            return True
        if visible not in self._tags.beginnings:
            self._state = State.TEXT
            return True
        if leading_space:
            deltas.append(TextDelta(leading_space))
        self._rest = visible
        return False

    def _inside(self, deltas: list[Delta]) -> bool:
        thought, closed, self._rest = self._closings.split(self._rest)
        deltas += self._reasoning(thought)
        if not closed:
            return False
        deltas += self._release_assumed()
        self.unopened = self._start in OPENED
        self._start = Start.UNKNOWN
        self.found = True
        # Another thought may follow directly; visible text ends the search.
        self._state = State.BEFORE
        return True

    def _text(self, deltas: list[Delta]) -> bool:
        if self.found or self._reported:
            self._state = State.PLAIN
            return True
        at, end = self._closings.find_unquoted(self._rest, self._last)
        if at >= 0:
            shown, self._rest = self._rest[:at], self._rest[end:]
            deltas += self._visible(shown) if self._last else self._reasoning(shown)
            deltas.append(ThoughtEnded())
            self._state = State.PLAIN
            self.found = self.unopened = True
            return True
        if self._start is Start.PATIENT:
            self._waiting.add(self._rest, self._closings)
            self._rest = ""
            return False
        partial = self._closings.partial_length(self._rest)
        deltas += self._visible(self._rest[: len(self._rest) - partial])
        self._rest = self._rest[len(self._rest) - partial :]
        return False

    def _plain(self, deltas: list[Delta]) -> bool:
        deltas += self._visible(self._rest)
        self._rest = ""
        return False

    def _visible(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._last = text[-1]
        return [TextDelta(text)]

    def _reasoning(self, text: str) -> list[Delta]:
        """A piece of a tagged thought."""
        if not text:
            return []
        self._thought.append(text)
        if self._start in OPENED:
            self._assumed.append(text)
        if self._start is Start.INSIDE_PATIENT:
            self._waiting.size += len(text)
            return []
        if (copy := self._copy) is None or copy.differs:
            return [ReasoningDelta(text)]
        copy.first(text)
        return [ReasoningDelta(text), *([ReasoningDelta(copy.withheld)] if copy.differs else ())]


_STEPS: dict[State, Callable[[ThinkTags, list[Delta]], bool]] = {
    State.BEFORE: ThinkTags._before,
    State.INSIDE: ThinkTags._inside,
    State.COPYING: ThinkTags._copying,
    State.COPIED: ThinkTags._copied,
    State.TEXT: ThinkTags._text,
    State.PLAIN: ThinkTags._plain,
}
