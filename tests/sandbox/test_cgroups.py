"""Control groups: where they are made, in both versions. The real ones of this machine are used by the other tests."""

import os
from pathlib import Path

import pytest

from antiphon.sandbox.cgroups import Cgroup, NoCgroups, find_cgroups, group_name
from antiphon.sandbox.runs import MIB, SandboxLimits

LIMITS = SandboxLimits(memory=64 * MIB, processes=16)
V2_FILES = ("memory.max", "memory.swap.max", "memory.events", "pids.max", "cpu.weight", "cgroup.freeze", "cgroup.procs")


class Tree:
    """Files like those of a machine with version 2."""

    def __init__(self, folder: Path, own: str) -> None:
        self.root, self.process = folder / "cgroup", folder / "proc"
        self.own = self.root / own.lstrip("/")
        self.own.mkdir(parents=True)
        self.process.mkdir()
        (self.process / "cgroup").write_text(f"0::{own}\n")
        (self.process / "mountinfo").write_text(
            f"25 1 8:1 / / rw - ext4 /dev/sda rw\n30 25 0:26 / {self.root} rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
        )
        self.write(self.own, controllers="cpu memory pids", procs=str(os.getpid()))
        self.write(self.own.parent, controllers="cpu memory pids")
        self.write(self.own / "antiphon-gateway")

    def write(self, folder: Path, controllers: str = "", enabled: str = "", procs: str = "") -> None:
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(enabled)
        (folder / "cgroup.procs").write_text(procs)


def made_in(folder: Path, tree: Tree) -> Path:
    """The group that is made next, with the files that the kernel would put there."""
    group = folder / "antiphon-sandbox-test"
    group.mkdir()
    for name in V2_FILES:
        (group / name).touch()
    find_cgroups(tree.process).create("test", LIMITS)
    return group


def test_a_gateway_that_is_alone_in_its_group_divides_it(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/system.slice/antiphon.service")
    group = made_in(tree.own, tree)
    assert (tree.own / "antiphon-gateway" / "cgroup.procs").read_text() == str(os.getpid())
    assert (tree.own / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (group / "memory.max").read_text() == str(64 * MIB)
    assert (group / "memory.swap.max").read_text() == "0"
    assert (group / "pids.max").read_text() == "16"


def test_beside_others_the_group_above_is_used_if_it_is_ours(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/app.slice/terminal.scope")
    tree.write(tree.own, controllers="cpu memory pids", procs=f"{os.getpid()}\n{os.getppid()}")
    tree.write(tree.own.parent, controllers="cpu memory pids", enabled="memory pids")
    assert (made_in(tree.own.parent, tree) / "pids.max").read_text() == "16"
    assert (tree.own / "antiphon-gateway" / "cgroup.procs").read_text() == ""


@pytest.mark.parametrize(
    ("own", "above"),
    [
        ({"controllers": "cpu", "procs": ""}, {"enabled": "cpu"}),
        ({"controllers": "memory pids", "procs": "1000000000"}, {"enabled": ""}),
    ],
)
def test_without_the_controllers_the_reason_says_what_to_do(tmp_path: Path, own: dict[str, str], above: dict[str, str]) -> None:
    tree = Tree(tmp_path, "/user.slice/session.scope")
    tree.write(tree.own, **own)
    tree.write(tree.own.parent, **above)
    with pytest.raises(NoCgroups, match=r"may not limit memory and processes .*systemd-run --user --scope -p Delegate=yes"):
        find_cgroups(tree.process)


def test_a_machine_without_control_groups_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(NoCgroups, match="cannot be found"):
        find_cgroups(tmp_path)
    (tmp_path / "mountinfo").write_text("25 1 8:1 / / rw - ext4 /dev/sda rw\n")
    (tmp_path / "cgroup").write_text("")
    with pytest.raises(NoCgroups, match="has no control groups"):
        find_cgroups(tmp_path)


def test_version_1_has_a_folder_for_each_controller_inside_the_gateways_own(tmp_path: Path) -> None:
    lines = []
    for number, name in enumerate(("memory", "pids", "freezer", "cpu,cpuacct")):
        (tmp_path / name / "docker" / "gateway" / "antiphon-sandbox-test").mkdir(parents=True)
        for file in ("memory.limit_in_bytes", "pids.max", "freezer.state", "cpu.shares", "cgroup.procs"):
            (tmp_path / name / "docker" / "gateway" / "antiphon-sandbox-test" / file).touch()
        lines.append(f"{number} 1 0:{number} / {tmp_path / name} rw - cgroup cgroup rw,{name}")
    (tmp_path / "mountinfo").write_text("\n".join(lines))
    (tmp_path / "cgroup").write_text(
        "4:cpu,cpuacct:/docker/gateway\n3:memory:/docker/gateway\n2:pids,freezer:/docker/gateway\n"
    )
    group = find_cgroups(tmp_path).create("test", LIMITS)
    inside = "docker/gateway/antiphon-sandbox-test"
    assert group.procs == sorted(
        f"{tmp_path}/{name}/{inside}/cgroup.procs" for name in ("memory", "pids", "freezer", "cpu,cpuacct")
    )
    assert (tmp_path / "memory" / inside / "memory.limit_in_bytes").read_text() == str(64 * MIB)
    group.pause(True)
    assert (tmp_path / "freezer" / inside / "freezer.state").read_text() == "FROZEN"
    group.give_way()
    assert (tmp_path / "cpu,cpuacct" / inside / "cpu.shares").read_text() == "512"


def test_version_2_is_paused_killed_and_asked_for_its_kills(tmp_path: Path) -> None:
    for name in (*V2_FILES, "cgroup.kill"):
        (tmp_path / name).touch()
    group = Cgroup({"memory": tmp_path, "pids": tmp_path}, 2)
    group.pause(True)
    assert (tmp_path / "cgroup.freeze").read_text() == "1"
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert not group.is_paused()
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert group.is_paused()
    group.give_way()
    assert (tmp_path / "cpu.weight").read_text() == "50"
    group.kill()
    assert ((tmp_path / "cgroup.kill").read_text(), (tmp_path / "cgroup.freeze").read_text()) == ("1", "0")
    assert group.memory_kills() == 0
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n")
    assert group.memory_kills() == 3


async def test_what_killed_gateways_left_is_removed_and_nothing_of_others(tmp_path: Path) -> None:
    tree = Tree(tmp_path, "/antiphon.service")
    pid, namespace, began, own = group_name().split("-")
    names = {
        "dead": f"1000000000-{namespace}-1-a",
        "number used again": f"{pid}-{namespace}-{int(began) - 1}-a",
        "living": f"{pid}-{namespace}-{began}-{own}",
        "of another container": f"1000000000-{int(namespace) + 1}-1-a",
    }
    for name in names.values():
        (tree.own / f"antiphon-sandbox-{name}").mkdir()
    await find_cgroups(tree.process).remove_leftovers()
    left = {what for what, name in names.items() if (tree.own / f"antiphon-sandbox-{name}").exists()}
    assert left == {"living", "of another container"}
