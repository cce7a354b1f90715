"""The buffered text of what may become a call, and the steps in which it is read.

A step is a generator that yields wherever more text is needed. So a form is written down in the order in which it is read,
and no character is read twice, however the text is split.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, TypeVar

from antiphon.partial_json import Brackets
from antiphon.patterns import Pattern, late_pattern

if TYPE_CHECKING:
    import regex

T = TypeVar("T")
Reading = Generator[None, None, T]

# No end of a call or of a parameter is longer.
LONGEST_END = 64
_VISIBLE = late_pattern(r"\S")


class NotACall(Exception):
    """What was read is not a call, whatever follows."""


def required(found: T | None) -> T:
    """What was found, or else it is not a call."""
    if found is None:
        raise NotACall
    return found


class Source:
    """`text` grows at its end only. `at` is the position of the next character to read, `reached` how far it was read ahead."""

    __slots__ = ("at", "ended", "reached", "text")

    def __init__(self, at: int) -> None:
        self.text = ""
        self.at = self.reached = at
        # No more text will come.
        self.ended = False

    def more(self) -> Reading[None]:
        """Waits for more text."""
        if self.ended:
            self.reached = len(self.text)
            raise NotACall
        yield

    def white_space(self) -> Reading[None]:
        """Skips white space. Afterwards there is a character to read, or the text has ended."""
        while True:
            self.at = skip_whitespace(self.text, self.at)
            if self.at < len(self.text) or self.ended:
                return
            yield

    def token(self, pattern: Pattern) -> Reading["regex.Match[str]"]:
        """What matches here. The pattern is of bounded length, and more text after a match does not change it."""
        return (yield from self.first_of([pattern]))[1]

    def first_of(self, patterns: Sequence[Pattern]) -> Reading[tuple[int, "regex.Match[str]"]]:
        """The first of the patterns that matches here, and its match."""
        while True:
            undecided = False
            for index, pattern in enumerate(patterns):
                found = pattern.match(self.text, self.at, partial=True)
                if found is None:
                    continue
                if not found.partial:
                    self.at = found.end()
                    return index, found
                if not self.ended:
                    undecided = True
                    break
            if not undecided:
                raise NotACall
            yield

    def json_value(self) -> Reading[str]:
        """The object or array that begins here, by its brackets."""
        brackets, start, scanned = Brackets(), self.at, self.at
        while (end := brackets.receive(self.text, scanned)) is None:
            scanned = len(self.text)
            yield from self.more()
        self.at = self.reached = end
        return self.text[start:end]

    def json_until(self, ends: Pattern) -> Reading[str | None]:
        """The JSON up to one of the ends that is not inside a string. None: the text has ended without one."""
        brackets, start, scanned, searched = Brackets(), self.at, self.at, self.at
        while True:
            found = ends.search(self.text, searched)
            if found is None:
                if self.ended:
                    self.reached = len(self.text)
                    return None
                searched = max(searched, len(self.text) - LONGEST_END)
                yield
                continue
            while (end := brackets.receive(self.text, scanned, found.start())) is not None:
                scanned = end
            scanned, searched = found.start(), found.end()
            if not brackets.in_string:
                self.at = self.reached = found.start()
                return self.text[start : self.at]


def skip_whitespace(text: str, at: int = 0) -> int:
    """The position of the first character that is not white space, or the end."""
    found = _VISIBLE.search(text, at)
    return len(text) if found is None else found.start()
