"""Whether the sandbox works on this machine: tried from the inside, before any code of a model runs."""

import asyncio
import contextlib
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from antiphon.sandbox.cgroups import THIS_PROCESS, NoCgroups, find_cgroups, group_name, has_died
from antiphon.sandbox.folder import remove_folder
from antiphon.sandbox.kernel import Kernel, KernelFailed
from antiphon.sandbox.runs import MIB, SandboxLimits
from antiphon.sandbox.sandbox import Sandbox, UnusablePython
from antiphon.sandbox.seccomp import ARCHITECTURES, supported

# Of its folder for temporary files.
PREFIX = "antiphon-probe-"
# Small, so that a limit that does not work does no harm.
LIMITS = SandboxLimits(memory=64 * MIB, processes=16, disk=16 * MIB)
SECONDS = 10.0


class NoSandbox(Exception):
    """Why code cannot be run here, and what to install or set."""


class Attempt(Struct, frozen=True):
    """Python that prints True where it was stopped, and what it means if it was not."""

    code: str
    otherwise: str


# Each is an expression or a function `attempt` that is called with what the gateway has prepared.
ATTEMPTS = (
    Attempt(
        """
import os, socket
def reaches(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(1)
        try: one.connect(address)
        except OSError: return False
        return True
def attempt(it):
    names = [line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]]
    addresses = [('127.0.0.1', it['port']), ('192.0.2.1', 80)]
    return set(names) <= {'lo'} and not any(reaches(socket.AF_INET, address) for address in addresses)
""",
        "it is not cut off from the network",
    ),
    Attempt(
        """
import os
def attempt(it):
    paths = (it['file'], '/root', '/home', '/etc/shadow', '/sys/kernel')
    seen = [path for path in paths if os.path.lexists(path)]
    if os.readlink('/proc/self/ns/pid') == it['namespace']: return False
    try: open('/usr/antiphon-probe', 'w')
    except OSError: return not seen
    return False
""",
        "files or processes of this machine are visible inside, or can be written",
    ),
    Attempt(
        """
import os
def attempt(it):
    return 'ANTIPHON' not in str(os.environ) and os.getuid() == 1000
""",
        "the gateway's environment or user is visible inside",
    ),
    Attempt(
        """
import errno, socket
def attempt(it):
    status = dict(line.split(':', 1) for line in open('/proc/self/status'))
    rights = [int(status[name], 16) for name in ('CapEff', 'CapPrm', 'CapBnd')]
    try: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
    except OSError as failed: denied = failed.errno == errno.EAFNOSUPPORT
    else: denied = False
    return denied and rights == [0, 0, 0] and int(status['NoNewPrivs']) == 1 and int(status['Seccomp']) == 2
""",
        "system calls are not filtered (the kernel needs CONFIG_SECCOMP_FILTER)",
    ),
    # A fork bomb. Where nothing stops it, it ends by itself at a few hundred.
    Attempt(
        """
import os
def attempt(it):
    ends, waits = os.pipe()[::-1]
    count = 0
    try:
        for _ in range(40):
            if os.fork() == 0:
                try:
                    for _ in range(5):
                        if os.fork() == 0: break
                except OSError: pass
                os.close(ends)
                os.read(waits, 1)
                os._exit(0)
            count += 1
    except BlockingIOError:
        return count < it['processes']
    finally:
        os.close(ends)
        for _ in range(count): os.wait()
    return False
""",
        "the number of processes is not limited, so a fork bomb would stop this machine",
    ),
)

# A copy of the interpreter that never ends.
LEFT_RUNNING = """
import os
pid = os.fork()
while pid == 0: pass
"""

# What bubblewrap says where it cannot work, and what helps.
FAILURES = (
    (
        ("No permissions to create", "no user namespace can be made", "setting up uid map", "Creating new namespace failed"),
        "user namespaces are switched off here. Allow them (sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0); in a container, its seccomp "
        "profile must allow them.",
    ),
    (
        ("Can't mount proc",),
        "/proc cannot be mounted inside. In a container, start it with `--security-opt systempaths=unconfined`.",
    ),
    (("setpriv",), "setpriv is missing or too old. Install util-linux."),
)


async def open_sandbox(
    python: str | None = None,
    packages: Sequence[Path] | None = None,
    private: Sequence[Path] = (),
    *,
    process: Path = THIS_PROCESS,
) -> Sandbox:
    """A sandbox that works, and does not show what is private. Raises NoSandbox, with the reason. `process`: where the system
    shows the control groups of this process."""
    sandbox = await asyncio.to_thread(_made, python, packages, private, process)
    if (reason := await probe(sandbox)) is not None:
        raise NoSandbox(reason)
    return sandbox


async def probe(sandbox: Sandbox) -> str | None:
    """The reason why it does not work here. Takes less than two seconds, and leaves nothing behind."""
    await sandbox.cgroups.remove_leftovers()
    outside = await asyncio.to_thread(_outside)
    folder, file = outside / "data", outside / "outside"
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            # Not the number of the gateway's process: in a container that is 1 or 2, and those are inside, too.
            namespace = os.readlink("/proc/self/ns/pid")
            port = listener.getsockname()[1]
            facts = {"port": port, "file": str(file), "namespace": namespace, "processes": LIMITS.processes}
            return await _probe(sandbox, folder, facts)
    except (KernelFailed, NoCgroups) as failed:
        return _explained(str(failed))
    finally:
        await asyncio.to_thread(remove_folder, outside)


async def _probe(sandbox: Sandbox, folder: Path, facts: dict[str, object]) -> str | None:
    kernel = await Kernel.start(sandbox, folder, LIMITS)
    try:
        for attempt in ATTEMPTS:
            run = await kernel.run(f"{attempt.code}\nattempt({facts!r})", SECONDS)
            if run.logs.strip() != "True":
                return f"The sandbox does not work here: {attempt.otherwise}. {_last_line(run.logs)}".strip()
        run = await kernel.run(LEFT_RUNNING, SECONDS)
        if run.failed or not await _comes_to_rest(kernel):
            return (
                "The sandbox does not work here: what code leaves running cannot be paused (the kernel needs CONFIG_FREEZER)."
            )
        # Last, for it ends the interpreter.
        run = await kernel.run(f"len(b'x' * {2 * LIMITS.memory})", SECONDS)
        if kernel.is_alive or not run.out_of_memory:
            return "The sandbox does not work here: memory is not limited (the kernel needs CONFIG_MEMCG)."
    finally:
        await kernel.close()
    return None


async def _comes_to_rest(kernel: Kernel) -> bool:
    for _ in range(100):
        if kernel.is_paused:
            return True
        await asyncio.sleep(0.01)
    return False


def _outside() -> Path:
    """A folder for the code, and a file beside it. Removes those of processes that were killed meanwhile."""
    temporary = Path(tempfile.gettempdir())
    for left in temporary.glob(f"{PREFIX}*-*-*-*"):
        # Others' cannot be removed, and it does no harm to leave one.
        with contextlib.suppress(OSError):
            if has_died(left.name.removeprefix(PREFIX)) and left.lstat().st_uid == os.geteuid():
                remove_folder(left)
    outside = temporary / f"{PREFIX}{group_name()}"
    outside.mkdir(mode=0o700)
    outside.chmod(0o755)  # what hides the file must not be a missing right to look
    (outside / "data").mkdir()
    (outside / "outside").write_text("nobody inside sees this", encoding="utf-8")
    return outside


def _made(python: str | None, packages: Sequence[Path] | None, private: Sequence[Path], process: Path) -> Sandbox:
    if sys.platform != "linux":
        raise NoSandbox(
            "Code can be run on Linux only: the sandbox needs its namespaces and control groups. "
            "Elsewhere, run the gateway in a Linux virtual machine."
        )
    if not supported(machine := platform.machine()):
        raise NoSandbox(f"The sandbox knows no system calls of {machine}, only those of {' and '.join(ARCHITECTURES)}.")
    if shutil.which("bwrap") is None:
        raise NoSandbox("bubblewrap is not installed. Install the package `bubblewrap` (apt, dnf, pacman, apk).")
    if os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"):
        raise NoSandbox("setpriv is not installed. Install the package `util-linux`.")
    try:
        return Sandbox(find_cgroups(process), python=python, packages=packages, private=private)
    except (NoCgroups, UnusablePython) as failed:
        raise NoSandbox(f"Code cannot be run here: {failed}") from failed


def _explained(message: str) -> str:
    advice = next((advice for words, advice in FAILURES if any(word in message for word in words)), None)
    return message if advice is None else f"Code cannot be run here: {advice} ({json.dumps(message)})"


def _last_line(logs: str) -> str:
    lines = logs.strip().splitlines()
    return f"({lines[-1][:200]})" if lines and lines[-1] != "False" else ""
