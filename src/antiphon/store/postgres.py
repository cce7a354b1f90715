"""Postgres: a pool that reconnects, one statement for all that is put at once, and bells that ring in every gateway."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from operator import attrgetter
from typing import Any, TypeVar

import asyncpg

from antiphon.errors import StoreUnavailable
from antiphon.logs import log
from antiphon.store.listener import Listener
from antiphon.store.protocol import CannotOpen
from antiphon.store.records import Record
from antiphon.store.sql import responses, sweeper
from antiphon.store.sql.operations import Change, Many, Operation, Ring, Row
from antiphon.store.sql.schema import MIGRATIONS, NEWEST, too_new
from antiphon.store.wakeups import Belfry
from antiphon.store.write_groups import Gathering

T = TypeVar("T")

# Tables have a schema of their own, so that a database can be shared with others.
SCHEMA = "antiphon"
CHANNEL = "antiphon"
SESSION = {
    "application_name": "antiphon",
    "search_path": SCHEMA,
    # Every statement has its index. A plan made while the tables were small is kept, and must not read them whole later.
    "enable_seqscan": "off",
}
# Whoever brings the tables up to date holds this lock, whose number is otherwise arbitrary.
MIGRATION_LOCK = 0x416E7466
CONNECTIONS = 10
# No operation takes longer, from being asked for to its answer.
TIMEOUT = 10.0
# Everything is looked at; nobody waits for it.
SIZE_TIMEOUT = 120.0
CONNECT_TIMEOUT = 5.0
# A server that is just starting is waited for.
OPEN_TIMEOUT = 15.0
RETRY = 0.5
# How long a connection may take to become usable again; then it is thrown away.
TIDY_TIMEOUT = 1.0
# A transaction of its own, with each column's values as one. Ids that were there already are not among the rows.
_TYPES = {"created_at": "bigint", "expires_at": "bigint", "background": "boolean"}
_TYPES |= dict.fromkeys(("input", "output", "settings"), "bytea")
_ARRAYS = ", ".join(f"${place}::{_TYPES.get(name, 'text')}[]" for place, name in enumerate(responses.FIELDS, 1))
PUT_MANY = responses.INSERT.format(values=f"SELECT * FROM unnest({_ARRAYS})") + " RETURNING id"
# With what was deleted and not yet cleaned up.
ROUGH_SIZE = """
SELECT pg_total_relation_size('responses') + pg_total_relation_size('events')
    + pg_total_relation_size('conversations') + pg_total_relation_size('items')"""
# All that goes wrong with a database or the line to it.
TROUBLE = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
# Wrong for good: the address or the rights.
HOPELESS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
    ValueError,
)


class PostgresDatabase:
    def __init__(self, url: str, bells: Belfry, clock: Callable[[], float] | None) -> None:
        self.bells = bells
        self._url = url
        self._clock = clock
        # The server's time less this machine's monotonic one.
        self._offset = 0.0
        self._pool: Any = None
        self._puts = Gathering(self._put_many)
        self._listener = Listener(self._connect, CHANNEL, bells, self._set_clock)

    def clock(self) -> float:
        """The server's, so that all gateways mean the same time."""
        return self._clock() if self._clock is not None else time.monotonic() + self._offset

    async def open(self) -> None:
        await self._prepare()
        self._pool = await asyncpg.create_pool(min_size=0, max_size=CONNECTIONS, **self._options())
        # Without it, changes of others are seen later; it goes on trying.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._listener.open()

    async def close(self) -> None:
        await self._listener.close()
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._pool.close()
        except TROUBLE:
            self._pool.terminate()

    async def read(self, operation: Operation[T]) -> T:
        async with self._connection(TIMEOUT) as connection:
            return await run(connection, operation, [])

    async def write(self, operation: Operation[T]) -> T:
        rung: list[str] = []
        async with self._connection(TIMEOUT) as connection:
            await connection.execute("BEGIN")
            result = await run(connection, operation, rung)
            # In the transaction: others are told if it happens, and once it has.
            for name in rung:
                await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, name)
            await connection.execute("COMMIT")
        for name in rung:
            self.bells.ring(name)
        return result

    async def put(self, record: Record) -> None:
        try:
            # Also of the time that groups before its own take.
            async with asyncio.timeout(TIMEOUT):
                await self._puts.put(record)
        except TimeoutError:
            raise StoreUnavailable from None

    async def size(self, limit: int) -> int:
        async with self._connection(SIZE_TIMEOUT) as connection:
            size: int = await connection.fetchval(ROUGH_SIZE)
            if size > limit:
                async with connection.transaction(readonly=True):
                    await connection.execute("SET LOCAL enable_seqscan = on")
                    size = min(size, await connection.fetchval(sweeper.WEIGHT))
            return size

    async def _put_many(self, records: list[Record]) -> set[str]:
        # In one order everywhere, so that two who write the same rows do not wait for each other for ever.
        rows = [_storable(responses.record_values(record)) for record in sorted(records, key=attrgetter("id"))]
        async with self._connection(TIMEOUT) as connection:
            written = await connection.fetch(PUT_MANY, *zip(*rows, strict=True))
        there = {row[0] for row in written}
        return {record.id for record in records if _storable([record.id])[0] not in there}

    @contextlib.asynccontextmanager
    async def _connection(self, patience: float) -> AsyncIterator[Any]:
        """A connection of the pool, for a limited time. What goes wrong is a StoreUnavailable."""
        connection: Any = None
        try:
            async with asyncio.timeout(patience):
                connection = await self._pool.acquire()
                yield connection
        except TROUBLE as error:
            log("store_error", level=logging.WARNING, store="postgres", error=f"{type(error).__name__}: {error}")
            raise StoreUnavailable from error
        finally:
            if connection is not None:
                await self._give_back(connection)

    async def _give_back(self, connection: Any) -> None:
        # One that was lost has left the pool by itself, and every word to it is an error.
        with contextlib.suppress(*TROUBLE):
            try:
                async with asyncio.timeout(TIDY_TIMEOUT):
                    if connection.is_in_transaction():
                        await connection.execute("ROLLBACK")
            except TROUBLE:
                connection.terminate()
            await self._pool.release(connection, timeout=TIDY_TIMEOUT)

    def _options(self) -> dict[str, Any]:
        return {
            "dsn": self._url,
            "timeout": CONNECT_TIMEOUT,
            "server_settings": SESSION,
        }

    async def _connect(self) -> Any:
        return await asyncpg.connect(**self._options())

    async def _set_clock(self, connection: Any) -> None:
        began = time.monotonic()
        there = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::double precision")
        self._offset = there - (began + time.monotonic()) / 2

    async def _prepare(self) -> None:
        """Bring the tables up to date, once the server is there."""
        until = time.monotonic() + OPEN_TIMEOUT
        while True:
            try:
                connection = await self._connect()
                try:
                    await self._set_clock(connection)
                    return await migrate(connection)
                finally:
                    connection.terminate()
            except HOPELESS as error:
                raise CannotOpen(f"cannot use the Postgres store: {error}") from error
            except TROUBLE as error:
                if time.monotonic() > until:
                    raise CannotOpen(f"cannot reach the Postgres store: {error or type(error).__name__}") from error
            await asyncio.sleep(RETRY)


async def run(connection: Any, operation: Operation[T], rung: list[str]) -> T:
    rows: list[Row] = []
    try:
        step = next(operation)
        while True:
            rows = []
            if isinstance(step, Ring):
                rung.append(step.name)
            elif isinstance(step, Change):
                # It answers with the number behind its name: INSERT 0 1.
                done = await connection.execute(step.text, *_storable(step.values))
                rows = [(int(done.rpartition(" ")[2]),)]
            elif isinstance(step, Many):
                await connection.executemany(step.text, [_storable(values) for values in step.values])
            else:
                rows = await connection.fetch(step.text, *_storable(step.values))
            step = operation.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def _storable(values: Row) -> list[Any]:
    """Postgres knows no NUL in a text. An id that has one is found again, because it is looked for in the same way."""
    return [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in values]


async def migrate(connection: Any) -> None:
    async with connection.transaction():
        # Gateways that start at once take turns.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        # A schema that is there may be used also by who could not make one.
        if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", SCHEMA):
            await connection.execute(f"CREATE SCHEMA {SCHEMA}")
        if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.version") is None:
            await connection.execute("CREATE TABLE version (number bigint NOT NULL)")
            await connection.execute("INSERT INTO version VALUES (0)")
        version: int = await connection.fetchval("SELECT number FROM version")
        if version > NEWEST:
            raise CannotOpen(too_new("the Postgres database", version))
        for migration in MIGRATIONS[version:]:
            for statement in migration:
                await connection.execute(statement)
        await connection.execute("UPDATE version SET number = $1", NEWEST)


@contextlib.asynccontextmanager
async def open_postgres(url: str, bells: Belfry, clock: Callable[[], float] | None) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, bells, clock)
    await database.open()
    try:
        yield database
    finally:
        await database.close()
