"""Long values in Postgres, sent and read part by part. Sent like others, each would be in memory several times at once."""

from typing import Any

from antiphon.store.sql.operations import LongRead, LongWrite, Row

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
