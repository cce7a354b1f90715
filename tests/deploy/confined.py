"""Runs a command below the limits of a deployment, as systemd or Docker would set them. Only root can.

A program of its own, without imports of ours: what it does comes as JSON, as its only argument (`deploy.limits` makes it). It
changes mounts in a namespace of its own, gives up its rights, filters its system calls, and becomes the command.
"""

import ctypes
import json
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
SYS_MOUNT_SETATTR, PIVOT_ROOT, MNT_DETACH = 442, {"x86_64": 155, "aarch64": 41}, 2
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 8, 47, 4
# Numbers of linux/capability.h that have a name in a file of ours.
CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "SYS_ADMIN": 21,
    "SETFCAP": 31,
}
LAST_CAPABILITY = 40
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "mqueue", "ptmx")

libc = ctypes.CDLL(None, use_errno=True)
seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
COMPARISONS = {"!=": 1, "==": 4, "&": 7}


class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


class Argument(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint), ("compare", ctypes.c_uint), ("one", ctypes.c_uint64), ("other", ctypes.c_uint64)]


class CapabilityHead(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def main(order: dict[str, Any]) -> None:
    for path in order["cgroups"]:
        Path(path).write_text("0", encoding="ascii")
    _mounts(order)
    _rights(order)
    os.chdir("/")
    os.umask(order["umask"])
    os.environ.clear()
    os.environ.update(order["environment"])
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, int(order["no_new_privileges"]), 0, 0, 0), "no_new_privs")
    for each in order["filters"]:
        _filter(each)
    os.execv(order["command"][0], order["command"])


# ---- files ---------------------------------------------------------------------------------------------------------


def _mounts(order: dict[str, Any]) -> None:
    _checked(libc.unshare(CLONE_NEWNS | (CLONE_NEWPID if order["pid_namespace"] else 0)), "unshare")
    if order["pid_namespace"]:
        _become_first_process()
    _mount(None, "/", MS_REC | MS_PRIVATE)
    _new_root(order["root"], order["binds"])
    if order["proc"] is not None:
        _mount("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "proc", order["proc"])
    if order["devices"]:
        _private_devices()
    for path in order["temporary"]:
        _mount("tmpfs", path, MS_NOSUID | MS_NODEV, "tmpfs", "mode=1777")
    if order["read_only_system"]:
        _read_only("/")
        for path in ("/dev", "/proc", "/sys", *order["temporary"], *order["writable"]):
            _read_only(path, clear=True)
    for path in filter(os.path.exists, order["read_only"]):
        _mount(path, path, MS_BIND | MS_REC)
        _read_only(path)
    for path in filter(os.path.exists, order["hidden"]):
        _hide(path)


def _new_root(place: str, binds: dict[str, str]) -> None:
    """The same folders in another root, in which others are added without touching this machine's."""
    _mount("tmpfs", place, 0, "tmpfs", "mode=755")
    for entry in os.scandir("/"):
        target = f"{place}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir():
            os.mkdir(target)
            _mount(entry.path, target, MS_BIND | MS_REC)
    for parent in {str(Path(target).parent) for target in binds} - {"/"}:
        _mount("tmpfs", f"{place}{parent}", MS_NOSUID | MS_NODEV, "tmpfs", "mode=755")
    for target, source in binds.items():
        os.mkdir(f"{place}{target}")
        _mount(source, f"{place}{target}", MS_BIND)
    os.chdir(place)
    _checked(libc.syscall(PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _checked(libc.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def _become_first_process() -> None:
    """The command has process number 1, and gets the signal that ends it."""
    if (child := os.fork()) == 0:
        return
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _private_devices() -> None:
    there = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES if os.path.exists(f"/dev/{name}")}
    _mount("tmpfs", "/dev", MS_NOSUID, "tmpfs", "mode=755")
    for name, source in there.items():
        target = Path("/dev", name)
        if stat.S_ISDIR(os.fstat(source).st_mode):
            target.mkdir()
        else:
            target.touch()
        _mount(f"/proc/self/fd/{source}", str(target), MS_BIND)
        os.close(source)


def _hide(path: str) -> None:
    if os.path.isdir(path):
        _mount("tmpfs", path, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "tmpfs", "mode=0")
    else:
        _mount("/dev/null", path, MS_BIND)


def _mount(source: str | None, target: str, flags: int, kind: str | None = None, data: str | None = None) -> None:
    encoded = [each.encode() if each is not None else None for each in (source, target, kind, data)]
    _checked(libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def _read_only(path: str, *, clear: bool = False) -> None:
    attributes = Attributes(0 if clear else MOUNT_ATTR_RDONLY, MOUNT_ATTR_RDONLY if clear else 0, 0, 0)
    pointer, size = ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes))
    _checked(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, pointer, size), f"mount_setattr {path}")


# ---- rights --------------------------------------------------------------------------------------------------------


def _rights(order: dict[str, Any]) -> None:
    kept = {CAPABILITIES[name] for name in order["capabilities"]}
    for number in set(range(LAST_CAPABILITY + 1)) - kept:
        _checked(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), f"capability {number}")
    os.setgroups([])
    os.setresgid(order["uid"], order["uid"], order["uid"])
    os.setresuid(order["uid"], order["uid"], order["uid"])
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if order["uid"] == 0:
        bits = sum(1 << number for number in kept)
        sets = (ctypes.c_uint32 * 6)(bits, bits, 0, bits >> 32, bits >> 32, 0)
        _checked(libc.capset(ctypes.byref(CapabilityHead(0x20080522, 0)), sets), "capset")


def _filter(order: dict[str, Any]) -> None:
    """One filter: what happens to all calls, and to some, by their names and arguments."""
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(_action(order["otherwise"]))))
    for rule in order["rules"]:
        arguments = [Argument(number, COMPARISONS[compare], one, other) for number, compare, one, other in rule["arguments"]]
        for name in rule["calls"]:
            # Negative: a call of another architecture, or a newer one.
            if (number := seccomp.seccomp_syscall_resolve_name(name.encode())) < 0:
                continue
            array = (Argument * len(arguments))(*arguments)
            action = ctypes.c_uint32(_action(rule["action"]))
            failed = seccomp.seccomp_rule_add_array(context, action, number, len(arguments), array)
            if failed:
                sys.exit(f"no rule for {name}: {os.strerror(-failed)}")
    if (failed := seccomp.seccomp_load(context)) != 0:
        sys.exit(f"no filter: {os.strerror(-failed)}")


def _action(error: int) -> int:
    """The number of an error; 0: the call is allowed."""
    return 0x00050000 | error if error else 0x7FFF0000


def _checked(result: int, what: str) -> None:
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
