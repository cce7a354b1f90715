"""The sandbox is tried before it is used: each protection that is missing is found, and said."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
from support.bubblewrap import bubblewrap
from support.engine import MockEngine
from support.kernels import interpreting

from antiphon.sandbox.cgroups import Cgroup, Cgroups, find_cgroups
from antiphon.sandbox.probe import NoSandbox, _outside, open_sandbox, probe
from antiphon.sandbox.runs import GIB, SandboxLimits
from antiphon.sandbox.sandbox import Sandbox
from antiphon.settings.tables import ContainerSettings

Change = Callable[[list[Any]], list[Any]]


class WithoutProtection(Sandbox):
    """Bubblewrap's arguments are changed before they are used."""

    def __init__(self, cgroups: Cgroups, change: Change) -> None:
        super().__init__(cgroups)
        self._change = change

    def _command(self, *arguments: Any) -> list[Any]:
        return self._change(super()._command(*arguments))


class Unlimited(Cgroups):
    """A limit is set far too high, as if the machine ignored it."""

    def __init__(self, **limits: int) -> None:
        found = find_cgroups()
        super().__init__(found._parents, found._version)
        self._limits = limits

    def create(self, name: str, limits: SandboxLimits) -> Cgroup:
        return super().create(name, msgspec.structs.replace(limits, **self._limits))


def without(*dropped: str) -> Change:
    return lambda command: [part for part in command if part not in dropped]


def with_folder(path: str) -> Change:
    return lambda command: [*command[:1], *_before_last_mount(command[1:], path)]


def _before_last_mount(arguments: list[Any], path: str) -> list[Any]:
    place = arguments.index("--remount-ro")
    return [*arguments[:place], "--ro-bind", path, path, *arguments[place:]]


def without_filter(command: list[Any]) -> list[Any]:
    place = command.index("--seccomp")
    return command[:place] + command[place + 2 :]


@pytest.fixture(autouse=True)
def installed() -> None:
    bubblewrap()


async def test_here_it_holds_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sandbox = await open_sandbox()
    assert await probe(sandbox) is None
    assert not list(tmp_path.iterdir())


def test_what_a_process_that_was_killed_has_left_is_removed_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: other.pid)
            folder = _outside()
        assert _outside() != folder
        assert (folder / "outside").exists()
        other.kill()
    assert uvloop.run(probe(Sandbox(find_cgroups()))) is None
    assert not folder.exists()


async def test_it_holds_for_a_gateway_that_is_not_root_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # Then bubblewrap makes the user namespace. The tests themselves may be root.
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert await probe(Sandbox(find_cgroups())) is None


@pytest.mark.parametrize("number", [1, 2])
async def test_it_holds_for_the_first_processes_of_a_container(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    # Inside, there are processes of these numbers, too.
    sandbox = Sandbox(find_cgroups())
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: number)
        assert await probe(sandbox) is None


def test_it_holds_on_the_event_loop_of_the_gateway() -> None:
    assert uvloop.run(probe(Sandbox(find_cgroups()))) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without("--unshare-net"), "not cut off from the network"),
        (with_folder("/home"), "files or processes of this machine are visible"),
        (with_folder(tempfile.gettempdir()), "files or processes of this machine are visible"),
        (without("--unshare-pid"), "files or processes of this machine are visible"),
        (without_filter, "system calls are not filtered"),
    ],
    ids=["network", "home", "temporary-files", "processes", "filter"],
)
async def test_a_protection_that_is_missing_is_found(change: Change, reason: str) -> None:
    found = await probe(WithoutProtection(find_cgroups(), change))
    assert found is not None
    assert "The sandbox does not work here" in found
    assert reason in found


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"processes": 1000}, "a fork bomb would stop this machine"), ({"memory": GIB}, "memory is not limited")],
    ids=["processes", "memory"],
)
async def test_a_limit_that_does_not_hold_is_found(limits: dict[str, int], reason: str) -> None:
    found = await probe(Sandbox(Unlimited(**limits)))
    assert found is not None
    assert reason in found


class NeverPaused(Cgroups):
    def create(self, name: str, limits: SandboxLimits) -> Cgroup:
        group = super().create(name, limits)
        group.pause = lambda paused: None  # type: ignore[method-assign]
        return group


async def test_code_that_cannot_be_paused_is_found() -> None:
    here = find_cgroups()
    found = await probe(Sandbox(NeverPaused(here._parents, here._version)))
    assert found is not None
    assert "what code leaves running cannot be paused" in found


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc cannot be mounted inside. In a container"),
        ("bwrap: No permissions to create new namespace", "user namespaces are switched off here. Allow them"),
        ("bwrap: something else", "The sandbox could not be started: bwrap: something else"),
    ],
)
async def test_what_bubblewrap_cannot_do_is_explained(tmp_path: Path, words: str, reason: str) -> None:
    refusing = tmp_path / "bwrap"
    refusing.write_text(f'#!/bin/sh\necho "{words}" >&2\nexit 1\n')
    refusing.chmod(0o755)
    found = await probe(WithoutProtection(find_cgroups(), lambda command: [str(refusing), *command[1:]]))
    assert found is not None
    assert reason in found


def no_program(name: str) -> None:
    return None


@pytest.mark.parametrize(
    ("place", "name", "value", "reason"),
    [
        (sys, "platform", "darwin", "Code can be run on Linux only"),
        (sys, "platform", "win32", "Code can be run on Linux only"),
        (platform, "machine", lambda: "riscv64", "knows no system calls of riscv64"),
        (shutil, "which", no_program, "bubblewrap is not installed. Install the package `bubblewrap`"),
    ],
    ids=["macos", "windows", "machine", "no-bubblewrap"],
)
async def test_where_it_cannot_work_the_reason_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, value: Any, reason: str
) -> None:
    monkeypatch.setattr(place, name, value)
    with pytest.raises(NoSandbox) as refused:
        await open_sandbox()
    assert reason in str(refused.value)


async def test_without_control_groups_nothing_is_run(tmp_path: Path) -> None:
    with pytest.raises(NoSandbox, match=r"Code cannot be run here: control groups cannot be found"):
        await open_sandbox(process=tmp_path)


@pytest.mark.parametrize("place", ["bin", "tools"])
async def test_a_python_that_would_show_more_than_itself_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / place).mkdir()
    (tmp_path / "lib" / "python3.11").mkdir(parents=True)
    (tmp_path / "lib" / "python3.11" / "os.py").touch()
    python = tmp_path / place / "python3.11"
    shutil.copy("/bin/true", python)
    with pytest.raises(NoSandbox, match="Code cannot be run here: "):
        await open_sandbox(python=str(python))


async def test_data_of_the_gateway_in_a_folder_that_code_can_read_is_refused(engine: MockEngine, tmp_path: Path) -> None:
    bubblewrap()
    async with interpreting(engine, None, tmp_path / "cache", ContainerSettings(packages=str(tmp_path))) as gateway:
        status, body = await gateway.get("/v1/containers")
    assert (status, body["error"]["code"]) == (400, "containers_unavailable")
    assert "cache_dir or the folder of [containers] is inside a folder that code can read" in body["error"]["message"]
