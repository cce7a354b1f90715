"""`antiphon chat` and `antiphon codex` with a gateway that is not ready: they wait, and show for what."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from aiohttp import web
from support.codex import write_codex
from support.commands import ANTIPHON, bare_environment, python_path, shown_by
from support.engine import MockEngine
from support.gateway import running_gateway, started
from support.model_sources import SourceServer
from support.servers import LocalServer
from support.terminal_commands import CTRL_C, CTRL_D, in_terminal
from support.tiny_model import write_tiny_model

from antiphon.cli.gateway_client import GatewayClient, GatewayFailed
from antiphon.cli.gateway_readiness import loading_in, wait_until_ready
from antiphon.core.knowledge.knowledge import Loading
from bench.processes import free_port

FIRST_BYTES = 60_000


class NotReadyGateway(LocalServer):
    """Its answers to /ready, one after another; the last one stays. It has no models before they are all sent."""

    def __init__(self, *loadings: Loading | None) -> None:
        super().__init__()
        self._loadings = list(loadings)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/{path:.*}", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/health":
            return web.json_response({"status": "ok"})
        keep = request.path != "/ready" or len(self._loadings) == 1
        loading = self._loadings[0] if keep else self._loadings.pop(0)
        if loading is None:
            return web.json_response({"status": "ready", "data": [{"id": "pebble"}]})
        engines = [{"url": "http://e", "status": "not ready", "reason": "It is busy.", "loading": loading}]
        body = {"error": {"message": f"The embedded engine is {loading}."}, "engines": engines}
        return web.Response(status=503, body=msgspec.json.encode(body), headers={"Retry-After": "1"})


async def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    if arguments[0] == "codex":
        # It is stopped by signals, which only the main thread of a process gets.
        process = await asyncio.create_subprocess_exec(
            *ANTIPHON, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=bare_environment(**environment)
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()
    return await shown_by(*arguments, env=bare_environment(**environment))


# ---- what is shown ---------------------------------------------------------------------------------------------------


async def test_without_a_terminal_there_are_a_few_lines() -> None:
    reading = [Loading("pebble", "loading", percent * 10**7, 10**9) for percent in (0, 10, 25, 40, 50, 75)]
    async with NotReadyGateway(Loading("pebble"), *reading, Loading("pebble", "starting"), None) as gateway:
        _, _, err = await run("chat", "--url", gateway.url, "Hi")
    assert err.splitlines()[:5] == [
        "loading pebble …",
        "loading pebble: 25 %, 250.0 MB of 1.0 GB",
        "loading pebble: 50 %, 500.0 MB of 1.0 GB",
        "loading pebble: 75 %, 750.0 MB of 1.0 GB",
        "starting pebble …",
    ]


async def test_a_terminal_gets_a_bar_and_ctrl_c_leaves_at_once() -> None:
    async with (
        NotReadyGateway(Loading("pebble", "downloading", 450_000_000, 10**9)) as gateway,
        in_terminal("chat", "--url", gateway.url) as (process, terminal),
    ):
        shown = await terminal.shows("45 %, 450.0 MB of 1.0 GB")
        assert re.search(r"downloading pebble … ━+", shown), shown
        terminal.type(CTRL_C)
        assert await terminal.ends(process) == 130
        assert "Traceback" not in terminal.text


async def test_ctrl_c_ends_codex_while_it_waits(tmp_path: Path) -> None:
    path = write_codex(tmp_path / "bin", 'echo "$@"')
    async with (
        NotReadyGateway(Loading("pebble")) as gateway,
        in_terminal("codex", "--url", gateway.url, PATH=path, ANTIPHON_DATA_DIR=str(tmp_path)) as (process, terminal),
    ):
        await terminal.shows("loading pebble …")
        terminal.type(CTRL_C)
        assert await terminal.ends(process) == 128 + signal.SIGINT


# ---- what is an error ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["chat", "codex"])
async def test_an_engine_that_dies_again_and_again_is_an_error_with_the_reason(command: str, tmp_path: Path) -> None:
    died = [Loading("pebble", failures=times, reason="it was killed by signal 9\nout of memory") for times in (1, 2)]
    environment = {"PATH": write_codex(tmp_path / "bin", 'echo "$@"'), "ANTIPHON_DATA_DIR": str(tmp_path)}
    async with NotReadyGateway(*died) as gateway:
        code, out, err = await run(command, "--url", gateway.url, "Hi", **environment)
        said = f"The engine of the gateway at {gateway.url} does not run pebble: it was killed by signal 9\nout of memory\n"
    assert (code, out) == (2, "")
    assert err == f"loading pebble again …\nantiphon: {said}"


async def test_a_gateway_that_ends_before_it_is_ready_is_an_error(tmp_path: Path) -> None:
    async with NotReadyGateway(Loading("pebble")) as gateway, in_terminal("chat", "--url", gateway.url) as (process, terminal):
        await terminal.shows("loading pebble …")
        await gateway.__aexit__()
        assert await terminal.ends(process) == 2
    said = " ".join(terminal.text.split())
    assert f"The gateway at {gateway.url} does not answer: connection refused. It was not ready yet; it said last: The " in said


async def test_codex_says_why_the_gateway_that_it_started_has_no_engine(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "pebble.gguf")
    model.write_bytes(model.read_bytes()[:-5000])
    settings = {"ANTIPHON_MODEL": str(model), "ANTIPHON_PORT": str(free_port()), "ANTIPHON_DATA_DIR": str(tmp_path)}
    code, _, err = await run("codex", "exec", "Hi", PATH=write_codex(tmp_path / "bin", 'echo "$@"'), **settings)
    assert code == 2
    assert "and none could be started:" in err
    assert f"the model {model} could not be served: it exited with code 1" in err


# ---- with real gateways ----------------------------------------------------------------------------------------------


async def test_codex_waits_for_an_engine_that_is_not_there_yet(tmp_path: Path) -> None:
    port = free_port()
    async with running_gateway(f"http://127.0.0.1:{port}") as gateway:
        process = await asyncio.create_subprocess_exec(
            *ANTIPHON, "codex", "--url", gateway.url, "exec", "Hi", stdin=DEVNULL, stdout=PIPE, stderr=PIPE,
            env=bare_environment(PATH=write_codex(tmp_path / "bin", 'echo "$@"'), ANTIPHON_DATA_DIR=str(tmp_path)),
        )  # fmt: skip
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        assert line == f"Waiting for the gateway. No engine answers at http://127.0.0.1:{port} yet.\n"
        async with started(MockEngine(), port):
            out, _ = await process.communicate()
    assert process.returncode == 0
    assert 'model="mock"' in out.decode()


@pytest_asyncio.fixture
async def slow_source(tmp_path: Path) -> AsyncIterator[SourceServer]:
    """It stops after the first bytes, until the test lets it proceed."""
    async with SourceServer(write_tiny_model(tmp_path / "pebble.gguf").read_bytes()) as server:
        server.hub.breaks, server.hub.breaks_when = [FIRST_BYTES], asyncio.Event()
        yield server


def settings(source: SourceServer, folder: Path, port: int) -> dict[str, str]:
    own = {"ANTIPHON_CACHE_DIR": str(folder / "cache"), "ANTIPHON_DATA_DIR": str(folder / "data"), "ANTIPHON_PORT": str(port)}
    return {**own, "NO_PROXY": "*", "HF_HOME": str(folder / "hf"), "PYTHONPATH": python_path(), **source.environment()}


def serve(folder: Path, *arguments: str) -> Sequence[str]:
    model = str(folder / "pebble.gguf")
    return [sys.executable, "-m", "support.pebble_command", model, "serve", "--model", "pebble", *arguments]


@asynccontextmanager
async def waiting(*arguments: str, **environment: str) -> AsyncIterator[Process]:
    """A command without a terminal."""
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=bare_environment(**environment)
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_with(words: str, process: Process) -> str:
    assert process.stdout is not None
    while words not in (line := (await process.stdout.readline()).decode()):
        assert line, f"it ended without {words!r}"
    return line


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.skipif(sys.platform != "linux", reason="one port for several processes")
async def test_commands_wait_while_the_model_is_downloaded_and_loaded(
    slow_source: SourceServer, tmp_path: Path, workers: str
) -> None:
    own = settings(slow_source, tmp_path, free_port()) | {"ANTIPHON_STORE": f"sqlite:{tmp_path / 'x.db'}"}
    codex = own | {"PATH": write_codex(tmp_path / "bin", 'echo "$@"')}
    async with in_terminal(command=serve(tmp_path, "--workers", workers), **own) as (_, serving):
        await serving.shows(", not ready yet: loading pebble\n")
        async with (
            in_terminal("chat", **own) as (process, terminal),
            waiting("codex", "exec", "Hi", **codex) as coding,
        ):
            await terminal.shows("downloading pebble … ")
            await line_with("downloading pebble: ", coding)
            assert "ready at" not in serving.text
            assert slow_source.hub.breaks_when is not None
            slow_source.hub.breaks_when.set()
            # A key that is typed before the prompt is there may be lost.
            await terminal.shows("Ctrl-D ends.\n> ")
            assert "pebble at http://127.0.0.1:" in terminal.text
            await line_with('model="pebble"', coding)
            assert await coding.wait() == 0
            terminal.type(CTRL_D)
            assert await terminal.ends(process) == 0
        shown = await serving.shows("Antiphon is ready at http://127.0.0.1:")
        assert re.search(r"Loading pebble \(\d+ MB\)\. Requests get a 503 until it is ready\n", shown), shown


async def test_a_gateway_of_which_nothing_changes_is_an_error_with_what_it_said(capsys: pytest.CaptureFixture[str]) -> None:
    async with running_gateway(away := f"http://127.0.0.1:{free_port()}") as gateway:
        with pytest.raises(GatewayFailed, match=f"is not ready, and nothing has changed for 0 s: No engine answers at {away}"):
            await asyncio.to_thread(wait_until_ready, GatewayClient(gateway.url, None), patience=0.0)
    assert capsys.readouterr().err == f"Waiting for the gateway. No engine answers at {away} yet.\n"


@pytest.mark.parametrize(
    ("answer", "loading"),
    [
        ({"engines": [{"loading": {"model": "pebble", "stage": "loading", "speed": 3}}]}, Loading("pebble")),
        ({"engines": [{"url": "http://e"}, {"loading": {"model": "pebble"}}]}, Loading("pebble")),
        ({"engines": [{"loading": {"model": "pebble", "stage": "dreaming"}}]}, None),
        ({"engines": [{"url": "http://e"}]}, None),
        ({"error": {"message": "No"}}, None),
        (None, None),
    ],
)
def test_gateways_of_other_versions_say_more_or_less(answer: Any, loading: Loading | None) -> None:
    assert loading_in(answer) == loading
