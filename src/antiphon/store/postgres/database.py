"""The store in Postgres: a pool that reconnects, one statement for concurrent puts, wakeups that reach every gateway."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import asyncpg
from msgspec import Struct

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.accounts import usage
from antiphon.store.files.opened import LazyDatabase
from antiphon.store.files.schema import FILE_MIGRATIONS
from antiphon.store.operations import Change, Database, LongRead, LongWrite, Many, Operation, Row, SqliteOnly, Wake
from antiphon.store.postgres.address import address_to_words
from antiphon.store.postgres.listener import Listener
from antiphon.store.postgres.write_groups import WriteGroups
from antiphon.store.protocol import CannotOpen, FileStore
from antiphon.store.records import Item, Record
from antiphon.store.sql import conversations, responses, sweeper
from antiphon.store.sql.item_index import record_keys
from antiphon.store.sql.schema import MIGRATIONS, Migrations, note_oldest, pending
from antiphon.store.wakeups import Wakeups

# A value has no parts in the protocol of Postgres. So they are sent as rows of a table that no one else sees and that is empty
# after the transaction, and the server joins them.
_PARTS = "antiphon_parts"
_CREATE = f"CREATE TEMPORARY TABLE IF NOT EXISTS {_PARTS} (number bigint, data bytea) ON COMMIT DELETE ROWS"
_ADD = f"INSERT INTO {_PARTS} (number, data) VALUES ($1, $2)"
_JOINED = f"(SELECT string_agg(data, {{between}} ORDER BY number) FROM {_PARTS})"
# Not every user of a database may create such tables.
_MAY_CREATE = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"


async def write_long(connection: Any, step: LongWrite, values: list[Any]) -> None:
    """In a transaction."""
    pieces, place = values[step.long], f"${step.long + 1}"
    if await connection.fetchval(_MAY_CREATE):
        await connection.execute(_CREATE)
        await connection.executemany(_ADD, enumerate(pieces))
        # What is put between the parts.
        values[step.long] = b""
        await connection.execute(step.text.format(long=_JOINED.format(between=place)), *values)
        # There may be another long value in the same transaction.
        await connection.execute(f"DELETE FROM {_PARTS}")
    else:
        values[step.long] = b"".join(pieces)
        await connection.execute(step.text.format(long=place), *values)


async def read_long(connection: Any, step: LongRead, values: list[Any]) -> list[Row]:
    at = len(values) + 1
    text = f"SELECT substring({step.column} FROM ${at} FOR ${at + 1}) FROM {step.table} WHERE {step.condition}"
    rows: list[Row] = await connection.fetch(text, *values, step.start + 1, step.size)
    return rows


# ---- the database ----------------------------------------------------------------------------------------------------

T = TypeVar("T")

# The tables have a schema of their own, so that other programs can use the same database.
SCHEMA = "antiphon"
FILE_SCHEMA = "antiphon_files"
SESSION = {
    "application_name": "antiphon",
    # Every statement has an index to use. Postgres caches plans: one made while a table is small must not scan it later.
    "enable_seqscan": "off",
    # A plan that cannot do without a scan is taken for a costly one, and would be compiled each time: a tenth of a second, also
    # for what the driver asks when it connects. No statement here runs long enough to be worth it.
    "jit": "off",
}
# The advisory lock of migrations. The number is arbitrary.
MIGRATION_LOCK = 0x416E7466
CONNECTIONS = 10
# Between two attempts to open the database, in seconds.
RETRY_DELAY = 0.5
UNREACHABLE = (
    "cannot reach Postgres at {address}: {reason}. Start the server, or correct the setting store (ANTIPHON_STORE, --store)."
)
# Takes one array for each column. Returns the ids that were written, without those that existed already.
_TYPES = {"created_at": "bigint", "expires_at": "bigint", "kept_after_end": "bigint", "background": "boolean"}
_TYPES |= dict.fromkeys(("input", "output", "settings"), "bytea")
_ARRAYS = ", ".join(f"${number}::{_TYPES.get(name, 'text')}[]" for number, name in enumerate(responses.FIELDS, 1))
_INSERT = responses.INSERT.format(
    values=f"SELECT *, kept_after_end IS NOT NULL, true FROM unnest({_ARRAYS}) AS given ({responses.COLUMNS})"
)
# After the columns: the items, each with its response, and the time.
_ITEMS, _RESPONSES_OF_ITEMS, _NOW = range(len(responses.FIELDS) + 1, len(responses.FIELDS) + 4)
# And what they used, one array for each column.
_USAGE_COLUMNS = usage.COLUMNS.split(", ")
_USAGE_TYPES = dict.fromkeys(("id", "owner", "model", "channel"), "text")
_USAGE_ARRAYS = ", ".join(
    f"${number}::{_USAGE_TYPES.get(name, 'bigint')}[]" for number, name in enumerate(_USAGE_COLUMNS, _NOW + 1)
)
PUT_MANY = f"""
WITH written AS ({_INSERT} RETURNING id), indexed AS (
    INSERT INTO response_items (item, response, written_at)
    SELECT given.item, written.id, ${_NOW}
    FROM unnest(${_ITEMS}::bytea[], ${_RESPONSES_OF_ITEMS}::text[]) AS given (item, response)
    JOIN written ON written.id = given.response
), counted AS (
    INSERT INTO usage_entries ({usage.COLUMNS})
    SELECT given.* FROM unnest({_USAGE_ARRAYS}) AS given ({usage.COLUMNS}) JOIN written ON written.id = given.id
    ON CONFLICT (id) DO NOTHING
)
SELECT id FROM written"""
# Includes deleted rows that are not vacuumed yet.
APPROXIMATE_SIZE = """
SELECT pg_total_relation_size('responses') + pg_total_relation_size('events')
    + pg_total_relation_size('response_items') + pg_total_relation_size('conversations')
    + pg_total_relation_size('items')"""
# All errors of the database or of the connection to it.
DATABASE_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
# Errors in the URL or the permissions: a retry would not help.
PERMANENT_ERRORS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
    ValueError,
)


def session_of(schema: str) -> dict[str, str]:
    return {**SESSION, "search_path": schema}


class Timeouts(Struct, frozen=True):
    """In seconds."""

    # One operation, with the wait for a connection.
    operation: float = 10.0
    # Longer, because the size is summed over all rows. No client waits for it.
    size: float = 120.0
    connect: float = 5.0
    # A server that is starting is waited for: one that accepts connections, or drops them silently; and one that nobody can
    # connect to yet, because it is started together with the gateway, or because its address is wrong.
    open: float = 15.0
    reach: float = 5.0
    # The rollback and the release of a connection. One that takes longer is closed.
    cleanup: float = 1.0


class PostgresDatabase:
    # A server that restarts has the same contents.
    generation = 0

    def __init__(
        self,
        url: str,
        wakeups: Wakeups,
        clock: Callable[[], float] | None,
        timeouts: Timeouts,
        migrations: Migrations,
        schema: str,
    ) -> None:
        self.wakeups = wakeups
        self._url = url
        self._clock = clock
        self._timeouts = timeouts
        self._migrations = migrations
        # Also the channel of its wakeups.
        self._schema = schema
        # The server's time minus this machine's monotonic time.
        self._offset = 0.0
        self._pool: Any = None
        self._puts = WriteGroups(self._put_many)
        self._listener = Listener(self._connect, schema, wakeups, self._set_clock)

    def clock(self) -> float:
        """The time of the server, so that all gateways agree."""
        return self._clock() if self._clock is not None else time.monotonic() + self._offset

    async def open(self) -> None:
        await self._prepare()
        self._pool = await asyncpg.create_pool(min_size=0, max_size=CONNECTIONS, **self._options())
        # Without the listener, changes by other gateways are noticed later. It goes on trying to connect.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.connect):
                await self._listener.open()

    async def close(self) -> None:
        await self._listener.close()
        try:
            async with asyncio.timeout(self._timeouts.operation):
                await self._pool.close()
        except DATABASE_ERRORS:
            self._pool.terminate()

    async def check(self) -> None:
        """A server that is away may be back for the next operation, which waits for it."""

    async def read(self, operation: Operation[T]) -> T:
        async with self._connection(self._timeouts.operation) as connection:
            return await run(connection, operation, [])

    async def write(self, operation: Operation[T]) -> T:
        topics: list[str] = []
        async with self._connection(self._timeouts.operation) as connection:
            await connection.execute("BEGIN")
            result = await run(connection, operation, topics)
            # In the transaction, so that Postgres sends the notifications only after the commit.
            for topic in topics:
                await connection.execute("SELECT pg_notify($1, $2)", self._schema, topic)
            await connection.execute("COMMIT")
        for topic in topics:
            self.wakeups.wake(topic)
        return result

    async def maintain(self, operation: Operation[T]) -> T:
        """On a connection of its own, because it may take minutes."""
        connection: Any = None
        try:
            connection = await self._connect()
            return await run(connection, operation, [])
        except DATABASE_ERRORS as error:
            log("store_error", level=logging.WARNING, store="postgres", error=f"{type(error).__name__}: {error}")
            raise StoreUnavailable from error
        finally:
            if connection is not None:
                connection.terminate()

    async def put(self, record: Record) -> None:
        try:
            # Includes the time that earlier groups take.
            async with asyncio.timeout(self._timeouts.operation):
                await self._puts.put(record)
        except TimeoutError:
            raise StoreUnavailable from None

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        return await self.write(conversations.put_and_unlock(record, items, self.clock()))

    async def size(self, limit: int) -> int:
        async with self._connection(self._timeouts.size) as connection:
            size: int = await connection.fetchval(APPROXIMATE_SIZE)
            if size > limit:
                async with connection.transaction(readonly=True):
                    await connection.execute("SET LOCAL enable_seqscan = on")
                    size = min(size, await connection.fetchval(sweeper.TOTAL_SIZE))
            return size

    async def _put_many(self, records: list[Record]) -> set[str]:
        # Sorted, so that two gateways that write the same ids cannot deadlock.
        ordered = sorted(records, key=attrgetter("id"))
        rows = [_without_nul(responses.record_values(record)) for record in ordered]
        keys = [record_keys(record) for record in ordered]
        items = [key for each in keys for key in each]
        holders = [row[0] for row, each in zip(rows, keys, strict=True) for _ in each]
        used = [_without_nul(usage.entry_values(record.usage)) for record in ordered if record.usage is not None]
        used_columns = zip(*used, strict=True) if used else ([] for _ in _USAGE_COLUMNS)
        async with self._connection(self._timeouts.operation) as connection:
            columns = zip(*rows, strict=True)
            written = await connection.fetch(PUT_MANY, *columns, items, holders, self.clock(), *used_columns)
        written_ids = {row[0] for row in written}
        return {record.id for record in records if _without_nul([record.id])[0] not in written_ids}

    @contextlib.asynccontextmanager
    async def _connection(self, seconds: float) -> AsyncIterator[Any]:
        """A connection of the pool, for a limited time. Every error of the database becomes a StoreUnavailable."""
        connection: Any = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._pool.acquire()
                yield connection
        except DATABASE_ERRORS as error:
            log("store_error", level=logging.WARNING, store="postgres", error=f"{type(error).__name__}: {error}")
            raise StoreUnavailable from error
        finally:
            if connection is not None:
                await self._release(connection)

    async def _release(self, connection: Any) -> None:
        # A connection that was lost has left the pool already, and every call on it raises.
        with contextlib.suppress(*DATABASE_ERRORS):
            try:
                async with asyncio.timeout(self._timeouts.cleanup):
                    if connection.is_in_transaction():
                        await connection.execute("ROLLBACK")
            except DATABASE_ERRORS:
                connection.terminate()
            await self._pool.release(connection, timeout=self._timeouts.cleanup)

    def _options(self) -> dict[str, Any]:
        return {
            "dsn": self._url,
            "timeout": self._timeouts.connect,
            "server_settings": session_of(self._schema),
        }

    async def _connect(self) -> Any:
        return await asyncpg.connect(**self._options())

    async def _set_clock(self, connection: Any) -> None:
        before = time.monotonic()
        server_time = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::double precision")
        self._offset = server_time - (before + time.monotonic()) / 2

    async def _prepare(self) -> None:
        """Wait for the server, and bring its tables up to date. Raises CannotOpen."""
        began, shown = time.monotonic(), None
        while True:
            try:
                return await self._migrate()
            except PERMANENT_ERRORS as error:
                raise CannotOpen(f"cannot use Postgres at {address_to_words(self._url)}: {error}") from error
            except DATABASE_ERRORS as error:
                reason = error_to_words(error)
                within = self._timeouts.reach if is_out_of_reach(error) else self._timeouts.open
                if time.monotonic() - began > within:
                    raise CannotOpen(UNREACHABLE.format(address=address_to_words(self._url), reason=reason)) from error
            if reason != shown:
                # At once: a start that waits in silence looks like one that hangs.
                address, shown = address_to_words(self._url), reason
                log("waiting for store", level=logging.WARNING, store=address, reason=reason, seconds_at_most=within)
            await asyncio.sleep(RETRY_DELAY)

    async def _migrate(self) -> None:
        connection = await self._connect()
        try:
            await self._set_clock(connection)
            await migrate(connection, self._migrations, self._schema)
        finally:
            connection.terminate()


def is_out_of_reach(error: BaseException) -> bool:
    """Whether nobody accepts connections there. One that is lost in silence is a TimeoutError, which is an OSError, too."""
    return isinstance(error, OSError) and not isinstance(error, TimeoutError)


def error_to_words(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return "the name of the host is not known"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


async def run(connection: Any, operation: Operation[T], topics: list[str]) -> T:
    """The result. The topics to wake are added to `topics`."""
    rows: list[Row] = []
    try:
        step = next(operation)
        while True:
            rows = []
            if isinstance(step, Wake):
                topics.append(step.topic)
            elif not isinstance(step, LongRead) and isinstance(step.text, SqliteOnly):
                pass
            elif isinstance(step, Change):
                # The answer ends with the number of rows: INSERT 0 1.
                answer = await connection.execute(str(step.text), *_without_nul(step.values))
                rows = [(int(answer.rpartition(" ")[2]),)]
            elif isinstance(step, Many):
                await connection.executemany(str(step.text), [_without_nul(values) for values in step.values])
            elif isinstance(step, LongWrite):
                await write_long(connection, step, _without_nul(step.values))
            elif isinstance(step, LongRead):
                rows = await read_long(connection, step, _without_nul(step.values))
            else:
                rows = await connection.fetch(str(step.text), *_without_nul(step.values))
            step = operation.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def _without_nul(values: Row) -> list[Any]:
    """Postgres cannot store NUL in a text. An id that contains one is still found, because queries replace it too."""
    return [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]


async def migrate(connection: Any, migrations: Migrations, schema: str) -> None:
    async with connection.transaction():
        # Gateways that start at the same time migrate one after the other.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        # Only if it is missing: a user without the permission to create a schema can use an existing one.
        if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema):
            await connection.execute(f"CREATE SCHEMA {schema}")
        if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.version") is None:
            await connection.execute("CREATE TABLE version (number bigint NOT NULL)")
            await connection.execute("INSERT INTO version VALUES (0)")
        version: int = await connection.fetchval("SELECT number FROM version")
        needed = pending(version, await _oldest(connection, schema), migrations, "the Postgres database")
        for migration in needed:
            for statement in migration:
                if not isinstance(statement, SqliteOnly):
                    await connection.execute(str(statement))
        if needed:
            for statement in note_oldest(migrations):
                await connection.execute(statement)
            await connection.execute("UPDATE version SET number = $1", len(migrations))


async def _oldest(connection: Any, schema: str) -> int | None:
    if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.compatibility") is None:
        return None
    oldest: int | None = await connection.fetchval("SELECT max(oldest) FROM compatibility")
    return oldest


@contextlib.asynccontextmanager
async def open_postgres(
    url: str,
    wakeups: Wakeups,
    clock: Callable[[], float] | None = None,
    *,
    timeouts: Timeouts | None = None,
    migrations: Migrations = MIGRATIONS,
    schema: str = SCHEMA,
) -> AsyncIterator[PostgresDatabase]:
    """`clock` and `timeouts` are for tests."""
    database = PostgresDatabase(url, wakeups, clock, timeouts or Timeouts(), migrations, schema)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def files_in_postgres(url: str, wakeups: Wakeups, clock: Callable[[], float] | None) -> FileStore:
    """Their contents are there too: other gateways have other disks."""

    def open() -> contextlib.AbstractAsyncContextManager[Database]:
        return open_postgres(url, wakeups, clock, migrations=FILE_MIGRATIONS, schema=FILE_SCHEMA)

    database = LazyDatabase(open, wakeups, clock or time.time)
    return FileStore(database, lambda: None, lambda: True, database.close)
