"""The type of an operation: a generator that yields statements, is sent their rows, and returns a result.

Statements are written for Postgres; `store.sqlite_file` translates what SQLite spells differently.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from antiphon.store.records import Item, Record
from antiphon.store.wakeups import Wakeups

T = TypeVar("T")
Row: TypeAlias = Sequence[Any]


class Statement(NamedTuple):
    """One statement. Its rows are sent back."""

    text: str
    values: Sequence[Any] = ()


class Change(NamedTuple):
    """One statement without rows of its own. One row is sent back: the number of rows that it changed."""

    text: str
    values: Sequence[Any] = ()


class Many(NamedTuple):
    """One statement, executed for each of many sets of values. No rows are sent back."""

    text: str
    values: list[Row]


class LongWrite(NamedTuple):
    """A statement that writes one row, one value of which is long: where the database can do so, it is put into its column
    piece by piece. No rows are sent back."""

    # `{long}` stands for the placeholder of the long value.
    text: str
    values: Sequence[Any]
    # The index of the long value, and where it goes.
    long: int
    table: str
    column: str


class LongRead(NamedTuple):
    """A part of a long value, of the row for which the condition is true. Sent back as the only value of a row, if any."""

    table: str
    column: str
    condition: str
    values: Sequence[Any]
    start: int
    size: int


class Wake(NamedTuple):
    """Wakes the subscribers of a topic after the commit; with Postgres, in every gateway."""

    topic: str


Step: TypeAlias = Statement | Change | Many | LongWrite | LongRead | Wake
Operation: TypeAlias = Generator[Step, list[Row], T]


# The most values in a list of placeholders.
MOST_VALUES = 500


def in_groups(values: Sequence[T], most: int = MOST_VALUES) -> Iterator[Sequence[T]]:
    """The values in groups that are small enough for one statement."""
    return (values[start : start + most] for start in range(0, len(values), most))


def placeholders(first: int, number: int) -> str:
    """`$3, $4, $5`: one for each value, because SQLite cannot bind a list."""
    return ", ".join(f"${index}" for index in range(first, first + number))


# ---- databases -------------------------------------------------------------------------------------------------------


class Database(Protocol):
    """Runs operations. Raises StoreUnavailable if it cannot, or not in time."""

    wakeups: Wakeups

    def clock(self) -> float: ...

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that changes nothing."""

    async def write(self, operation: Operation[T]) -> T:
        """Run an operation completely or not at all, and durably; then wake the subscribers."""

    async def maintain(self, operation: Operation[T]) -> T:
        """Run an operation whose statements may take long. Where they cannot be in a transaction, they are not."""


class ResponseDatabase(Database, Protocol):
    """With what only the store of responses does."""

    @property
    def generation(self) -> int:
        """Changes when a database with other contents has taken the place of this one."""

    async def check(self) -> None:
        """Like `Store.check`."""

    async def put(self, record: Record) -> None:
        """Like `Store.put`; concurrent puts share a transaction."""

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        """Like `Store.put_and_unlock`."""

    async def size(self, limit: int) -> int:
        """The bytes in use: an estimate, unless that exceeds the limit; then the sum of the sizes that the sweeper uses."""


# ---- statements of one kind of database ------------------------------------------------------------------------------
# Each indexes words in its own way, and passes over the statements of the other: an operation gets no rows for them.


class SqliteOnly(str):
    __slots__ = ()


class PostgresOnly(str):
    __slots__ = ()
