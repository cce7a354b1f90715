"""The limits of a sandbox that count all of its processes together: control groups of Linux, version 1 and 2.

A group is made inside the gateway's own, so what limits the gateway limits its sandboxes too.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path

from antiphon.sandbox.limits import SandboxLimits

PREFIX = "antiphon-sandbox-"
OWN_LEAF = "antiphon-gateway"
NEEDED = ("memory", "pids")
# Used where they are there. Without a freezer, nothing is paused between runs.
USEFUL_V1 = ("freezer", "cpu")
USEFUL_V2 = ("cpu",)
# A busy sandbox gets little of a busy machine: an eighth of what the gateway gets.
SHARES_V1, WEIGHT_V2 = 128, 12
# How long the kernel may take to end processes that were killed, in seconds.
PATIENCE = 5.0


class NoCgroups(Exception):
    """Why processes and memory cannot be limited here, and what to do."""


class Cgroup:
    """The group of one sandbox: a folder, or one for each controller of version 1."""

    def __init__(self, folders: dict[str, Path], version: int) -> None:
        self._folders = folders
        self._version = version

    @property
    def procs(self) -> list[str]:
        """The files that a process writes itself to."""
        return sorted({str(folder / "cgroup.procs") for folder in self._folders.values()})

    def limit(self, limits: SandboxLimits) -> None:
        memory, pids = self._folders["memory"], self._folders["pids"]
        _write(pids / "pids.max", limits.processes)
        if self._version == 1:
            _write(memory / "memory.limit_in_bytes", limits.memory)
            with contextlib.suppress(FileNotFoundError):  # a kernel that does not count swap
                _write(memory / "memory.memsw.limit_in_bytes", limits.memory)
            if (cpu := self._folders.get("cpu")) is not None:
                _write(cpu / "cpu.shares", SHARES_V1)
            return
        _write(memory / "memory.max", limits.memory)
        with contextlib.suppress(FileNotFoundError):
            _write(memory / "memory.swap.max", 0)
        with contextlib.suppress(OSError):
            _write(memory / "cpu.weight", WEIGHT_V2)

    def memory_kills(self) -> int:
        """How many processes the kernel has killed because the memory was used up."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)", (self._folders["memory"] / name).read_text(), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0

    def pause(self, paused: bool) -> None:
        """Nothing inside runs until it is resumed."""
        with contextlib.suppress(OSError):
            if self._version == 2:
                _write(self._folders["pids"] / "cgroup.freeze", int(paused))
            elif (freezer := self._folders.get("freezer")) is not None:
                _write(freezer / "freezer.state", "FROZEN" if paused else "THAWED")

    def processes(self) -> set[int]:
        with contextlib.suppress(OSError):
            return {int(line) for line in (self._folders["pids"] / "cgroup.procs").read_text().split()}
        return set()

    def kill(self) -> None:
        """Ends all processes that are in the group now."""
        self.pause(False)  # version 1 does not kill what is frozen
        with contextlib.suppress(OSError):
            _write(self._folders["pids"] / "cgroup.kill", 1)
            return
        opened: dict[int, int] = {}
        for pid in self.processes():
            with contextlib.suppress(OSError):
                opened[pid] = os.pidfd_open(pid)
        # A number may have gone to somebody else before it was opened: then it is not in the group any more.
        still = self.processes()
        for pid, descriptor in opened.items():
            with contextlib.suppress(OSError):
                if pid in still:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)

    async def remove(self) -> None:
        """Ends what is inside, and removes the group."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            self.kill()
            if self._removed() or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.01)

    def _removed(self) -> bool:
        for folder in self._folders.values():
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in self._folders.values())


class Cgroups:
    """Where groups can be made."""

    def __init__(self, parents: dict[str, Path], version: int) -> None:
        self._parents = parents
        self._version = version

    def create(self, name: str, limits: SandboxLimits) -> Cgroup:
        folders = {controller: parent / f"{PREFIX}{name}" for controller, parent in self._parents.items()}
        try:
            for folder in folders.values():
                folder.mkdir(exist_ok=True)
            group = Cgroup(folders, self._version)
            group.limit(limits)
        except OSError as failed:
            for folder in folders.values():
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise NoCgroups(f"a control group could not be made: {failed}. {ADVICE}") from failed
        return group

    def remove_leftovers(self) -> None:
        """The empty groups of gateways that were killed. Those with processes cannot be removed, and stay."""
        for parent in set(self._parents.values()):
            for folder in parent.glob(f"{PREFIX}*"):
                with contextlib.suppress(OSError):
                    folder.rmdir()


ADVICE = (
    "Run the gateway as a systemd service with `Delegate=memory pids cpu`, or as root where /sys/fs/cgroup is writable "
    "(a container needs `--cgroupns=private` and a writable /sys/fs/cgroup)."
)


def find_cgroups(process: Path = Path("/proc/self")) -> Cgroups:
    """Where the gateway may make groups. Raises NoCgroups."""
    try:
        mounts, own = _mounts((process / "mountinfo").read_text()), _own_groups((process / "cgroup").read_text())
    except OSError as failed:
        raise NoCgroups(f"control groups cannot be found: {failed}. {ADVICE}") from failed
    found = {name: _folder(mounts[name], own[name]) for name in (*NEEDED, *USEFUL_V1) if name in mounts and name in own}
    if all(name in found for name in NEEDED):
        return Cgroups(_writable(found), 1)
    if "" in mounts and "" in own:
        parent = _delegated(_folder(mounts[""], own[""]))
        return Cgroups(dict.fromkeys(NEEDED, parent), 2)
    raise NoCgroups(f"this machine has no control groups for memory and processes. {ADVICE}")


def _mounts(mountinfo: str) -> dict[str, tuple[str, Path]]:
    """Controller → the root of its mount and where it is mounted. The empty name: version 2."""
    mounts: dict[str, tuple[str, Path]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(), after.split(maxsplit=2)
        where = (fields[3], Path(fields[4]))
        if kind == "cgroup2":
            mounts.setdefault("", where)
        elif kind == "cgroup":
            for name in options.split(","):
                mounts.setdefault(name, where)
    return mounts


def _own_groups(text: str) -> dict[str, str]:
    """Controller → the path of the process's group."""
    lines = (line.split(":", 2) for line in text.splitlines())
    return {name: path for _, names, path in lines for name in names.split(",")}


def _folder(mount: tuple[str, Path], path: str) -> Path:
    root, where = mount
    # In a container, the path may be the host's while only a part of the tree is mounted.
    inside = path.removeprefix(root) if root != "/" and path.startswith(root) else path
    folder = where / inside.lstrip("/")
    return folder if folder.is_dir() else where


def _writable(found: dict[str, Path]) -> dict[str, Path]:
    for name in NEEDED:
        if not os.access(found[name], os.W_OK):
            raise NoCgroups(f"the gateway may not make control groups in {found[name]}. {ADVICE}")
    return {name: folder for name, folder in found.items() if os.access(folder, os.W_OK)}


def _delegated(own: Path) -> Path:
    """A folder of version 2 whose children have the controllers. A group with processes has none such, so the gateway moves
    down into a leaf of its own, if nobody else is in its group."""
    for folder in (own, own.parent):
        if _gives(folder) and os.access(folder, os.W_OK):
            return folder
    if not os.access(own, os.W_OK):
        raise NoCgroups(f"the gateway may not make control groups in {own}. {ADVICE}")
    missing = [name for name in NEEDED if name not in _words(own / "cgroup.controllers")]
    if missing:
        raise NoCgroups(f"the control group {own} has no controller for {' and '.join(missing)}. {ADVICE}")
    _move_down(own)
    try:
        _write(own / "cgroup.subtree_control", " ".join(f"+{name}" for name in NEEDED))
    except OSError as failed:
        raise NoCgroups(f"memory and processes cannot be limited in {own}: {failed}. {ADVICE}") from failed
    with contextlib.suppress(OSError):
        _write(own / "cgroup.subtree_control", " ".join(f"+{name}" for name in USEFUL_V2))
    return own


def _gives(folder: Path) -> bool:
    return all(name in _words(folder / "cgroup.subtree_control") for name in NEEDED)


def _move_down(own: Path) -> None:
    others = {int(pid) for pid in _words(own / "cgroup.procs")} - _family()
    if others:
        raise NoCgroups(f"other processes than the gateway's are in its control group {own}. {ADVICE}")
    leaf = own / OWN_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for pid in _words(own / "cgroup.procs"):
            with contextlib.suppress(ProcessLookupError):
                _write(leaf / "cgroup.procs", pid)
    except OSError as failed:
        raise NoCgroups(f"the gateway cannot move into {leaf}: {failed}. {ADVICE}") from failed


def _family() -> set[int]:
    """The gateway and what it has started, with what it was started by in a container (an init that does nothing else)."""
    family = {os.getpid()}
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family | {1}


def _parent(process: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _words(path: Path) -> Iterable[str]:
    with contextlib.suppress(OSError):
        return path.read_text().split()
    return []


def _write(path: Path, value: object) -> None:
    # Without O_CREAT: a file that is missing is then said to be.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)
