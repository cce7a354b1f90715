"""Patterns that are compiled when they are first used: there are hundreds, and a gateway uses few. Those of `re`, but for some
versions of Python; and those of the library `regex`, which knows partial matches and the scripts of Unicode, and is imported
with the first of them."""

import re
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, AnyStr, Protocol, cast

if TYPE_CHECKING:
    import regex


class _LatePattern:
    """Has the methods of the pattern: each is looked for once."""

    def __init__(self, compile: Callable[[], re.Pattern[Any]]) -> None:
        self._compile = compile

    @cached_property
    def _compiled(self) -> re.Pattern[Any]:
        return self._compile()

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self._compiled, name)
        return found


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, which takes a tenth of a millisecond for a pattern of some length."""
    return cast("re.Pattern[AnyStr]", _LatePattern(partial(re.compile, pattern, flags)))


# Before 3.11.5, Python's own patterns take too much where a possessive group fails halfway (python/cpython, issue 106052).
# Debian 12 has 3.11.2.
POSSESSIVE_GROUPS_WORK = sys.version_info >= (3, 11, 5)


def possessive(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern with a possessive group, such as `(?:…)*+`, which `re` reads where it can."""
    return late_pattern(pattern, flags) if POSSESSIVE_GROUPS_WORK else possessive_by_regex(pattern, flags)


def possessive_by_regex(pattern: str, flags: int) -> re.Pattern[str]:
    def compile() -> Any:
        import regex

        return regex.compile(pattern, flags)

    return cast("re.Pattern[str]", _LatePattern(compile))


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
