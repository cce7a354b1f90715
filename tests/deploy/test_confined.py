"""Code of models below the limits of each deployment: refused where the file says so, and run where it says so.

The limits are read out of the files, and set by `confined.py`: systemd and Docker themselves are not run.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from deploy.files import CODE, SERVICE, argument, compose, service
from deploy.limits import DYNAMIC_USER, Order, container_order, install_systemd, installed_at, unit_order
from support.bubblewrap import bubblewrap
from support.engine import MockEngine, answer, call, text

import antiphon
from antiphon.sandbox.cgroups import find_cgroups
from bench.processes import free_port

LAUNCHER = Path(__file__).with_name("confined.py")
TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}
IMAGE_USER = int(argument("USER").partition(":")[0])
SOURCE = Path(antiphon.__file__).parents[1]
PACKAGES = Path(aiohttp.__file__).parents[1]
# The interpreter of the tests may be in a home, which nobody else sees. The machine's own is used, if it can load the packages.
PYTHON = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
BINDS = {"/opt/packages": PACKAGES, "/opt/source": SOURCE}

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not PYTHON.exists(), reason="no interpreter that other users can run"),
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux can set these limits"),
]


@asynccontextmanager
async def control_group(order: Order) -> AsyncIterator[None]:
    """One for the deployment, as systemd and Docker make it: below ours, and the user's own if it is delegated."""
    parents = set(find_cgroups()._parents.values())
    made = [parent / f"antiphon-deploy-{os.getpid()}" for parent in parents]
    for folder in made:
        folder.mkdir()
        if order["delegated"]:
            for path in (folder, *folder.iterdir()):
                shutil.chown(path, order["uid"], order["uid"])
    order["cgroups"] = [str(folder / "cgroup.procs") for folder in made]
    try:
        yield
    finally:
        for folder in made:
            for inner in (*folder.iterdir(), folder):
                if inner.is_dir():
                    inner.rmdir()


@asynccontextmanager
async def gateway_below(order: Order, engine: MockEngine, folder: Path, owner: int = DYNAMIC_USER) -> AsyncIterator[str]:
    """The address of a gateway that runs below these limits. `owner`: of the folders that it may write to."""
    bubblewrap()
    port = free_port()
    order = installed_at(order, folder, BINDS, owner)
    order["environment"] |= {
        "PYTHONPATH": "/opt/source:/opt/packages",
        "ANTIPHON_HOST": "127.0.0.1",
        "ANTIPHON_PORT": str(port),
        "ANTIPHON_UPSTREAM": engine.url,
        "ANTIPHON_PROBE": "false",
    }
    order["command"] = [str(PYTHON), "-m", "antiphon", "serve"]
    async with control_group(order):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(LAUNCHER), json.dumps(order)), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                assert (await process.stdout.readline()).startswith(b"Antiphon is ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


async def run_code(url: str, engine: MockEngine) -> tuple[int, dict[str, Any]]:
    engine.will(answer(call("python", json.dumps({"code": "6 * 7"})), finish="tool_calls"), text("42"))
    body = {"input": "6 * 7?", "tools": [TOOL], "include": ["code_interpreter_call.outputs"]}
    async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/responses", json=body) as answered:
        return answered.status, await answered.json()


async def refused_with(order: Order, engine: MockEngine, folder: Path, owner: int = DYNAMIC_USER) -> str:
    """The reason for which a gateway with these limits runs no code."""
    async with gateway_below(order, engine, folder, owner) as url:
        status, refused = await run_code(url, engine)
    assert (status, refused["error"]["code"]) == (400, "unsupported_tool")
    message: str = refused["error"]["message"]
    return message


async def printed(order: Order, engine: MockEngine, folder: Path, owner: int = DYNAMIC_USER) -> str:
    """What code prints that it runs."""
    async with gateway_below(order, engine, folder, owner) as url:
        status, response = await run_code(url, engine)
    assert status == 200, response
    (called,) = [item for item in response["output"] if item["type"] == "code_interpreter_call"]
    (output,) = called["outputs"]
    logs: str = output["logs"]
    return logs.strip()


# ---- the unit of systemd -------------------------------------------------------------------------------------------


def without(line: str, word: str | None = None) -> str:
    """The drop-in without a line, or without one word of it."""
    assert line in DROP_IN
    kept = " ".join(each for each in re.split(r" |(?<==)", line) if each != word).replace("= ", "=")
    return DROP_IN.replace(f"{line}\n", f"{kept}\n" if word is not None else "")


DROP_IN = CODE.read_text()
LINES = [line for line in DROP_IN.splitlines() if "=" in line and not line.startswith("#")]
WORDS = [(line, word) for line in LINES if line.startswith("SystemCall") for word in line.partition("=")[2].split()]


async def test_the_unit_runs_no_code_and_says_why(engine: MockEngine, tmp_path: Path) -> None:
    reason = await refused_with(unit_order(service()), engine, tmp_path)
    assert "the gateway may not make control groups" in reason
    assert "as a systemd service with `Delegate=yes`" in reason


async def test_the_drop_in_lets_the_unit_run_code(engine: MockEngine, tmp_path: Path) -> None:
    assert await printed(unit_order(service(CODE)), engine, tmp_path) == "42"


@pytest.mark.parametrize(("line", "word"), [*((line, None) for line in LINES), *WORDS], ids=str)
async def test_the_drop_in_gives_up_nothing_that_the_sandbox_does_not_need(
    engine: MockEngine, tmp_path: Path, line: str, word: str | None
) -> None:
    shorter = tmp_path / "shorter.conf"
    shorter.write_text(without(line, word))
    await refused_with(unit_order(service(shorter)), engine, tmp_path)


def test_systemd_reads_the_unit_and_its_drop_in(tmp_path: Path) -> None:
    """The program is not installed here; everything else is read as it is."""
    unit = re.sub("^ExecStart=.*$", "ExecStart=/bin/true", SERVICE.read_text(), flags=re.MULTILINE)
    (tmp_path / "antiphon.service").write_text(unit)
    (tmp_path / "antiphon.service.d").mkdir()
    shutil.copy(CODE, tmp_path / "antiphon.service.d")
    command = [install_systemd(), "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "antiphon.service")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if "antiphon" in line] == []


# ---- containers ----------------------------------------------------------------------------------------------------

STRICT, WITH_CODE = (compose()["services"][name] for name in ("antiphon", "antiphon-code"))
# AppArmor denies mounts where a machine has it; the rest is denied here as Docker denies it.
TRIED = [
    option for option in WITH_CODE["security_opt"] if option.partition("=")[0] in {"seccomp", "systempaths", "writable-cgroups"}
]


async def test_a_container_runs_no_code_and_says_why(engine: MockEngine, tmp_path: Path) -> None:
    reason = await refused_with(container_order(STRICT, IMAGE_USER), engine, tmp_path, IMAGE_USER)
    assert "the gateway may not make control groups" in reason
    assert "in a container, /sys/fs/cgroup must be writable" in reason


async def test_the_container_with_code_runs_it(engine: MockEngine, tmp_path: Path) -> None:
    assert await printed(container_order(WITH_CODE, IMAGE_USER), engine, tmp_path, IMAGE_USER) == "42"


@pytest.mark.parametrize("option", TRIED)
async def test_the_container_with_code_gives_up_nothing_that_the_sandbox_does_not_need(
    engine: MockEngine, tmp_path: Path, option: str
) -> None:
    stricter = WITH_CODE | {"security_opt": [each for each in WITH_CODE["security_opt"] if each != option]}
    await refused_with(container_order(stricter, IMAGE_USER), engine, tmp_path, IMAGE_USER)


def test_the_container_with_code_hands_over_its_control_groups_and_gives_up_its_rights(tmp_path: Path) -> None:
    groups, program = tmp_path / "groups", tmp_path / "bin" / "antiphon"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nid -u; id -G; echo $1; grep -E '^Cap(Eff|Prm|Bnd)|^NoNewPrivs' /proc/self/status\n")
    program.chmod(0o755)
    groups.mkdir()
    for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "memory.max"):
        (groups / name).touch()
    shell, flag, script, name = json.loads(argument("ENTRYPOINT", "code"))
    script = script.replace("/sys/fs/cgroup", "/var/lib/groups").replace("cd /data", "cd /tmp")
    order = container_order(WITH_CODE | {"volumes": []}, 0, WITH_CODE["cap_add"])
    order = installed_at(order, tmp_path, {"/var/lib/groups": groups, "/opt/bin": program.parent}, 0)
    order["writable"].append("/var/lib/groups")
    order["environment"]["PATH"] = "/opt/bin:/usr/bin:/bin"
    order["command"] = [shell, flag, script, name, *json.loads(argument("CMD", "code"))]
    done = subprocess.run([sys.executable, str(LAUNCHER), json.dumps(order)], capture_output=True, text=True)
    user = str(IMAGE_USER)
    nothing = "0" * 16
    expected = [user, user, "serve", "CapPrm:", nothing, "CapEff:", nothing, "CapBnd:", nothing, "NoNewPrivs:", "1"]
    assert done.stdout.split() == expected, done.stderr
    handed_over = {path.name for path in groups.iterdir() if path.stat().st_uid == IMAGE_USER}
    assert handed_over == {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"}
    assert groups.stat().st_uid == IMAGE_USER


# ---- the tools that every deployment has ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "owner"),
    [(unit_order, DYNAMIC_USER), (container_order, IMAGE_USER)],
    ids=["unit", "container"],
)
async def test_files_are_read_and_searched_below_the_strictest_limits(
    engine: MockEngine, tmp_path: Path, order: Any, owner: int
) -> None:
    made = order(service()) if order is unit_order else order(STRICT, IMAGE_USER)
    async with gateway_below(made, engine, tmp_path, owner) as url, aiohttp.ClientSession(f"{url}/v1/") as client:
        form = aiohttp.FormData({"purpose": "user_data"})
        form.add_field("file", b"The antiphonary lies on the lectern.", filename="choir.txt")
        async with client.post("files", data=form) as uploaded:
            file = (await uploaded.json())["id"]
        async with client.post("vector_stores", json={"file_ids": [file]}) as created:
            store = (await created.json())["id"]
        async with asyncio.timeout(60):
            while (await get(client, f"vector_stores/{store}"))["file_counts"]["completed"] != 1:
                pass
        async with client.post(f"vector_stores/{store}/search", json={"query": "lectern"}) as searched:
            (found,) = (await searched.json())["data"]
    assert found["filename"] == "choir.txt"


async def get(client: aiohttp.ClientSession, path: str) -> Any:
    async with client.get(path) as answered:
        return await answered.json()
