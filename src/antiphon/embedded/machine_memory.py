"""How much memory this machine, or the container that we run in, has."""

import os
from pathlib import Path

# Where the kernel shows the limit of a container: version 2 of control groups, then version 1.
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory(limits: tuple[Path, ...] = CGROUP_LIMITS) -> int | None:
    """Bytes; None if the system does not say. All of it, not what is free: that changes from one minute to the next."""
    known = [size for size in (_physical(), *map(_limit, limits)) if size is not None]
    return min(known, default=None)


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
