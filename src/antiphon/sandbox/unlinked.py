"""Files without a name that code keeps open: they take up room on the disk, and no folder shows them."""

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path


def unlinked_bytes(processes: Iterable[int], folder: Path) -> int:
    """How much such files use on the disk of `folder`. Those that are only mapped, or on their way to another process, are not
    found."""
    device = folder.stat().st_dev
    found: dict[int, int] = {}
    for pid in processes:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as opened:
            for entry in opened:
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev == device:
                        found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())
