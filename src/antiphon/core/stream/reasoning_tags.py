"""The pairs of tags between which models write their reasoning, one row each; and whether an answer begins inside of one."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import UNSET

from antiphon.core.checks.constraints import is_free_text
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.stream.text_calls.markdown import QUOTES
from antiphon.wire.chat import ChatRequest


class TagPair(NamedTuple):
    opening: str
    closing: str


# What models write in the text of an answer, if their engine does not parse it. No opening tag is the beginning of another.
PAIRS = (TagPair("<think>", "</think>"),)


def partial_tag_length(text: str, tag: str) -> int:
    """The number of characters at the end of the text that may be the beginning of the tag."""
    at = text.find(tag[:1], max(0, len(text) - len(tag) + 1))
    while at >= 0:
        if tag.startswith(text[at:]):
            return len(text) - at
        at = text.find(tag[:1], at + 1)
    return 0


class ClosingTags:
    """Finds the first of several closing tags, in a text that may end inside one.

    `opening`: the tag that they close. It is empty where the template may have written any.
    `first`: the character that all of them begin with. Where they differ it is empty, and so in every text.
    """

    __slots__ = ("_firsts", "_lasts", "first", "longest", "opening", "tags")

    def __init__(self, tags: Sequence[str], opening: str = "") -> None:
        self.tags = tuple(tags)
        self.opening = opening
        self._firsts, self._lasts = ("".join(dict.fromkeys(tag[at] for tag in tags)) for at in (0, -1))
        self.first = self._firsts if len(self._firsts) == 1 else ""
        self.longest = max(map(len, tags))

    def cannot_begin_in(self, text: str) -> bool:
        """The text has no beginning of a tag. A text without `first` need not be asked."""
        return not any(first in text for first in self._firsts)

    def may_end_in(self, text: str) -> bool:
        return any(last in text for last in self._lasts)

    def find_unquoted(self, text: str, last: str, searched: int = 0) -> tuple[int, int]:
        """Where the first tag that is not quoted begins and ends, or -1. `last`: the character before the text, if any.
        `searched`: how much of the text was searched before. A tag that was complete there was quoted."""
        begin = end = -1
        for tag in self.tags:
            at = text.find(tag, max(0, searched - len(tag) + 1))
            while at >= 0 and (before := text[at - 1] if at else last) and before in QUOTES:
                at = text.find(tag, at + 1)
            if at >= 0 and (begin < 0 or at < begin):
                begin, end = at, at + len(tag)
        return begin, end

    def split(self, text: str) -> tuple[str, str, str]:
        """What precedes the first tag, the tag, and what follows it. Without a tag that is what may be the beginning of one."""
        found: tuple[str, str, str] | None = None
        for tag in self.tags:
            parts = text.partition(tag)
            if parts[1] and (found is None or len(parts[0]) < len(found[0])):
                found = parts
        if found is not None:
            return found
        at = len(text) - self.partial_length(text)
        return text[:at], "", text[at:]

    def partial_length(self, text: str) -> int:
        """The number of characters at the end of the text that may be the beginning of a tag."""
        longest = 0
        for tag in self.tags:
            if (size := partial_tag_length(text, tag)) > longest:
                longest = size
        return longest


class ReasoningTags:
    """The rows of a table as a search needs them."""

    __slots__ = ("_closings", "beginnings", "closings", "openings")

    def __init__(self, pairs: Sequence[TagPair]) -> None:
        self.openings = tuple(pair.opening for pair in pairs)
        # All that may become an opening tag.
        self.beginnings = frozenset(opening[:size] for opening in self.openings for size in range(len(opening)))
        # Those that may end a thought that the template has opened.
        self.closings = ClosingTags([pair.closing for pair in pairs])
        self._closings = [ClosingTags([pair.closing], pair.opening) for pair in pairs]

    def opened_by(self, text: str) -> ClosingTags:
        """What closes the thought that the text begins with."""
        return next(closing for closing in self._closings if text.startswith(closing.opening))

    def removed_from(self, text: str) -> str:
        """The text without its tags."""
        for tag in (*self.openings, *self.closings.tags):
            text = text.replace(tag, "")
        return text


TAGS = ReasoningTags(PAIRS)


class Start(Enum):
    # Enum's own is written in Python, and members are looked up for every delta.
    __hash__ = object.__hash__

    UNKNOWN = "not known: text is emitted as it arrives"
    INSIDE = "the template has opened the thought: text belongs to it until it is closed"
    INSIDE_PATIENT = "the same, and no client is waiting: it is buffered until the thought is closed, or turns out to be text"
    NEVER = "the answer is constrained to JSON from its first token on: nothing in it is a thought"
    PATIENT = "not known, and no client is waiting for text: it is buffered until it is known"


def thought_start(chat: ChatRequest, dialect: Dialect, *, is_seen: bool) -> Start:
    """`is_seen`: somebody sees the answer while it is written."""
    # A constrained answer, or one without thinking, does not begin inside a thought.
    if chat.grammar is not UNSET and not is_free_text(chat, dialect):
        return Start.NEVER
    constrained = chat.response_format is not UNSET or not dialect.thinks or chat.reasoning_effort == "none"
    if dialect.opens_thought and not constrained:
        return Start.INSIDE if is_seen else Start.INSIDE_PATIENT
    return Start.UNKNOWN if is_seen else Start.PATIENT
