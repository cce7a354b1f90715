"""What a store needs of a database."""

from typing import Protocol, TypeVar

from antiphon.store.records import Record
from antiphon.store.sql.operations import Operation
from antiphon.store.wakeups import Wakeups

T = TypeVar("T")


class Database(Protocol):
    """Runs operations. Raises StoreUnavailable if it cannot, or not in time."""

    wakeups: Wakeups

    def clock(self) -> float: ...

    async def read(self, operation: Operation[T]) -> T:
        """Run an operation that changes nothing."""

    async def write(self, operation: Operation[T]) -> T:
        """Run an operation completely or not at all, and durably; then wake the subscribers."""


class ResponseDatabase(Database, Protocol):
    """With what only the store of responses does."""

    @property
    def generation(self) -> int:
        """Changes when a database with other contents has taken the place of this one."""

    async def check(self) -> None:
        """Like `Store.check`."""

    async def put(self, record: Record) -> None:
        """Like `Store.put`; concurrent puts share a transaction."""

    async def size(self, limit: int) -> int:
        """The bytes in use: an estimate, unless that exceeds the limit; then the sum of the sizes that the sweeper uses."""
