"""The database of files: opened when it is first used, beside every kind of store."""

import asyncio
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from support.stores import Clock

from antiphon.errors import StoreUnavailable
from antiphon.store import Store, open_store
from antiphon.store.operations import Change, Operation, Statement

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


async def test_the_folder_beside_a_store_in_memory_is_removed_also_if_nothing_was_written(clock: Clock) -> None:
    async with open_store("memory:", clock) as store:
        folder = store.files.folder()
        assert folder is not None
        assert folder.exists()
    assert not folder.exists()


async def test_nothing_is_made_before_it_is_used(tmp_path: Path, clock: Clock) -> None:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}", clock) as store:
        assert not store.files.is_used()
        assert not (tmp_path / "responses.files").exists()
        await store.files.database.write(write())
        assert store.files.is_used()
        assert store.files.folder() == tmp_path / "responses.files"


def paths(folder: Path, pattern: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob(pattern)}


async def test_files_beside_a_store_in_memory_do_not_outlive_a_killed_process(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
import os, signal
from antiphon.store.files.opened import files_in_memory
files = files_in_memory()
folder = files.folder()
(folder / "contents").mkdir()
(folder / "contents" / "file-1").write_text("secret")
os.kill(os.getpid(), signal.SIGKILL)
"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
    assert await killed.wait() == -signal.SIGKILL
    assert len(paths(tmp_path, "*/contents/file-1")) == 1
    # Of a process that lives, of something else, and a link.
    (tmp_path / "antiphon-files-other").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lock").touch()
    (tmp_path / "antiphon-files-link").symlink_to(tmp_path / "elsewhere")
    async with open_store("memory:", clock) as store:
        await store.files.database.write(write())
        used = store.files.folder()
        assert used is not None
        async with open_store("memory:", clock):
            assert await store.files.database.read(names()) == ["a.txt"]
        assert paths(tmp_path, "*") == {used.name, "antiphon-files-other", "antiphon-files-link", "elsewhere"}
    assert paths(tmp_path, "*/lock") == {"elsewhere/lock", "antiphon-files-link/lock"}


async def test_a_folder_that_cannot_be_made_is_a_store_that_is_not_available(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "responses.files").write_text("not a folder")
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}", clock) as store:
        with pytest.raises(StoreUnavailable):
            await store.files.database.write(write())
