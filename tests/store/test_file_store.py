"""The database of files: opened when it is first used, beside every kind of store."""

from pathlib import Path

import pytest
from support.stores import Clock

from antiphon.errors import StoreUnavailable
from antiphon.store import Store, open_store
from antiphon.store.sql.operations import Change, Operation, Statement

WRITE = Change(
    "INSERT INTO files (id, owner, created_at, expires_at, size, purpose, filename) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    ("file-1", "ada", 1, 2, 3, "user_data", "a.txt"),
)


def write() -> Operation[int]:
    rows = yield WRITE
    changed: int = rows[0][0]
    return changed


def names() -> Operation[list[str]]:
    rows = yield Statement("SELECT filename FROM files")
    return [row[0] for row in rows]


async def test_what_is_written_can_be_read(store: Store) -> None:
    assert await store.files.database.write(write()) == 1
    assert await store.files.database.read(names()) == ["a.txt"]


async def test_nothing_is_made_before_it_is_used(tmp_path: Path, clock: Clock) -> None:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}", clock) as store:
        assert not store.files.is_used()
        assert not (tmp_path / "responses.files").exists()
        await store.files.database.write(write())
        assert store.files.is_used()
        assert store.files.folder() == tmp_path / "responses.files"


async def test_a_folder_that_cannot_be_made_is_a_store_that_is_not_available(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "responses.files").write_text("not a folder")
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}", clock) as store:
        with pytest.raises(StoreUnavailable):
            await store.files.database.write(write())
