"""Long values in SQLite, written and read part by part. Bound like others, each would be in memory several times at once."""

import contextlib
import sqlite3
from collections.abc import Iterator

from antiphon.store.sql.operations import LongRead, LongWrite, Row
from antiphon.store.sqlite.sqlite_file import to_sqlite


def write_long(connection: sqlite3.Connection, step: LongWrite) -> None:
    """In a transaction: the row is written with zeros in place of the value, which are then overwritten."""
    text = f"{step.text.format(long=f'zeroblob(${step.long + 1})')} RETURNING rowid"
    pieces, values = step.values[step.long], list(step.values)
    values[step.long] = len(pieces)
    for (row,) in connection.execute(to_sqlite(text), values).fetchall():
        with connection.blobopen(step.table, step.column, row) as blob:
            for piece in pieces:
                blob.write(piece)


def read_long(connection: sqlite3.Connection, step: LongRead) -> list[Row]:
    text = f"SELECT rowid FROM {step.table} WHERE {step.condition}"
    with _one_state(connection):
        found = connection.execute(to_sqlite(text), tuple(step.values)).fetchall()
        return [(_part(connection, step, row),) for (row,) in found]


def _part(connection: sqlite3.Connection, step: LongRead, row: int) -> bytes:
    with connection.blobopen(step.table, step.column, row, readonly=True) as blob:
        blob.seek(step.start)
        return blob.read(step.size)


@contextlib.contextmanager
def _one_state(connection: sqlite3.Connection) -> Iterator[None]:
    """The number of a row that is deleted may become that of another one, so nothing may change in between."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
