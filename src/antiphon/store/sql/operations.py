"""The type of an operation: a generator that yields statements, is sent their rows, and returns what came of it.

Statements are written for Postgres; SQLite's database translates what it words otherwise.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Row: TypeAlias = Sequence[Any]


class Statement(NamedTuple):
    """One statement; its rows are sent back."""

    text: str
    values: Sequence[Any] = ()


class Change(NamedTuple):
    """One statement that has no rows to show; sent back is one row, with the number of rows that it changed."""

    text: str
    values: Sequence[Any] = ()


class Many(NamedTuple):
    """One statement for each of many sets of values; no rows are sent back."""

    text: str
    values: list[Row]


class Ring(NamedTuple):
    """Rings a bell, here and wherever else the database is used, once all is written."""

    name: str


Step: TypeAlias = Statement | Change | Many | Ring
Operation: TypeAlias = Generator[Step, list[Row], T]


def placeholders(first: int, number: int) -> str:
    """`$3, $4, $5`: as many as there are values, because a list of them is no value in SQLite."""
    return ", ".join(f"${place}" for place in range(first, first + number))
