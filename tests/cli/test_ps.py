"""`antiphon ps`: gateways, engines, models and responses in flight."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.background import held_back
from support.commands import bare_environment, served, shown_by
from support.engine import MockEngine
from support.gateway import running_gateway
from support.terminal_commands import CTRL_C, in_terminal

from antiphon.cli.ps import duration, lines
from bench.processes import free_port


async def ps(*arguments: str, **environment: str) -> tuple[int, str, str]:
    return await shown_by("ps", *arguments, env=bare_environment(**environment))


def paused(engine: MockEngine) -> asyncio.Event:
    script, go_on = held_back("one", " two")
    engine.will(script)
    return go_on


async def test_all_gateways_and_their_engines_are_shown(engine: MockEngine, tmp_path: Path) -> None:
    engine.lists("Qwen2.5-Coder-1.5B")
    data, away = {"ANTIPHON_DATA_DIR": str(tmp_path)}, f"http://127.0.0.1:{free_port()}"
    ports = [free_port(), free_port()]
    async with (
        served("--port", str(ports[0]), "--upstream", engine.url, **data) as (first, _),
        served("--port", str(ports[1]), "--upstream", engine.url, "--upstream", away, **data),
    ):
        code, out, err = await ps(**data)
    assert (code, err) == (0, "")
    newest, oldest = out.split(f"http://127.0.0.1:{ports[0]}: ")
    assert newest.startswith(f"http://127.0.0.1:{ports[1]}: antiphon ")
    assert f"  plain at {away}: not ready, it does not answer: connection refused\n" in newest
    assert re.match(rf"antiphon \S+, process {first.pid}, up \d+ s, store memory\n", oldest)
    assert f"  plain at {engine.url}: 0 running, 0 waiting\n" in oldest
    assert "    Qwen2.5-Coder-1.5B  helped, because the model has 1.5 billion parameters\n" in oldest
    assert "  0 responses in flight\n" in oldest


async def test_responses_in_flight_are_shown_and_watched(engine: MockEngine, tmp_path: Path) -> None:
    go_on, port, data = paused(engine), free_port(), {"ANTIPHON_DATA_DIR": str(tmp_path)}
    async with (
        served("--port", str(port), "--upstream", engine.url, **data),
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi", "stream": True}) as answer,
    ):
        await answer.content.readuntil(b"output_text.delta")
        async with in_terminal("ps", "--watch", **data) as (process, terminal):
            shown = await terminal.shows("1 response in flight")
            assert re.search(r"mock  http  \d+\.\d s  writing +\s*resp_\w+", shown), shown
            go_on.set()
            await terminal.shows("0 responses in flight")
            terminal.type(CTRL_C)
            assert await terminal.ends(process) == 0
            assert "Traceback" not in terminal.text


async def test_programs_get_json(engine: MockEngine, tmp_path: Path) -> None:
    async with served("--port", "0", "--upstream", engine.url, ANTIPHON_DATA_DIR=str(tmp_path)):
        code, out, _ = await ps("--json", ANTIPHON_DATA_DIR=str(tmp_path))
    assert code == 0
    (found,) = json.loads(out)["gateways"]
    assert found["engines"][0]["models"][0]["id"] == "mock"


async def test_without_a_gateway_it_says_so(tmp_path: Path) -> None:
    code, out, _ = await ps(ANTIPHON_DATA_DIR=str(tmp_path), ANTIPHON_PORT=str(free_port()))
    assert code == 1
    assert out == "No gateway is running. Start one with `antiphon`, and run this again; or name one with --url.\n"


async def test_an_address_where_nothing_answers_is_named_once_and_is_an_error(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    code, out, _ = await ps("--url", url, ANTIPHON_DATA_DIR=str(tmp_path))
    assert (code, out) == (1, f"The gateway at {url} does not answer: connection refused\n")


async def test_a_gateway_that_needs_a_key_says_so_and_the_admin_key_sees_all(engine: MockEngine, tmp_path: Path) -> None:
    go_on, port, data = paused(engine), free_port(), {"ANTIPHON_DATA_DIR": str(tmp_path)}
    keys = {"ANTIPHON_KEYS": "ada=a", "ANTIPHON_ADMIN_KEY": "root"}
    async with (
        served("--port", str(port), "--upstream", engine.url, **keys, **data),
        aiohttp.ClientSession(headers={"Authorization": "Bearer a"}) as client,
        client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi", "stream": True}) as answer,
    ):
        await answer.content.readuntil(b"output_text.delta")
        code, out, _ = await ps(**data)
        assert code == 1
        assert out.startswith(f"The gateway at http://127.0.0.1:{port} needs a key.")
        _, out, _ = await ps(**data, ANTIPHON_ADMIN_KEY="root")
        assert re.search(r"mock  http  ada  \d+\.\d s  writing  resp_\w+", out), out
        go_on.set()


async def test_the_admin_key_goes_to_no_gateway_that_is_neither_announced_nor_named(engine: MockEngine, tmp_path: Path) -> None:
    """Any program may listen at the port of the settings."""
    async with running_gateway(engine, admin_key=("root",)) as gateway:
        settings = {"ANTIPHON_PORT": gateway.url.rpartition(":")[2], "ANTIPHON_ADMIN_KEY": "root"}
        _, out, _ = await ps(**settings, ANTIPHON_DATA_DIR=str(tmp_path))
        assert out.startswith(f"The gateway at {gateway.url} needs a key.")
        assert out.endswith("only to a gateway that was started by this user, or is named with --url.\n")
        _, out, _ = await ps("--url", gateway.url, **settings, ANTIPHON_DATA_DIR=str(tmp_path))
        assert "0 responses in flight" in out


def test_names_cannot_control_the_terminal() -> None:
    found = {"gateway": {"url": "http://a"}, "error": "\x1b[2J\nx"}
    assert lines([found], 0) == ["http://a: ?[2J?x"]


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (None, "process 1, up 2 h 0 min, store sqlite"),
        ([1, 2], "process 1, 2 workers (10, 11), up 2 h 0 min, store sqlite"),
        ([7000, 7170], "process 1, 2 workers (10, 11), up 2 h 0 min, newest worker up 30 s, store sqlite"),
        ([None, None], "process 1, 2 workers (10, 11), up 2 h 0 min, store sqlite"),
    ],
)
def test_the_age_of_a_gateway_is_not_that_of_its_workers(workers: list[float | None] | None, words: str) -> None:
    described: dict[str, Any] = {"url": "http://a", "version": "1", "pid": 1, "started": 1000.0, "store": "sqlite"}
    if workers is not None:
        described["workers"] = [{"pid": 10 + at, "started": age and 1000.0 + age} for at, age in enumerate(workers)]
    shown = lines([{"gateway": described, "engines": [], "running": []}], 1000.0 + 7200)
    assert shown[0] == f"http://a: antiphon 1, {words}"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.9, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (86_400, "1 d 0 h"), (-3, "0 s")]
)
def test_a_duration_has_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
