"""Groups of operations in one transaction: only what is committed is acknowledged, and an operation that fails undoes nothing
of the others."""

import contextlib
import sqlite3
from typing import Any, Generic, NamedTuple, TypeVar

from antiphon.store.operations import Change, LongRead, LongWrite, Many, Operation, PostgresOnly, Row, Wake
from antiphon.store.sqlite.connections import read_long, to_sqlite, write_long

T = TypeVar("T")
# By what the caller of an operation is found.
Caller = TypeVar("Caller")

# The most operations in one transaction.
MAX_GROUP_SIZE = 256


class Pending(NamedTuple, Generic[Caller]):
    """An operation in the queue, and who waits for it."""

    operation: Operation[Any]
    answer: Caller
    # If it fails, then before its first change.
    fails_first: bool = False


class Outcome(NamedTuple, Generic[Caller]):
    """The result or the error for a caller; of a write, once it is durable."""

    answer: Caller
    result: Any = None
    error: Exception | None = None


def commit(connection: sqlite3.Connection, group: list[Pending[Caller]], topics: list[str]) -> list[Outcome[Caller]]:
    """Writes the group in one transaction, and returns when it is durable. If it raises, nothing is written."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        if len(group) == 1:
            return [write_alone(connection, group[0], topics)]
        outcomes = [write_one(connection, pending, topics) for pending in group]
        connection.execute("COMMIT")
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    return outcomes


def write_alone(connection: sqlite3.Connection, pending: Pending[Caller], topics: list[str]) -> Outcome[Caller]:
    """The whole transaction: nobody else's work has to be kept if the operation fails. Without a savepoint, two statements of
    six are saved, and with each of them a change of the thread."""
    try:
        result, woken = run(connection, pending.operation)
    except sqlite3.OperationalError:
        raise
    except Exception as error:
        connection.execute("ROLLBACK")
        return Outcome(pending.answer, error=error)
    connection.execute("COMMIT")
    topics += woken
    return Outcome(pending.answer, result)


def write_one(connection: sqlite3.Connection, pending: Pending[Caller], topics: list[str]) -> Outcome[Caller]:
    """An error of the operation undoes only this operation; an error of the database undoes the group."""
    if pending.fails_first:
        return write_without_savepoint(connection, pending, topics)
    connection.execute("SAVEPOINT one")
    try:
        result, woken = run(connection, pending.operation)
    except sqlite3.OperationalError:
        raise
    except Exception as error:
        connection.execute("ROLLBACK TO one")
        return Outcome(pending.answer, error=error)
    finally:
        connection.execute("RELEASE one")
    topics += woken
    return Outcome(pending.answer, result)


def write_without_savepoint(connection: sqlite3.Connection, pending: Pending[Caller], topics: list[str]) -> Outcome[Caller]:
    """There is nothing to undo if it fails. A savepoint takes a fifth of the time of a response in a group."""
    before = connection.total_changes
    try:
        result, woken = run(connection, pending.operation)
    except sqlite3.OperationalError:
        raise
    except Exception as error:
        if connection.total_changes != before:
            # A bug: it cannot be undone by itself, so nothing of the group is acknowledged.
            raise sqlite3.InternalError("a write failed after its first change") from error
        return Outcome(pending.answer, error=error)
    topics += woken
    return Outcome(pending.answer, result)


def run(connection: sqlite3.Connection, operation: Operation[T]) -> tuple[T, list[str]]:
    """The result, and the topics to wake."""
    rows: list[Row] = []
    topics: list[str] = []
    try:
        step = next(operation)
        while True:
            if isinstance(step, Wake):
                topics.append(step.topic)
                rows = []
            elif not isinstance(step, LongRead) and isinstance(step.text, PostgresOnly):
                rows = []
            elif isinstance(step, Change):
                rows = [(connection.execute(to_sqlite(step.text), step.values).rowcount,)]
            elif isinstance(step, Many):
                connection.executemany(to_sqlite(step.text), step.values)
                rows = []
            elif isinstance(step, LongWrite):
                write_long(connection, step)
                rows = []
            elif isinstance(step, LongRead):
                rows = read_long(connection, step)
            else:
                rows = connection.execute(to_sqlite(step.text), tuple(step.values)).fetchall()
            step = operation.send(rows)
    except StopIteration as end:
        return end.value, topics
