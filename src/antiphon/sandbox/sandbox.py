"""How a process is started where it can reach nothing: bubblewrap's arguments, control groups, and a filter of system calls."""

import asyncio
import contextlib
import json
import os
import platform
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from antiphon.sandbox.cgroups import Cgroup, Cgroups, group_name
from antiphon.sandbox.folder import give_away
from antiphon.sandbox.runs import SandboxLimits
from antiphon.sandbox.seccomp import filter_program

# Where things are inside.
DATA = "/mnt/data"
PYTHON_FOLDER = "/opt/python"
PACKAGES_FOLDER = "/opt/packages"
PROGRAM_FOLDER = "/opt/notebook"
USER = 1000

# Users that nobody has: above those that systemd hands out, below the last one that all programs can store.
FIRST_UID, UIDS = 1_900_000_000, 100_000_000

OPEN_FILES = 1024
LAUNCHER = Path(__file__).with_name("launcher.py")
# What runs inside, and the names there.
PROGRAMS = {"_notebook.py": "inside.py", "_notebook_backend.py": "inside_backend.py"}

# All that code finds in /etc.
ETC = {
    "passwd": f"root:x:0:0:root:/:/bin/sh\nuser:x:{USER}:{USER}:user:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "group": f"root:x:0:\nuser:x:{USER}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "fonts/fonts.conf": "<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/fontconfig</cachedir></fontconfig>\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
ENVIRONMENT = {
    "PATH": f"{PYTHON_FOLDER}/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "USER": "user",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "MPLBACKEND": "module://_notebook_backend",
    # One thread for each core, for each library: that would use up the processes.
    "OPENBLAS_NUM_THREADS": "2",
    "OMP_NUM_THREADS": "2",
}


NOT_PRIVATE = (
    "data_dir, cache_dir or the folder of [containers] is inside a folder that code can read, that of Python, of its packages, "
    "or /usr. Move it."
)


class UnusablePython(Exception):
    """The interpreter cannot be shown inside without showing more than it."""


class SandboxProcess:
    """A process inside, and what ends with it."""

    def __init__(self, process: asyncio.subprocess.Process, cgroup: Cgroup) -> None:
        self._process = process
        self.cgroup = cgroup

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def wait(self) -> None:
        await self._process.wait()

    async def end(self) -> None:
        """Ends all of its processes, whatever they do. Nothing is left."""
        self.cgroup.pause(False)
        with contextlib.suppress(ProcessLookupError):
            # What is inside goes down with it: `--die-with-parent`, and the first process of a PID namespace.
            self._process.kill()
        await self.cgroup.remove()
        await self._process.wait()


class Sandbox:
    """`python` is an interpreter whose folder is shown inside, with `packages`: folders of packages. Without them, they are the
    gateway's own. `private`: what must not be in any folder that is shown inside."""

    def __init__(
        self,
        cgroups: Cgroups,
        *,
        python: str | None = None,
        packages: Sequence[Path] | None = None,
        private: Sequence[Path] = (),
    ) -> None:
        self.cgroups = cgroups
        self._bwrap = shutil.which("bwrap") or "bwrap"
        self._interpreter = _checked(Path(os.path.realpath(python or sys.executable)))
        self._packages = list(_own_packages() if packages is None else packages)
        self._check_private(private)
        self._system = [*_system_folders(), *_etc(), *self._python()]

    def _check_private(self, private: Sequence[Path]) -> None:
        shown = [Path("/usr"), self._interpreter.parent.parent, *(Path(os.path.realpath(each)) for each in self._packages)]
        for path in (Path(os.path.realpath(each)) for each in private):
            if any(path.is_relative_to(folder) for folder in shown):
                raise UnusablePython(NOT_PRIVATE)

    async def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        limits: SandboxLimits,
        *,
        output: int,
        pass_fds: Sequence[int] = (),
    ) -> SandboxProcess:
        """Starts the program for notebooks with `arguments`; `folder` is /mnt/data inside. What it prints goes to `output`."""
        uid = await asyncio.to_thread(_owner, folder) if os.geteuid() == 0 else None
        cgroup = self.cgroups.create(group_name(), limits)
        order = {
            "cgroups": cgroup.procs,
            "rlimits": {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": OPEN_FILES, "RLIMIT_FSIZE": limits.disk},
            "uid": uid,
            "command": self._command(arguments, folder, limits, uid),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(order)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=tuple(pass_fds),
                env={},  # what is not there cannot leak
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the gateway, which ends it
            )
        except BaseException:
            await cgroup.remove()
            raise
        return SandboxProcess(process, cgroup)

    def _command(self, arguments: Sequence[str], folder: Path, limits: SandboxLimits, uid: int | None) -> list[Any]:
        program = [self._inner_python(), "-s", f"{PROGRAM_FOLDER}/_notebook.py", *arguments]
        drop = [] if uid is None else _drop_to_user()
        return [
            self._bwrap,
            *_namespaces(uid),
            *_environment(),
            *self._files(folder, limits),
            *_filter(),
            "--",
            *drop,
            *program,
        ]

    def _files(self, folder: Path, limits: SandboxLimits) -> list[Any]:
        temporary = str(limits.memory // 2)
        here = Path(__file__).parent
        programs = [
            part for name, file in PROGRAMS.items() for part in ("--ro-bind", str(here / file), f"{PROGRAM_FOLDER}/{name}")
        ]
        return [
            *_folders("/mnt", "/opt", "/etc", "/etc/fonts", "/opt/notebook", "/opt/packages"),
            *self._system,
            *programs,
            *("--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", temporary, "--tmpfs", "/tmp"),
            *("--perms", "1777", "--size", temporary, "--tmpfs", "/dev/shm"),
            *("--bind", str(folder), DATA),
            # In /proc, a process could lower the score by which the kernel chooses what ends when the memory is used up.
            *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        ]

    def _inner_python(self) -> str:
        if _is_system(self._interpreter):
            return str(self._interpreter)
        return f"{PYTHON_FOLDER}/bin/{self._interpreter.name}"

    def _python(self) -> list[str]:
        """The interpreter's own folder, and nothing above it: it may be in somebody's home."""
        binds: list[str] = []
        if not _is_system(self._interpreter):
            binds += ["--ro-bind", str(self._interpreter.parent.parent), PYTHON_FOLDER]
        for number, packages in enumerate(self._packages):
            if packages.is_dir():
                binds += ["--ro-bind", str(packages), f"{PACKAGES_FOLDER}/{number}"]
        folders = [f"{PACKAGES_FOLDER}/{number}" for number in range(len(self._packages))]
        return [*binds, "--setenv", "PYTHONPATH", ":".join([*folders, PROGRAM_FOLDER])]


def _namespaces(uid: int | None) -> list[str]:
    user = ["--unshare-user", "--uid", str(USER), "--gid", str(USER)] if uid is None else ["--userns", "{userns}"]
    # Capabilities in the user namespace: only for the step from its root to its user, which gives them up.
    keep = [] if uid is None else [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
    others = [f"--unshare-{name}" for name in ("pid", "ipc", "uts", "net", "cgroup")]
    return [*user, *others, "--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL", *keep]


def _drop_to_user() -> list[str]:
    user = ["--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
    return ["/usr/bin/setpriv", *user, "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", "--"]


def _environment() -> list[str]:
    return ["--clearenv", *(part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value))]


def _filter() -> list[Any]:
    return ["--seccomp", {"hex": filter_program(platform.machine()).hex()}]


def _folders(*names: str) -> list[str]:
    return [part for name in names for part in ("--perms", "0755", "--dir", name)]


def _system_folders() -> list[str]:
    """/usr, and beside it what is a link into it, or a folder on older systems."""
    binds = ["--ro-bind", "/usr", "/usr"]
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        if path.is_symlink():
            binds += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            binds += ["--ro-bind", str(path), str(path)]
    return binds


def _etc() -> list[Any]:
    files = [
        part for name, text in ETC.items() for part in ("--perms", "0444", "--ro-bind-data", {"text": text}, f"/etc/{name}")
    ]
    # On Debian, many programs are links through this folder. Only the links, and only into /usr.
    links = [part for name, target in _alternatives() for part in ("--symlink", target, f"/etc/alternatives/{name}")]
    return [*files, *_folders("/etc/alternatives"), *links]


def _alternatives() -> Iterable[tuple[str, str]]:
    with contextlib.suppress(OSError):
        for entry in os.scandir("/etc/alternatives"):
            if entry.is_symlink() and (target := os.readlink(entry.path)).startswith("/usr/") and "/man/" not in target:
                yield entry.name, target


def _is_system(path: Path) -> bool:
    return path.is_relative_to("/usr")


def _checked(interpreter: Path) -> Path:
    """Its folder is shown inside, so it must be that of a Python and of nothing else."""
    prefix = interpreter.parent.parent
    if _is_system(interpreter):
        return interpreter
    if interpreter.parent.name != "bin" or not list((prefix / "lib").glob("python3*/os.py")):
        raise UnusablePython(f"{interpreter} is not in the bin folder of a Python installation.")
    if prefix in (Path("/"), Path.home()) or (prefix / ".ssh").exists():
        raise UnusablePython(f"the Python in {prefix} shares its folder with other files.")
    return interpreter


def _own_packages() -> list[Path]:
    """The gateway's packages: where the extra `code` is installed."""
    return sorted({Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))})


def _owner(folder: Path) -> int:
    """The user that code in this folder has outside, where the gateway is root: one for each folder, and never root."""
    uid = folder.stat().st_uid
    if not FIRST_UID <= uid < FIRST_UID + UIDS:
        uid = FIRST_UID + secrets.randbelow(UIDS)
        give_away(folder, uid)
    return uid
