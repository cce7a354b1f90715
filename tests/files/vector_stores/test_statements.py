"""What the statements cost that are executed often, whatever the number of files: SQLite says how it executes them."""

import sqlite3
from pathlib import Path

import pytest

from antiphon.store import open_store
from antiphon.store.files import indexing, vector_store_files, vector_stores
from antiphon.store.operations import Operation, Statement
from antiphon.store.sqlite.connections import to_sqlite


@pytest.mark.parametrize(
    ("operation", "index"),
    [
        (vector_stores.count_files("vs_1"), "COVERING INDEX vector_store_files_by_status (store=?)"),
        (indexing.is_work_left(1.0), "INDEX vector_store_files_to_index"),
        (indexing.claim("gateway", 30, "ada", (), 1.0), "INDEX vector_store_files_to_index (owner>?)"),
        (vector_store_files.are_all_completed(["vs_1"]), "INDEX vector_store_files_by_status (store=? AND status=?)"),
        (vector_store_files.forget("file-1"), "INDEX vector_store_files_by_file (file=?)"),
    ],
)
async def test_it_reads_an_index(operation: Operation[object], index: str, tmp_path: Path) -> None:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}") as store:
        await store.files.database.opened()  # type: ignore[attr-defined]
    first = next(operation)
    assert isinstance(first, Statement)
    with sqlite3.connect(tmp_path / "responses.files" / "files.db") as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {to_sqlite(first.text)}", first.values).fetchall()
    connection.close()
    assert index in plan[0][3]
    assert not any("TEMP B-TREE" in row[3] for row in plan)
