"""Patterns of the library `regex`, which knows partial matches and the scripts of Unicode. There are two hundred of them, and a
gateway uses few: each is compiled, and the library imported, when one is first used. And patterns that `re` reads, but for some
versions of Python."""

import re
import sys
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import regex


# Before 3.11.5, Python's own patterns take too much where a possessive group fails halfway (python/cpython, issue 106052).
# Debian 12 has 3.11.2.
POSSESSIVE_GROUPS_WORK = sys.version_info >= (3, 11, 5)


def possessive(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern with a possessive group, such as `(?:…)*+`, which `re` reads where it can."""
    return re.compile(pattern, flags) if POSSESSIVE_GROUPS_WORK else possessive_by_regex(pattern, flags)


def possessive_by_regex(pattern: str, flags: int) -> re.Pattern[str]:
    import regex

    return regex.compile(pattern, flags)  # type: ignore[return-value]


class Matching(Protocol):
    def __call__(self, text: str, at: int = 0, /, *, partial: bool = False) -> "regex.Match[str] | None": ...


class Searching(Protocol):
    def __call__(self, text: str, at: int = 0, /) -> re.Match[str] | None: ...


class Pattern:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    @cached_property
    def compiled(self) -> "regex.Pattern[str]":
        import regex

        return regex.compile(self._pattern)

    @cached_property
    def match(self) -> Matching:
        # Otherwise it lets other threads run, even for a match of a microsecond, and may have to wait 5 ms for its turn.
        return partial(self.compiled.match, concurrent=False)

    @cached_property
    def search(self) -> Searching:
        """By `re`, which is faster where no partial match is needed."""
        return re.compile(self._pattern).search


def any_of(texts: Sequence[str]) -> Pattern | None:
    return Pattern("|".join(map(re.escape, texts))) if texts else None
