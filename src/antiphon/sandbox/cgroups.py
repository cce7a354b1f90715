"""The limits of a sandbox that count all of its processes together: control groups of Linux, version 1 and 2.

A group is made inside the gateway's own, so what limits the gateway limits its sandboxes too.
"""

import asyncio
import contextlib
import os
import re
import secrets
import signal
from collections.abc import Iterable
from pathlib import Path

from antiphon.sandbox.runs import SandboxLimits

PREFIX = "antiphon-sandbox-"
OWN_LEAF = "antiphon-gateway"
NEEDED = ("memory", "pids")
# Pauses what code has left running. In version 2, every group can be paused.
NEEDED_V1 = (*NEEDED, "freezer")
USEFUL = ("cpu",)
# On a busy machine, all processes of a sandbox together get half of what one of the gateway's gets.
SHARES_V1, WEIGHT_V2 = 512, 50
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
            return
        _write(memory / "memory.max", limits.memory)
        with contextlib.suppress(FileNotFoundError):
            _write(memory / "memory.swap.max", 0)

    def give_way(self) -> None:
        """From now on, others come first where the machine is busy."""
        with contextlib.suppress(OSError):
            if self._version == 2:
                _write(self._folders["pids"] / "cpu.weight", WEIGHT_V2)
            elif (cpu := self._folders.get("cpu")) is not None:
                _write(cpu / "cpu.shares", SHARES_V1)

    def memory_kills(self) -> int:
        """How many processes the kernel has killed because the memory was used up."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)", (self._folders["memory"] / name).read_text(encoding="utf-8"), re.MULTILINE)
            return int(found[1]) if found else 0
        return 0

    def pause(self, paused: bool) -> None:
        """Nothing inside runs until it is resumed."""
        with contextlib.suppress(OSError):
            if self._version == 2:
                _write(self._folders["pids"] / "cgroup.freeze", int(paused))
            else:
                _write(self._folders["freezer"] / "freezer.state", "FROZEN" if paused else "THAWED")

    def is_paused(self) -> bool:
        """Whether the kernel has stopped everything inside."""
        with contextlib.suppress(OSError):
            if self._version == 2:
                return "frozen 1" in (self._folders["pids"] / "cgroup.events").read_text(encoding="utf-8").splitlines()
            return (self._folders["freezer"] / "freezer.state").read_text(encoding="utf-8").strip() == "FROZEN"
        return False

    def processes(self) -> set[int]:
        with contextlib.suppress(OSError):
            return {int(line) for line in (self._folders["pids"] / "cgroup.procs").read_text(encoding="utf-8").split()}
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
        folders = self._folders(name)
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

    async def remove_leftovers(self) -> None:
        """Ends what gateways that were killed have left: in version 1, what is paused does not even end with its gateway."""
        for name in await asyncio.to_thread(self._leftovers):
            await Cgroup(self._folders(name), self._version).remove()

    def _folders(self, name: str) -> dict[str, Path]:
        return {controller: parent / f"{PREFIX}{name}" for controller, parent in self._parents.items()}

    def _leftovers(self) -> set[str]:
        names = {path.name.removeprefix(PREFIX) for parent in self._parents.values() for path in parent.glob(f"{PREFIX}*")}
        return {name for name in names if has_died(name)}


def group_name() -> str:
    """A new name, which says whose it is: `has_died` reads it."""
    return f"{_process_name(os.getpid())}-{secrets.token_hex(6)}"


def _process_name(pid: int) -> str:
    """A process by its number, the namespace that this number is of, and the time when it began: numbers are used again."""
    began = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    return f"{pid}-{Path('/proc/self/ns/pid').stat().st_ino}-{began}"


def has_died(name: str) -> bool:
    gateway = name.rpartition("-")[0]
    pid, _, rest = gateway.partition("-")
    if rest.partition("-")[0] != str(Path("/proc/self/ns/pid").stat().st_ino):
        return False  # of another container, whose processes we cannot see
    try:
        return _process_name(int(pid)) != gateway
    except (OSError, ValueError):
        return True


ADVICE = (
    "Start the gateway with `systemd-run --user --scope -p Delegate=yes`, as a systemd service with `Delegate=yes`, or as "
    "root; in a container, /sys/fs/cgroup must be writable."
)


THIS_PROCESS = Path("/proc/self")


def find_cgroups(process: Path = THIS_PROCESS) -> Cgroups:
    """Where the gateway may make groups. Raises NoCgroups."""
    try:
        mounts, own = (
            _mounts((process / "mountinfo").read_text(encoding="utf-8")),
            _own_groups((process / "cgroup").read_text(encoding="utf-8")),
        )
    except OSError as failed:
        raise NoCgroups(f"control groups cannot be found: {failed}. {ADVICE}") from failed
    found = {name: _folder(mounts[name], own[name]) for name in (*NEEDED_V1, *USEFUL) if name in mounts and name in own}
    if all(name in found for name in NEEDED_V1):
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
    for name in NEEDED_V1:
        if not os.access(found[name], os.W_OK):
            raise NoCgroups(f"the gateway may not make control groups in {found[name]}. {ADVICE}")
    return {name: folder for name, folder in found.items() if os.access(folder, os.W_OK)}


def _delegated(own: Path) -> Path:
    """A folder of version 2 whose children have the controllers: the gateway's own group, or else the one above it."""
    if _gives(own) or _divided(own):
        return own
    if _gives(own.parent):
        return own.parent
    raise NoCgroups(f"the gateway may not limit memory and processes in its control group {own}. {ADVICE}")


def _gives(folder: Path) -> bool:
    enabled = _words(folder / "cgroup.subtree_control")
    return os.access(folder, os.W_OK) and all(name in enabled for name in NEEDED)


def _divided(own: Path) -> bool:
    """A group with processes gives its children no controllers. So the gateway moves down into a leaf, if it is alone."""
    there, processes = _words(own / "cgroup.controllers"), {int(pid) for pid in _words(own / "cgroup.procs")}
    if not os.access(own, os.W_OK) or not all(name in there for name in NEEDED) or processes - _family():
        return False
    leaf = own / OWN_LEAF
    try:
        leaf.mkdir(exist_ok=True)
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                _write(leaf / "cgroup.procs", pid)
        _write(own / "cgroup.subtree_control", " ".join(f"+{name}" for name in (*NEEDED, *USEFUL) if name in there))
    except OSError:
        return False
    return True


def _family() -> set[int]:
    """The gateway and what it has started, with what it was started by in a container (an init that does nothing else)."""
    family = {os.getpid()}
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family | {1}


def _parent(process: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return 0


def _words(path: Path) -> Iterable[str]:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8").split()
    return []


def _write(path: Path, value: object) -> None:
    # Without O_CREAT: a file that is missing is then said to be.
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)
