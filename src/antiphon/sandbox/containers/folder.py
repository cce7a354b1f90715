"""The files of one container, on disk; and the folders of gateways, in which those of their containers are."""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from antiphon.sandbox.folder import (
    FolderFile,
    NotAFile,
    Usage,
    delete_file,
    file_name,
    list_files,
    open_file,
    remove_folder,
    usage,
    write_file,
)
from antiphon.sandbox.runs import KEEP_FREE, SandboxLimits

PIECE = 256 * 1024
ALMOST_FULL = "The disk of this machine is almost full"


class ContainerFolder:
    """Everything here may be slow: call it in a thread."""

    def __init__(self, base: Path, *, keep_free: int = KEEP_FREE) -> None:
        self._keep_free = keep_free
        self._base = base
        # What code sees as /mnt/data.
        self.data = base / "data"
        # Uploads that are not whole yet: code does not see them.
        self._incoming = base / "incoming"

    def make(self) -> None:
        for folder in (self._base, self.data, self._incoming):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self) -> None:
        remove_folder(self._base)

    def files(self) -> list[FolderFile]:
        return list_files(self.data)

    def room(self, name: str, limits: SandboxLimits) -> int:
        """How many bytes a file of this name may have; less than 0: there are too many files."""
        used = usage(self.data, limits)
        with suppress(OSError):
            replaced = (self.data / name).lstat()
            used = Usage(used.size - replaced.st_blocks * 512, used.files - 1, used.hidden)
        return -1 if used.hidden or used.files >= limits.files else limits.disk - used.size

    def open(self, name: str) -> BinaryIO:
        """Raises FileNotFoundError: there is no plain file of this name."""
        try:
            return open_file(self.data, name)
        except NotAFile:
            raise FileNotFoundError(name) from None

    def delete(self, name: str) -> None:
        delete_file(self.data, name)

    # ---- uploads -----------------------------------------------------------------------------------------------------

    def begin_upload(self, number: str) -> BinaryIO:
        return (self._incoming / number).open("xb")

    def size_of(self, number: str) -> int:
        """Of an upload, in whole blocks."""
        return (self._incoming / number).stat().st_blocks * 512

    def write(self, file: BinaryIO, piece: bytes) -> None:
        self._check_disk()
        file.write(piece)

    def end_upload(self, number: str, name: str) -> None:
        """Puts it in its place. Whatever has this name is replaced, and not followed if it is a link. Raises FileExistsError if
        that is a folder, and OSError if it cannot be written."""
        try:
            with (self._incoming / number).open("rb") as file:
                write_file(self.data, name, self._pieces(file))
        except NotAFile:
            raise FileExistsError(name) from None

    def _pieces(self, file: BinaryIO) -> Iterator[bytes]:
        while piece := file.read(PIECE):
            self._check_disk()
            yield piece

    def _check_disk(self) -> None:
        if shutil.disk_usage(self._base).free < self._keep_free:
            raise OSError(errno.ENOSPC, ALMOST_FULL)

    def drop_upload(self, number: str) -> None:
        (self._incoming / number).unlink(missing_ok=True)


def clean_name(filename: str) -> str:
    """The name that an uploaded file has in a container: one that stays in its folder, whatever it was before."""
    return file_name(filename)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or another one like it."""
    return next(each for each in _names(name) if each not in taken)


def _names(name: str) -> Iterator[str]:
    yield name
    stem, dot, suffix = name.rpartition(".")
    number = 1
    while True:
        number += 1
        yield f"{stem}_{number}{dot}{suffix}" if stem else f"{suffix}_{number}"


LOCK = "lock"
# Seconds in which a gateway that has made its folder locks it.
MAKING_TIME = 60.0


def make_own_folder(folder: Path) -> tuple[Path, BinaryIO]:
    """A new one, with a lock that lasts as long as the gateway lives."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix="gateway-", dir=folder))
    lock = (own / LOCK).open("wb")
    with suppress(OSError):
        _try_to_lock(lock)
    return own, lock


def remove_leftovers(folder: Path) -> int:
    """What gateways that were killed have left. How many there were."""
    left = list(_leftovers(folder))
    for own in left:
        remove_folder(own)
    return len(left)


def _leftovers(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for own in sorted(folder.glob("gateway-*")):
        try:
            with (own / LOCK).open("rb") as lock:
                _try_to_lock(lock)
        except FileNotFoundError:
            # It may be about to be made.
            if time.time() - own.stat().st_mtime < MAKING_TIME:
                continue
        except OSError:
            continue
        yield own


def _try_to_lock(file: BinaryIO) -> None:
    """Raises OSError if another process has it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
