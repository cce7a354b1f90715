"""A folder in memory for what tests write. A store waits for the disk with every commit, and most tests would wait with it."""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
MEMINFO = Path("/proc/meminfo")
# Bytes that must be free: databases, models and installations of all tests.
LEAST_FREE = 6 * 2**30


def write_to_memory(folder: Path = MEMORY, meminfo: Path = MEMINFO, least_free: int = LEAST_FREE) -> None:
    """Temporary files go there, of all processes that are started from here too. TMPDIR says otherwise."""
    if "TMPDIR" not in os.environ and is_suitable(folder, meminfo, least_free):
        os.environ["TMPDIR"] = str(folder)
        # It is looked up once.
        tempfile.tempdir = None


def is_suitable(folder: Path, meminfo: Path = MEMINFO, least_free: int = LEAST_FREE) -> bool:
    """Some of what tests write are programs. In containers, such a folder is often small, or runs no programs."""
    if not folder.is_dir() or not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return min(shutil.disk_usage(folder).free, _available_memory(meminfo)) >= least_free


def _available_memory(meminfo: Path) -> int:
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
