"""The filter of system calls, run here by a small machine of our own. The kernel's is asked in test_attacks.py."""

import errno
import struct

import pytest

from antiphon.sandbox import seccomp

MACHINES = ("x86_64", "aarch64")


def verdict(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the filter returns for a call."""
    called_by = seccomp.ARCHITECTURES[machine] if architecture is None else architecture
    data = struct.pack("<IIQ6Q", number, called_by, 0, *(*arguments, *[0] * (6 - len(arguments))))
    program = list(struct.iter_unpack("<HBBI", seccomp.filter_program(machine)))
    position, value = 0, 0
    while True:
        code, if_true, if_false, operand = program[position]
        position += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            position += if_true if holds else if_false


def error(number: int) -> int:
    return seccomp.ERROR | number


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_table_is_denied(machine: str) -> None:
    for call in seccomp.DENIED:
        if (number := getattr(call, machine)) is not None:
            assert verdict(machine, number) == error(call.error), call.name


@pytest.mark.parametrize(("machine", "calls"), [("x86_64", (0, 1, 9, 39, 59, 257)), ("aarch64", (63, 64, 222, 172, 221, 56))])
def test_what_python_needs_is_allowed(machine: str, calls: tuple[int, ...]) -> None:
    assert {verdict(machine, number) for number in calls} == {seccomp.ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_call_of_another_architecture_ends_the_process(machine: str) -> None:
    i386 = 0x40000003
    assert verdict(machine, 20, architecture=i386) == seccomp.KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_are_newer_than_the_table_do_not_exist(machine: str) -> None:
    assert verdict(machine, seccomp.LAST_KNOWN + 1) == error(errno.ENOSYS)
    assert verdict(machine, seccomp.X32 + 39) == error(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_child_may_be_made_but_no_namespace(machine: str) -> None:
    clone = getattr(seccomp.CLONE, machine)
    threads = 0x3D0F00  # what the C library uses for a thread
    assert verdict(machine, clone, 17) == verdict(machine, clone, threads) == seccomp.ALLOW
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(machine, clone, flag | 17) == error(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_of_three_families(machine: str) -> None:
    socket = getattr(seccomp.SOCKET, machine)
    allowed = {family for family in range(60) if verdict(machine, socket, family, 1, 0) == seccomp.ALLOW}
    assert allowed == {seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6}


@pytest.mark.parametrize("machine", MACHINES)
def test_two_requests_of_terminals_are_denied(machine: str) -> None:
    ioctl = getattr(seccomp.IOCTL, machine)
    assert verdict(machine, ioctl, 0, seccomp.TIOCSTI) == verdict(machine, ioctl, 0, seccomp.TIOCLINUX) == error(errno.EPERM)
    assert verdict(machine, ioctl, 0, 0x5401) == seccomp.ALLOW
