"""A lock between processes, held through an open file: the system releases it however its holder ends."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ASK_AGAIN = 0.2


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Waits until no other process, and no other task of this one, holds the lock at this path."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not _lock(file):  # noqa: ASYNC110, no event tells of other processes
            await asyncio.sleep(ASK_AGAIN)
        yield
    finally:
        os.close(file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system that has no locks: temporary names and checksums still keep a wrong file from being used.
            return True
        return True
