"""Which system calls are denied inside, and the program for the kernel that does it.

What is left is what Python, its packages and a shell use. The namespaces contain the code already: what is denied here is what
could get it out of them if the kernel had a defect, for most of these calls had some.
"""

import errno
import struct
from collections.abc import Iterable

from msgspec import Struct

ALLOW = 0x7FFF0000
KILL = 0x80000000
ERROR = 0x00050000

# What the kernel calls the machine in the data that a filter sees.
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Calls of the x32 ABI come as those of x86_64, with this bit.
X32 = 0x40000000
# Later ones are unknown to this table, so code gets the answer of a kernel that does not have them.
LAST_KNOWN = 462

NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: cgroup, uts, ipc, user, pid, net, mount
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10


class Denied(Struct, frozen=True):
    """A call's numbers on x86_64 and aarch64; None where it does not exist."""

    name: str
    x86_64: int | None
    aarch64: int | None
    error: int = errno.EPERM


# fmt: off
DENIED = (
    # The view of files is what the namespaces are for.
    Denied("mount", 165, 40), Denied("umount2", 166, 39), Denied("pivot_root", 155, 41), Denied("chroot", 161, 51),
    Denied("open_tree", 428, 428), Denied("move_mount", 429, 429), Denied("fsopen", 430, 430), Denied("fsconfig", 431, 431),
    Denied("fsmount", 432, 432), Denied("fspick", 433, 433), Denied("mount_setattr", 442, 442),
    # A file by its handle needs no path that is visible.
    Denied("open_by_handle_at", 304, 265), Denied("name_to_handle_at", 303, 264),
    # Inside a namespace of its own, code has rights that reach many more parts of the kernel.
    Denied("unshare", 272, 97), Denied("setns", 308, 268),
    # Its flags are behind a pointer, which a filter cannot follow. The C library goes back to clone.
    Denied("clone3", 435, 435, errno.ENOSYS),
    # Other processes, also the one that reports to the gateway.
    Denied("ptrace", 101, 117), Denied("process_vm_readv", 310, 270), Denied("process_vm_writev", 311, 271),
    Denied("process_madvise", 440, 440), Denied("pidfd_getfd", 438, 438), Denied("kcmp", 312, 272),
    # Keys are not in any namespace.
    Denied("add_key", 248, 217), Denied("request_key", 249, 218), Denied("keyctl", 250, 219),
    # Large parts of the kernel with a long list of defects.
    Denied("bpf", 321, 280), Denied("perf_event_open", 298, 241), Denied("userfaultfd", 323, 282),
    Denied("io_uring_setup", 425, 425, errno.ENOSYS), Denied("io_uring_enter", 426, 426, errno.ENOSYS),
    Denied("io_uring_register", 427, 427, errno.ENOSYS),
    Denied("fanotify_init", 300, 262), Denied("fanotify_mark", 301, 263), Denied("modify_ldt", 154, None),
    Denied("migrate_pages", 256, 238), Denied("move_pages", 279, 239),
    # Memory that the kernel itself cannot see, nor count.
    Denied("memfd_secret", 447, 447, errno.ENOSYS),
    # Switches off protections of the memory.
    Denied("personality", 135, 92),
    # The machine itself.
    Denied("kexec_load", 246, 104), Denied("kexec_file_load", 320, 294), Denied("init_module", 175, 105),
    Denied("finit_module", 313, 273), Denied("delete_module", 176, 106), Denied("create_module", 174, None),
    Denied("reboot", 169, 142), Denied("swapon", 167, 224), Denied("swapoff", 168, 225), Denied("acct", 163, 89),
    Denied("quotactl", 179, 60), Denied("quotactl_fd", 443, 443), Denied("syslog", 103, 116), Denied("iopl", 172, None),
    Denied("ioperm", 173, None), Denied("settimeofday", 164, 170), Denied("clock_settime", 227, 112),
    Denied("clock_adjtime", 305, 266), Denied("adjtimex", 159, 171), Denied("sethostname", 170, 161),
    Denied("setdomainname", 171, 162), Denied("vhangup", 153, 58),
    # Nobody uses these any more.
    Denied("uselib", 134, None), Denied("ustat", 136, None), Denied("sysfs", 139, None), Denied("_sysctl", 156, None),
    Denied("lookup_dcookie", 212, 18), Denied("nfsservctl", 180, 42),
)
CLONE = Denied("clone", 56, 220)
IOCTL = Denied("ioctl", 16, 29)
SOCKET = Denied("socket", 41, 198, errno.EAFNOSUPPORT)
# fmt: on

# Where a filter finds the parts of a call (struct seccomp_data; the low half of an argument, on little-endian machines).
NUMBER, ARCHITECTURE = 0, 4
FIRST_ARGUMENT, SECOND_ARGUMENT = 16, 24

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def supported(machine: str) -> bool:
    return machine in ARCHITECTURES


def filter_program(machine: str) -> bytes:
    """The filter for bubblewrap's `--seccomp`."""
    calls = [_load(ARCHITECTURE), _jump(_EQUAL, ARCHITECTURES[machine], 1, 0), _return(KILL), _load(NUMBER)]
    # Also those of x32, whose numbers are higher.
    calls += [_jump(_AT_LEAST, LAST_KNOWN + 1, 0, 1), _return(ERROR | errno.ENOSYS)]
    for denied in DENIED:
        if (number := getattr(denied, machine)) is not None:
            calls += [_jump(_EQUAL, number, 0, 1), _return(ERROR | denied.error)]
    calls += _argument_rule(
        getattr(CLONE, machine), FIRST_ARGUMENT, [_jump(_ANY_BIT, NEW_NAMESPACES, 0, 1), _return(ERROR | CLONE.error)]
    )
    # Types into the terminal that the gateway was started from. A session of its own is the first protection against it.
    terminal = [_jump(_EQUAL, TIOCSTI, 1, 0), _jump(_EQUAL, TIOCLINUX, 0, 1), _return(ERROR | IOCTL.error)]
    calls += _argument_rule(getattr(IOCTL, machine), SECOND_ARGUMENT, terminal)
    # Other families are not all in the network namespace: vsock, for one, reaches the host of a virtual machine.
    families = [_jump(_EQUAL, AF_UNIX, 3, 0), _jump(_EQUAL, AF_INET, 2, 0), _jump(_EQUAL, AF_INET6, 1, 0)]
    calls += _argument_rule(getattr(SOCKET, machine), FIRST_ARGUMENT, [*families, _return(ERROR | SOCKET.error)])
    calls.append(_return(ALLOW))
    return b"".join(calls)


def _argument_rule(number: int, argument: int, rule: Iterable[bytes]) -> list[bytes]:
    """`rule` sees the argument; behind it, the call is allowed."""
    body = [_load(argument), *rule, _return(ALLOW)]
    return [_jump(_EQUAL, number, 0, len(body)), *body]


def _load(offset: int) -> bytes:
    return _instruction(_LOAD, 0, 0, offset)


def _jump(test: int, value: int, if_true: int, if_false: int) -> bytes:
    """Skips so many instructions."""
    return _instruction(test, if_true, if_false, value)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, 0, 0, action)


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
