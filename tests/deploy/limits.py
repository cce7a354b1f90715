"""What the files in deploy/ allow a gateway, as an order for `confined.py`: one row for each directive that limits it."""

import errno
import os
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deploy.files import image_environment
from support.programs import program

Order = dict[str, Any]
Values = list[str]

# systemd takes a free number of this range for a dynamic user.
DYNAMIC_USER = 61999
NAMESPACES = {
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
}
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
HIGHEST_FAMILY = 46
SET_USER_OR_GROUP = (0o4000, 0o2000)
# What systemd makes read-only, and what it hides (systemd.exec(5); src/core/namespace.c).
TUNABLES = ("/proc/sys", "/proc/sysrq-trigger", "/proc/latency_stats", "/proc/mtrr", "/proc/acpi", "/proc/fs", "/proc/irq")
KERNEL_LOGS = ("/proc/kmsg", "/dev/kmsg")
MODULES = ("/usr/lib/modules", "/lib/modules")
HOMES = ("/home", "/root", "/run/user")
# What Docker makes read-only, and what it hides (moby: oci/defaults.go), and the capabilities that remain of its own list.
DOCKER_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
DOCKER_HIDDEN = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/sys/firmware")
# Of the calls that a sandbox needs, those that Docker's own profile denies without CAP_SYS_ADMIN (moby:
# profiles/seccomp/default.json). pivot_root is in none of its lists: it is denied with that capability, too.
DOCKER_DENIED = ("mount", "umount2", "unshare", "setns", "sethostname", "pivot_root", "mount_setattr", "move_mount", "keyctl")


def open_order() -> Order:
    """No limit at all."""
    return {
        "cgroups": [],
        "binds": {},
        "proc": None,
        "pid_namespace": False,
        "devices": False,
        "temporary": [],
        "writable": [],
        "read_only_system": False,
        "read_only": [],
        "hidden": [],
        "capabilities": [],
        "uid": 0,
        "umask": 0o022,
        "no_new_privileges": False,
        "filters": [],
        "delegated": False,
        "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        "command": [],
    }


# ---- filters of system calls ---------------------------------------------------------------------------------------


def rule(calls: Iterable[str], action: int, *arguments: tuple[int, str, int, int]) -> dict[str, Any]:
    """`action`: the number of an error, or 0. `arguments`: each with its number, a comparison and what it is compared with."""
    return {"calls": list(calls), "action": action, "arguments": arguments}


def denied(*calls: str) -> dict[str, Any]:
    return {"otherwise": 0, "rules": [rule(calls, errno.EPERM)]}


@cache
def groups() -> Mapping[str, tuple[str, ...]]:
    """systemd's groups of system calls, by their names."""
    command = [install_systemd(), "syscall-filter", "--no-pager"]
    found: dict[str, list[str]] = {}
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line in (line for line in lines if line.strip() and not line.strip().startswith("#")):
        if line.startswith("@"):
            found[line.strip()] = members = []
        else:
            members.append(line.strip())
    return {name: tuple(members) for name, members in found.items()}


def install_systemd() -> str:
    return program("systemd-analyze", "systemd")


def calls_in(name: str) -> set[str]:
    """A call, or all calls of a group."""
    if not name.startswith("@"):
        return {name}
    return {call for member in groups()[name] for call in calls_in(member)}


# ---- a unit of systemd ---------------------------------------------------------------------------------------------


def is_on(values: Values) -> bool:
    return values[-1] == "yes"


def _dynamic_user(order: Order, values: Values) -> None:
    assert is_on(values)
    order["uid"] = DYNAMIC_USER


def _folder(parent: str) -> Callable[[Order, Values], None]:
    def allow(order: Order, values: Values) -> None:
        order["writable"].append(f"{parent}/{values[-1]}")

    return allow


def _environment(order: Order, values: Values) -> None:
    for value in values:
        order["environment"] |= dict(part.partition("=")[::2] for part in shlex.split(value))


def _capabilities(order: Order, values: Values) -> None:
    order["capabilities"] = [name.removeprefix("CAP_") for value in values for name in value.split()]


def _member(name: str, value: Any = True) -> Callable[[Order, Values], None]:
    def put(order: Order, values: Values) -> None:
        if is_on(values):
            order[name] = value

    return put


def _paths(name: str, paths: Iterable[str], *calls: str) -> Callable[[Order, Values], None]:
    """Paths that are made read-only or hidden, and calls that are denied."""

    def put(order: Order, values: Values) -> None:
        if is_on(values):
            order[name] += paths
            order["filters"] += [denied(*set().union(*map(calls_in, calls)))] if calls else []

    return put


def _private_devices(order: Order, values: Values) -> None:
    if is_on(values):
        order["devices"] = True
        order["filters"].append(denied(*calls_in("@raw-io")))


def _protect_system(order: Order, values: Values) -> None:
    assert values[-1] == "strict"
    order["read_only_system"] = True


def _protect_proc(order: Order, values: Values) -> None:
    order["proc"] = f"hidepid={values[-1]}"


def _delegate(order: Order, values: Values) -> None:
    assert {"memory", "pids"} <= set(values[-1].split())
    order["delegated"] = True


def _umask(order: Order, values: Values) -> None:
    order["umask"] = int(values[-1], 8)


def _address_families(order: Order, values: Values) -> None:
    allowed = {FAMILIES[name] for value in values for name in value.split()}
    others = [number for number in range(HIGHEST_FAMILY) if number not in allowed]
    rules = [rule(["socket"], errno.EAFNOSUPPORT, (0, "==", number, 0)) for number in others]
    order["filters"].append({"otherwise": 0, "rules": rules})


def _namespaces(order: Order, values: Values) -> None:
    allowed = set[str]()
    for value in values:
        if value == "no":
            return
        allowed |= set(value.split()) if value != "yes" else set()
    flags = [flag for name, flag in NAMESPACES.items() if name not in allowed]
    rules = [rule(["clone3"], errno.ENOSYS)]
    rules += [rule(["unshare", "clone"], errno.EPERM, (0, "&", flag, flag)) for flag in flags]
    # Any namespace, whatever its kind.
    rules += [rule(["setns"], errno.EPERM, *([] if not allowed else [(1, "==", 0, 0)]))]
    order["filters"].append({"otherwise": 0, "rules": rules})


def _realtime(order: Order, values: Values) -> None:
    # Policies other than SCHED_OTHER, SCHED_BATCH and SCHED_IDLE.
    rules = [rule(["sched_setscheduler"], errno.EPERM, (1, "==", policy, 0)) for policy in (1, 2, 6)]
    order["filters"].append({"otherwise": 0, "rules": rules})


def _set_user_or_group(order: Order, values: Values) -> None:
    places = {1: ("chmod", "fchmod", "mkdir", "mknod"), 2: ("fchmodat", "mkdirat", "mknodat")}
    rules = [rule(calls, errno.EPERM, (at, "&", bit, bit)) for at, calls in places.items() for bit in SET_USER_OR_GROUP]
    order["filters"].append({"otherwise": 0, "rules": rules})


def _system_calls(order: Order, values: Values) -> None:
    """The first word says whether what follows is allowed; one with a tilde takes away from it."""
    allowed = set[str]()
    for value in values:
        named = set().union(*map(calls_in, value.removeprefix("~").split()))
        allowed = allowed - named if value.startswith("~") else allowed | named
    # Whatever the list says, a process may begin and end.
    order["filters"].append({"otherwise": errno.EPERM, "rules": [rule(sorted(allowed | calls_in("@default")), 0)]})


def _no_limit(order: Order, values: Values) -> None: ...


DIRECTIVES: Mapping[str, Callable[[Order, Values], None]] = {
    **dict.fromkeys(("ExecStart", "ExecReload", "Restart", "RestartSec", "TimeoutStopSec", "KillMode"), _no_limit),
    **dict.fromkeys(("EnvironmentFile", "LimitNOFILE", "StateDirectoryMode", "ConfigurationDirectory"), _no_limit),
    # None of these keeps a program of this machine's own architecture from anything that a sandbox does.
    **dict.fromkeys(("AmbientCapabilities", "RemoveIPC", "SystemCallArchitectures", "SystemCallErrorNumber"), _no_limit),
    "Environment": _environment,
    "DynamicUser": _dynamic_user,
    "StateDirectory": _folder("/var/lib"),
    "CacheDirectory": _folder("/var/cache"),
    "UMask": _umask,
    "Delegate": _delegate,
    "CapabilityBoundingSet": _capabilities,
    "NoNewPrivileges": _member("no_new_privileges"),
    "PrivateDevices": _private_devices,
    "PrivateTmp": _member("temporary", ["/tmp", "/var/tmp"]),
    "ProtectClock": _paths("hidden", (), "@clock"),
    "ProtectControlGroups": _paths("read_only", ["/sys/fs/cgroup"]),
    "ProtectHome": _paths("hidden", HOMES),
    "ProtectHostname": _paths("hidden", (), "sethostname", "setdomainname"),
    "ProtectKernelLogs": _paths("hidden", KERNEL_LOGS, "syslog"),
    "ProtectKernelModules": _paths("hidden", MODULES, "@module"),
    "ProtectKernelTunables": _paths("read_only", TUNABLES),
    "ProtectProc": _protect_proc,
    "ProtectSystem": _protect_system,
    "RestrictAddressFamilies": _address_families,
    "RestrictNamespaces": _namespaces,
    "RestrictRealtime": _realtime,
    "RestrictSUIDSGID": _set_user_or_group,
    "LockPersonality": _paths("hidden", (), "personality"),
    "SystemCallFilter": _system_calls,
}


def unit_order(members: Mapping[str, Values]) -> Order:
    """Fails with a directive that has no row: what it limits has to be known."""
    order = open_order()
    for name, values in members.items():
        DIRECTIVES[name](order, values)
    # The list of allowed calls comes last: behind it, no filter could be added.
    order["filters"].sort(key=lambda each: bool(each["otherwise"]))
    return order


# ---- a container ---------------------------------------------------------------------------------------------------


def container_order(service: Mapping[str, Any], user: int, kept: Iterable[str] = ()) -> Order:
    """A service of Docker Compose, whose process has this user, and these capabilities."""
    order = open_order()
    options = dict(option.partition("=" if "=" in option else ":")[::2] for option in service.get("security_opt", ()))
    order |= {
        "pid_namespace": True,
        "proc": "",
        "devices": True,
        "temporary": list(service["tmpfs"]),
        "writable": [volume.rpartition(":")[2] for volume in service["volumes"]],
        "read_only_system": service["read_only"],
        "capabilities": list(kept),
        "uid": user,
        "no_new_privileges": options.get("no-new-privileges") == "true",
        "delegated": options.get("writable-cgroups") == "true",
    }
    assert service["cap_drop"] == ["ALL"]
    order["environment"] |= {name: value for name, value in image_environment().items() if name.startswith("ANTIPHON_")}
    if options.get("systempaths") != "unconfined":
        order["read_only"] += DOCKER_READ_ONLY
        order["hidden"] += DOCKER_HIDDEN
    if not order["delegated"]:
        order["read_only"].append("/sys/fs/cgroup")
    if options.get("seccomp") != "unconfined":
        order["filters"].append(_docker_filter())
    return order


def _docker_filter() -> dict[str, Any]:
    rules = [rule(DOCKER_DENIED, errno.EPERM), rule(["clone3"], errno.ENOSYS)]
    rules += [rule(["clone"], errno.EPERM, (0, "&", flag, flag)) for flag in NAMESPACES.values()]
    return {"otherwise": 0, "rules": rules}


def installed_at(order: Order, folder: Path, binds: Mapping[str, Path], owner: int) -> Order:
    """With what is installed there, and the folders that it may write to in `folder`, as `owner` has them."""
    for path in order["writable"]:
        made = folder / path.strip("/").replace("/", "-")
        made.mkdir(mode=0o755)
        order["binds"][path] = str(made)
        os.chown(made, owner, owner)
    order["binds"] |= {target: str(source) for target, source in binds.items()}
    (folder / "root").mkdir()
    order["root"] = str(folder / "root")
    return order
