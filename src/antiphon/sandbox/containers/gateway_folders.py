"""The folders of gateways, in which those of their containers are. A lock says whether a gateway still lives."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from antiphon.sandbox.folder import remove_folder

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
