"""How much work something is, counted and not timed, so that a busy machine does not matter."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import antiphon

SOURCES = str(Path(antiphon.__file__).parent)

# Calls in Python 3.11, and no longer in 3.12: what is counted is the same in both.
INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})


def count_calls(work: Callable[[], object]) -> int:
    """How many functions are called, those written in C included."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "c_call" or (event == "call" and frame.f_code.co_name not in INLINED)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How many functions of the gateway are called meanwhile; each value that a generator gives counts too."""
    counted = [0]

    def count(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCES) and code.co_name not in INLINED:
            counted[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(before)


class CopiedText(str):
    """A piece of text that counts how many characters are copied whenever a text before it is made longer with it.

    Python copies both to join two strings: a text that grows piece by piece is copied once for each piece.
    """

    __slots__ = ()
    copied = 0

    def __radd__(self, other: str) -> str:
        CopiedText.copied += len(other)
        return str(other) + str(self)


def count_copied(work: Callable[[], object]) -> int:
    CopiedText.copied = 0
    work()
    return CopiedText.copied


def assert_linear(
    work_of: Callable[[int], Callable[[], object]], size: int, count: Callable[[Callable[[], object]], int]
) -> None:
    """`work_of` makes the work for an input of a size. Twice the input may be twice the work, and a little more."""
    once, twice = count(work_of(size)), count(work_of(2 * size))
    assert twice <= 2.5 * once + 2000, f"{once} operations for {size}, {twice} for {2 * size}"
