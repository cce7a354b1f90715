"""How much memory this machine, or the container that we run in, has; and how much of a file a process has in it."""

import os
from pathlib import Path

# Where the kernel shows the limit of a container: version 2 of control groups, then version 1.
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory(limits: tuple[Path, ...] = CGROUP_LIMITS) -> int | None:
    """Bytes; None if the system does not say. All of it, not what is free: that changes from one minute to the next."""
    known = [size for size in (_physical(), *map(_limit, limits)) if size is not None]
    return min(known, default=None)


def bytes_read_by(pid: int) -> int | None:
    """How much of the files that it has mapped, such as its model, a process has read. None: the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # Files of a file system in memory are counted apart.
    kilobytes = [int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssFile:", "RssShmem:"))]
    return sum(kilobytes) * 1024 if kilobytes else None


def _physical() -> int | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return size if size > 0 else None


def _limit(path: Path) -> int | None:
    """None: there is no such file, or no limit ("max")."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
