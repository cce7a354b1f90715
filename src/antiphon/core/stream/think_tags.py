"""Reasoning that an engine leaves in the text, between `<think>` and `</think>`, found however the text is split.

Tags count only before the first visible text, where a thought can be. Later tags are text, because the model may write *about*
them. One case cannot be decided at the beginning of a stream: if the chat template has already opened the thought, the text
starts inside it and only `</think>` comes. `Start` says what is known about that.

If the engine also reports reasoning in a separate field, one of the two is a copy of the other (llama.cpp's `deepseek-legacy`),
and only the first is passed on. What differs is no copy: a tagged text is then the model's text, and is shown with its tag.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from msgspec import UNSET

from antiphon.core.checks.constraints import is_free_text
from antiphon.core.events.deltas import (
    Delta,
    ReasoningDelta,
    TextDelta,
    ThoughtEnded,
)
from antiphon.core.events.plain_deltas import MOST_PIECES, join_from
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.stream.fast_path import Takes
from antiphon.core.stream.text_calls.markdown import QUOTES
from antiphon.core.stream.thought_copies import ThoughtCopy
from antiphon.wire.chat import ChatRequest

OPEN = "<think>"
CLOSE = "</think>"


class Start(Enum):
    # Enum's own is written in Python, and members are looked up for every delta.
    __hash__ = object.__hash__

    UNKNOWN = "not known: text is emitted as it arrives"
    INSIDE = "the template has opened the thought: text belongs to it until it is closed"
    INSIDE_PATIENT = "the same, and no client is waiting: it is buffered until the thought is closed, or turns out to be text"
    NEVER = "the answer is constrained to JSON from its first token on: nothing in it is a thought"
    PATIENT = "not known, and no client is waiting for text: it is buffered until it is known"


class State(Enum):
    __hash__ = object.__hash__

    BEFORE = "no visible text yet: a thought may open"
    INSIDE = "inside a thought"
    COPYING = "inside a tagged text that repeats the reported thought so far: it is withheld"
    COPIED = "such a text was closed before all of it was reported: it is withheld until visible text begins"
    TEXT = "visible text has begun; one unopened `</think>` may still come"
    PLAIN = "no more tags are expected"
    PROMPT = "JSON comes next; an engine that takes it for a thought may repeat the end of the prompt before it"
    FENCED = "inside JSON in a fence whose opening was left out: so is its end"


FIRST_STATES = {Start.INSIDE: State.INSIDE, Start.INSIDE_PATIENT: State.INSIDE, Start.NEVER: State.PROMPT}
# What JSON may begin with.
JSON_STARTS = frozenset('{["-0123456789tfn')
# A fence that opens before JSON, and the one that closes it: no string of JSON has a line break in it.
OPENING_FENCE = re.compile(r"```[\w+-]{0,32}\s*\Z")
CLOSING_FENCE = re.compile(r"\n[^\S\n]*+```")
# More white space than that is not kept back because a fence may follow.
LONGEST_BEFORE_FENCE = 256


def partial_tag_length(text: str, tag: str) -> int:
    """The number of characters at the end of the text that may be the beginning of the tag."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return size
    return 0


def _up_to_close(text: str) -> tuple[str, str, str]:
    """What precedes the closing tag, the tag, and what follows it. Without a tag that is what may be the beginning of one."""
    before, closed, rest = text.partition(CLOSE)
    if closed:
        return before, closed, rest
    at = len(text) - partial_tag_length(text, CLOSE)
    return text[:at], "", text[at:]


def _unquoted_close(text: str, last: str, start: int = 0) -> int:
    """Where the first closing tag is that is not quoted, or -1. `last`: the character before the text, if any."""
    at = text.find(CLOSE, start)
    while at >= 0 and (before := text[at - 1] if at else last) and before in QUOTES:
        at = text.find(CLOSE, at + 1)
    return at


class Continues(NamedTuple):
    """Pieces that are nothing but their text become deltas of this kind, if it takes them. They need not be received."""

    kind: type[Delta]
    takes: Takes | None = None
    # None with this in it is taken. A call less for every delta than `takes`.
    without: str | None = None


# Looked up once, because they are needed for every delta.
PLAIN, TEXT, BEFORE, PATIENT = State.PLAIN, State.TEXT, State.BEFORE, Start.PATIENT
PATIENTS = (Start.PATIENT, Start.INSIDE_PATIENT)
# The template has opened the thought.
OPENED = (Start.INSIDE, Start.INSIDE_PATIENT)


class ThinkTags:
    """`receive()` takes pieces of content, `report()` those of a field for reasoning, and both return deltas. `close()` returns
    what was buffered.

    `found`: a tagged thought was found. `unopened`: the template had opened it. `dropped`: a copy was dropped.
    `left_out`: what preceded JSON, but for tags, and is not passed on.
    """

    __slots__ = (
        "_assumed",
        "_copy",
        "_end",
        "_joined",
        "_last",
        "_reported",
        "_rest",
        "_skipped",
        "_skips",
        "_start",
        "_state",
        "_thought",
        "_waiting",
        "dropped",
        "found",
        "left_out",
        "unopened",
        "waiting",
    )

    def __init__(self, start: Start = Start.UNKNOWN) -> None:
        self._start = start
        self._state = FIRST_STATES.get(start, State.BEFORE)
        self._rest = ""
        # Text that waits for a closing tag, and its end: what is new is searched, and not all of it again.
        self._waiting: list[str] = []
        self._end = ""
        # How many characters wait for one.
        self.waiting = 0
        # What precedes JSON, and whether it is more than white space.
        self._skipped: list[str] = []
        self._skips = False
        self._last = ""
        self._assumed: list[str] = []
        # The thought so far, from the place where it came first, and what comes in the other place.
        self._thought: list[str] = []
        # How many of its pieces were made of many.
        self._joined = 0
        self._copy: ThoughtCopy | None = None
        self._reported = False
        self.dropped = False
        self.left_out = ""
        self.found = False
        self.unopened = False

    def receive(self, text: str) -> list[Delta]:
        if self.take_if_plain(text):
            return [TextDelta(text)]
        if self._waiting:
            if not self._is_closed_by(text):
                return []
            self._rest = self._take_rest()
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and _STEPS[self._state](self, deltas):
            pass
        return deltas

    def _is_closed_by(self, text: str) -> bool:
        """Whether a closing tag ends with this piece of the text. If not, the piece waits, too."""
        seen = self._end + text
        # A tag that was complete before was quoted.
        if _unquoted_close(seen, self._last, max(0, len(self._end) - len(CLOSE) + 1)) >= 0:
            return True
        self._waiting.append(text)
        self.waiting += len(text)
        self._end = seen[-len(CLOSE) :]
        return False

    def _take_rest(self) -> str:
        rest = "".join((*self._skipped, *self._waiting, self._rest))
        self._skipped.clear()
        self._waiting.clear()
        self._rest = ""
        self.waiting = 0
        return rest

    def take_if_plain(self, text: str) -> bool:
        """True if the piece is certainly only text: it is then taken, and need not be received."""
        state = self._state
        if state is TEXT and not self._rest and "<" not in text and self._start is not PATIENT:
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
            return Continues(TextDelta, without="<")
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
        if "<" in text:
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
        elif self._state is State.FENCED and rest.strip() == "```":
            deltas = []
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
            self._copy = ThoughtCopy(thought, withheld="".join((OPEN, *self._thought)))
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
        text, closed, self._rest = _up_to_close(self._rest)
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
        return self._show(copy) if self._state is State.COPIED or copy.second_is_longer else []

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
        if visible.startswith(OPEN):
            self._rest = visible[len(OPEN) :]
            if self._reported:
                self._copy = ThoughtCopy("".join(self._thought), withheld=leading_space + OPEN)
                self._state = State.COPYING
                return True
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
        if visible and (self._skips or visible[0] not in JSON_STARTS):
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
        self.left_out = before.replace(OPEN, "").replace(CLOSE, "").strip()
        return True

    def _fenced(self, deltas: list[Delta]) -> bool:
        closing = CLOSING_FENCE.search(self._rest)
        if closing is not None:
            deltas += self._visible(self._rest[: closing.start()].rstrip())
            self._rest = self._rest[closing.end() :]
            self._state = State.PLAIN
            return True
        shown = self._rest.rstrip().rstrip("`").rstrip()
        if len(self._rest) - len(shown) > LONGEST_BEFORE_FENCE:
            shown = self._rest
        deltas += self._visible(shown)
        self._rest = self._rest[len(shown) :]
        return False

    def _inside(self, deltas: list[Delta]) -> bool:
        thought, closed, self._rest = _up_to_close(self._rest)
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
        at = _unquoted_close(self._rest, self._last)
        if at >= 0:
            shown, self._rest = self._rest[:at], self._rest[at + len(CLOSE) :]
            deltas += self._visible(shown) if self._last else self._reasoning(shown)
            deltas.append(ThoughtEnded())
            self._state = State.PLAIN
            self.found = self.unopened = True
            return True
        if self._start is Start.PATIENT:
            self._end = self._rest[-len(CLOSE) :]
            self._waiting.append(self._rest)
            self.waiting += len(self._rest)
            self._rest = ""
            return False
        partial = partial_tag_length(self._rest, CLOSE)
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
            self.waiting += len(text)
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
    State.PROMPT: ThinkTags._prompt,
    State.FENCED: ThinkTags._fenced,
}


# ---- Where an answer begins: inside a thought that the template has opened, outside of one, or nobody knows ----------


def thought_start(chat: ChatRequest, dialect: Dialect, *, is_seen: bool) -> Start:
    """`is_seen`: somebody sees the answer while it is written."""
    # A constrained answer, or one without thinking, does not begin inside a thought.
    if chat.grammar is not UNSET and not is_free_text(chat, dialect):
        return Start.NEVER
    constrained = chat.response_format is not UNSET or not dialect.thinks or chat.reasoning_effort == "none"
    if dialect.opens_thought and not constrained:
        return Start.INSIDE if is_seen else Start.INSIDE_PATIENT
    return Start.UNKNOWN if is_seen else Start.PATIENT
