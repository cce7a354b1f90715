"""Folders that go with their process. If it was killed, the next one removes them: a lock says whether it still lives."""

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LOCK = "lock"


class TemporaryFolder:
    def __init__(self, prefix: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=prefix)
        self.path = Path(self._folder.name)
        # It gets its name when it is locked: before that, others would take it for one that was left.
        unlocked = self.path / "unlocked"
        self._lock = unlocked.open("wb")
        with suppress(OSError):
            _try_to_lock(self._lock)
            unlocked.rename(self.path / LOCK)

    def remove(self) -> None:
        self._lock.close()
        self._folder.cleanup()


def remove_leftovers(prefix: str) -> int:
    """What killed processes of this user have left. How many there were."""
    if os.name != "posix":
        return 0
    count = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        # Not there any more, another user's, or in use.
        with suppress(OSError):
            if _is_own(folder):
                with (folder / LOCK).open("rb") as lock:
                    _try_to_lock(lock)
                    shutil.rmtree(folder)
                    count += 1
    return count


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _try_to_lock(file: BinaryIO) -> None:
    """Raises OSError if another process has it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
