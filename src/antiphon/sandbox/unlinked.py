"""Files without a name that code keeps open or mapped: they take up room on the disk, and no folder shows them."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

DELETED = b" (deleted)\n"


def unlinked_bytes(processes: Iterable[int], folder: Path) -> int:
    """How much such files use on the disk of `folder`. Those that are on their way to another process are not found, and only
    root sees those that are mapped and not open."""
    device = folder.stat().st_dev
    found: dict[int, int] = {}
    for pid in processes:
        for path in (*_opened(pid), *_mapped(pid)):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev == device:
                    found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def _opened(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    return []


def _mapped(pid: int) -> Iterator[str]:
    """One path for each file, however often it is mapped: the list may have thousands of lines, most of them of libraries."""
    seen: set[bytes] = set()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        for line in maps:
            if line.endswith(DELETED):
                area, _, _, device, inode = line.split(None, 5)[:5]
                if (file := device + inode) not in seen:
                    seen.add(file)
                    start, end = (int(address, 16) for address in area.split(b"-"))
                    yield f"/proc/{pid}/map_files/{start:x}-{end:x}"
