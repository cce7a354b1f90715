"""`antiphon backup`: a copy of what a gateway cannot make again, also while it serves."""

import os
import shlex
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from antiphon.files.contents import FOLDER as CONTENTS
from antiphon.files.contents import UNFINISHED
from antiphon.gateway.state.seal import KEY_FILE
from antiphon.settings.settings import Settings, data_directory
from antiphon.store import POSTGRES, default_url
from antiphon.store.files.opened import DATABASE as FILE_DATABASE
from antiphon.store.files.opened import FILES_SUFFIX
from antiphon.store.postgres.address import without_password

DATABASE_FILE = "responses.db"
DUMP_FILE = "antiphon.dump"
# As in docs/backup.md.
DUMP = ("pg_dump", "--format=custom", "--schema=antiphon", "--schema=antiphon_files")
IN_POSTGRES = """the store is in Postgres, which this command does not copy.{copied} Copy it with:
  {command}
It asks for a password, or reads PGPASSWORD."""


class CannotBackUp(Exception):
    """The message says why, and what to do instead."""


def run_backup(settings: Settings, folder: Path) -> list[Path]:
    """The files that were written. The folder must be new, or empty: an older backup is never overwritten."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CannotBackUp(f"{folder} is not empty. Name a new folder for each backup.")
        copies = _copy_database(settings, folder), _copy_key(settings, folder), _copy_files(settings, folder)
        written = [copy for copy in copies if copy is not None]
    except (OSError, sqlite3.Error) as error:
        raise CannotBackUp(f"the backup is not complete: {error}") from error
    if _store(settings)[0] in POSTGRES:
        raise CannotBackUp(_advice(settings.store or "", folder, written))
    if not written:
        raise CannotBackUp("there is nothing to back up: the store is in memory, and the seal key is configured.")
    return written


def _advice(store: str, folder: Path, written: list[Path]) -> str:
    """An error, also if the seal key was copied: a program that runs this every night must notice."""
    copied = f" Copied: {', '.join(map(str, written))}." if written else ""
    command = [*DUMP, f"--file={folder / DUMP_FILE}", without_password(store)]
    return IN_POSTGRES.format(copied=copied, command=shlex.join(command))


def _copy_database(settings: Settings, folder: Path) -> Path | None:
    source = _database(settings)
    if source is None:
        return None
    if not source.is_file():
        raise CannotBackUp(f"there is no database at {source}.")
    return _copy_sqlite(source, folder / DATABASE_FILE)


def _database(settings: Settings) -> Path | None:
    """None: it is not in SQLite."""
    scheme, path = _store(settings)
    return Path(path).expanduser() if scheme == "sqlite" else None


def _store(settings: Settings) -> tuple[str, str]:
    scheme, _, path = (settings.store or default_url(data_directory(settings))).partition(":")
    return scheme, path


def _copy_sqlite(source: Path, target: Path) -> Path:
    """With SQLite's own backup: a copy of the file alone would miss what is in the write-ahead log."""
    copy = _new_file(target)
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(copy)) as new,
    ):
        # All pages in one step, which is one read transaction: a backup in several steps begins again at every write.
        old.backup(new)
        if (found := new.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise CannotBackUp(f"the database is damaged: {found}")
    return copy


def _copy_key(settings: Settings, folder: Path) -> Path | None:
    """Without it, what was sealed for clients cannot be opened again. A key that is configured is where its settings are."""
    source = data_directory(settings) / KEY_FILE
    if settings.seal_key or not source.is_file():
        return None
    copy = _new_file(folder / KEY_FILE)
    copy.write_bytes(source.read_bytes())
    return copy


def _copy_files(settings: Settings, folder: Path) -> Path | None:
    """The database first: what is in it has its contents already, and they never change. A file that is deleted meanwhile is
    not in the backup."""
    database = _database(settings)
    if database is None or not (source := database.with_suffix(FILES_SUFFIX)).joinpath(FILE_DATABASE).is_file():
        return None
    copy = folder / Path(DATABASE_FILE).with_suffix(FILES_SUFFIX)
    contents = copy / CONTENTS
    contents.mkdir(mode=0o700, parents=True)
    copy.chmod(0o700)
    _copy_sqlite(source / FILE_DATABASE, copy / FILE_DATABASE)
    for file in (source / CONTENTS).iterdir() if (source / CONTENTS).is_dir() else ():
        if not file.name.endswith(UNFINISHED):
            with suppress(FileNotFoundError):
                shutil.copyfile(file, _new_file(contents / file.name))
    return copy


def _new_file(path: Path) -> Path:
    """Only the user may read conversations and keys."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path
