"""What `antiphon serve` says on a terminal, and what it says to a program."""

import asyncio
import contextlib
import errno
import json
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from support.background import held_back
from support.commands import ANTIPHON, bare_environment, served
from support.engine import MockEngine
from support.terminal_commands import CTRL_C, in_terminal

from antiphon.cli.serve import cannot_listen, command_with_port, listen
from antiphon.settings.settings import Settings
from bench.processes import free_port


@contextlib.asynccontextmanager
async def streaming(port: int) -> AsyncIterator[aiohttp.ClientResponse]:
    """A response that has begun."""
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi", "stream": True}) as answer,
    ):
        await answer.content.readuntil(b"output_text.delta")
        yield answer


def stays_silent(engine: MockEngine) -> asyncio.Event:
    """The engine's next answer stops in the middle until the event."""
    script, go_on = held_back("one", " two")
    engine.will(script)
    return go_on


# ---- the banner and the log ------------------------------------------------------------------------------------------


async def test_people_see_where_it_is_what_is_behind_it_and_what_to_do_next(engine: MockEngine) -> None:
    port = free_port()
    async with in_terminal("--port", str(port), "--upstream", engine.url) as (_, terminal):
        shown = await terminal.shows("JSON checked here")
        assert f"Antiphon is ready at http://127.0.0.1:{port}/v1\n" in shown
        assert f"  Inspector:  http://127.0.0.1:{port}/\n" in shown
        assert re.search(r"antiphon chat +talk to it here\n.+antiphon codex +let Codex work with it\n", shown)
        assert f"  plain at {engine.url}: mock (tools, choices prompted, JSON checked here)\n" in shown
        assert "{" not in shown


async def test_the_next_steps_are_commands_that_can_be_typed(engine: MockEngine, tmp_path: Path) -> None:
    # A command that is installed, and one that is only in an environment to which no PATH leads, as after `make serve`.
    (command := tmp_path / "antiphon").write_text("#!/bin/sh\n")
    command.chmod(0o755)
    inside = Path(sys.executable).parent / "antiphon"
    assert inside.is_file()
    shown_as = inside.relative_to(Path.cwd()) if inside.is_relative_to(Path.cwd()) else inside
    for path, typed in ((f"{tmp_path}:/usr/bin:/bin", "antiphon"), ("/usr/bin:/bin", str(shown_as))):
        async with in_terminal("--port", "0", "--upstream", engine.url, PATH=path) as (_, terminal):
            shown = await terminal.shows("JSON checked here")
        assert f"  Next:       {typed} chat      talk to it here\n" in shown
        assert f"\n              {typed} ps        see what it does\n" in shown


async def test_without_the_inspector_its_address_is_not_shown(engine: MockEngine) -> None:
    async with in_terminal("--port", "0", "--upstream", engine.url, ANTIPHON_INSPECTOR="false") as (_, terminal):
        assert "Inspector" not in await terminal.shows("JSON checked here")


async def test_programs_get_the_lines_that_they_know(engine: MockEngine) -> None:
    port = free_port()
    async with served("--port", str(port), "--upstream", engine.url) as (process, line):
        assert line == f"Antiphon is ready at http://127.0.0.1:{port}/v1\n"
        assert process.stdout is not None
        assert (await process.stdout.readline()).decode().startswith(f"  plain at {engine.url}: mock")
        process.send_signal(signal.SIGTERM)
        assert await process.stdout.read() == b""


async def test_a_request_is_one_plain_line_on_a_terminal(engine: MockEngine) -> None:
    port = free_port()
    async with in_terminal("--port", str(port), "--upstream", engine.url) as (_, terminal):
        await terminal.shows("ready at")
        async with aiohttp.ClientSession() as client:
            await client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi"})
        shown = await terminal.shows("POST")
        line = r"\d\d:\d\d:\d\d POST /v1/responses 200 mock 12→5 tok, first (\d+ ms|\d\.\d s), (\d+ ms|\d\.\d s)\n"
        assert re.search(line, shown), shown


async def test_the_log_can_be_json_on_a_terminal_too(engine: MockEngine) -> None:
    port = free_port()
    arguments = ("--port", str(port), "--upstream", engine.url, "--log-format", "json")
    async with in_terminal(*arguments) as (_, terminal):
        await terminal.shows("ready at")
        async with aiohttp.ClientSession() as client:
            await client.post(f"http://127.0.0.1:{port}/v1/responses", json={"input": "Hi"})
        shown = await terminal.shows('"event":"request"')
        line = json.loads(next(line for line in shown.splitlines() if '"event":"request"' in line))
        assert (line["status"], line["model"], line["output_tokens"]) == (200, "mock", 5)


async def test_an_engine_that_does_not_answer_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with in_terminal("--port", "0", "--upstream", url) as (_, terminal):
        await terminal.shows(f"Waiting for {url}: connection refused. It is used as soon as it answers\n")
        assert f", not ready yet: looking for {url}\n" in terminal.text
        assert "ready at" not in terminal.text


# ---- a port that is taken --------------------------------------------------------------------------------------------


async def fails(*arguments: str, **environment: str) -> str:
    """What a command writes to standard error before it ends with 2."""
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, *arguments, stderr=asyncio.subprocess.PIPE, env=bare_environment(**environment)
    )
    _, written = await process.communicate()
    assert process.returncode == 2
    return written.decode()


def suggested_port(written: str) -> int:
    found = re.search(r"The next free one is (\d+):\n  antiphon serve .*--port (\d+)\n$", written)
    assert found is not None, written
    assert found[1] == found[2]
    return int(found[1])


async def test_a_port_that_a_gateway_has_is_said_to_be_its_own(engine: MockEngine) -> None:
    port = free_port()
    async with served("--port", str(port), "--upstream", engine.url) as (process, _):
        written = await fails("serve", "--port", str(port), "--upstream", engine.url)
        taken = f"antiphon: port {port} of 127.0.0.1 is taken by an Antiphon gateway (process {process.pid}). "
        assert taken in written
        free = suggested_port(written)
        assert f"  antiphon serve --upstream {engine.url} --port {free}\n" in written
        # The suggestion works.
        async with served("serve", "--upstream", engine.url, "--port", str(free)) as (_, line):
            assert line == f"Antiphon is ready at http://127.0.0.1:{free}/v1\n"


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nosuch", "there is no model nosuch."),
        ("nosuch.gguf", "there is no file nosuch.gguf in "),
        ("hf:nosuch", "is written hf:OWNER/NAME/FILE.gguf, not hf:nosuch"),
        (__file__, "is not a GGUF file, or is incomplete"),
    ],
    ids=["a name", "a file", "the hub", "no model"],
)
async def test_a_wrong_model_is_said_before_a_taken_port(model: str, message: str, workers: str, tmp_path: Path) -> None:
    """Otherwise it would be the next error, at another port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        written = await fails(
            "serve", "--port", str(port), "--model", model, "--workers", workers, ANTIPHON_STORE=f"sqlite:{tmp_path}/s"
        )
    assert message in written
    assert str(port) not in written


async def test_a_port_that_another_program_has_is_named_with_it(engine: MockEngine) -> None:
    program = "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, "--token", "s3cret", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdout is not None
    try:
        port = int(await other.stdout.readline())
        written = await fails("serve", "--port", str(port), "--upstream", engine.url)
    finally:
        other.kill()
        await other.communicate()
    assert f"port {port} of 127.0.0.1 is taken by {sys.executable} -c" in written
    assert f"(process {other.pid})" in written
    assert "s3cret" not in written
    assert suggested_port(written) > port


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], "antiphon --port 9"),
        (["serve", "--port", "8", "--upstream", "http://a"], "antiphon serve --upstream http://a --port 9"),
        (["--port=8", "--model", "a b"], "antiphon --model 'a b' --port 9"),
        (["--api-key", "s3cret"], "the same command with --port 9"),
        (["--upstream", "http://user:s3cret@a"], "the same command with --port 9"),
    ],
)
def test_the_suggested_command_is_the_one_that_was_given(arguments: list[str], command: str) -> None:
    assert command_with_port(arguments, 9) == command


async def test_an_address_that_the_machine_does_not_have_is_explained(engine: MockEngine) -> None:
    written = await fails("serve", "--host", "203.0.113.7", "--port", "0", "--insecure-no-auth", "--upstream", engine.url)
    assert "this machine has no such address. Set --host to one that it has" in written


@pytest.mark.parametrize(
    ("failed", "message"),
    [
        (socket.gaierror(-2, "Name not known"), "cannot listen on box:80: the name box is not known. Set --host to an address"),
        (OSError(errno.EACCES, "Permission denied"), "cannot listen on box:80: ports below 1024 need more rights."),
        (OSError(errno.ENOBUFS, "No buffer space"), "cannot listen on box:80: No buffer space"),
    ],
)
def test_every_reason_not_to_listen_is_explained(failed: OSError, message: str) -> None:
    assert str(cannot_listen("box", 80, failed)).startswith(message)


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


async def test_ctrl_c_says_what_it_waits_for(engine: MockEngine) -> None:
    go_on, port = stays_silent(engine), free_port()
    async with in_terminal("--port", str(port), "--upstream", engine.url) as (process, terminal):
        await terminal.shows("ready at")
        async with streaming(port) as answer:
            terminal.type(CTRL_C)
            await terminal.shows("Stopping: 1 response is running; at most 30 s. Ctrl-C again stops at once.\n")
            go_on.set()
            assert b"response.completed" in await answer.content.read()
        assert await terminal.ends(process) == 0


async def test_several_responses_are_counted(engine: MockEngine) -> None:
    first, second, port = stays_silent(engine), stays_silent(engine), free_port()
    async with in_terminal("--port", str(port), "--upstream", engine.url) as (process, terminal):
        await terminal.shows("ready at")
        async with streaming(port), streaming(port):
            terminal.type(CTRL_C)
            await terminal.shows("Stopping: 2 responses are running; at most 30 s.")
            first.set()
            second.set()
        assert await terminal.ends(process) == 0


async def test_a_second_ctrl_c_stops_at_once_and_without_a_trace(engine: MockEngine) -> None:
    go_on, port = stays_silent(engine), free_port()
    async with in_terminal("--port", str(port), "--upstream", engine.url) as (process, terminal):
        await terminal.shows("ready at")
        async with streaming(port):
            terminal.type(CTRL_C)
            await terminal.shows("Ctrl-C again")
            terminal.type(CTRL_C)
            # The response would have had 30 seconds.
            async with asyncio.timeout(15):
                assert await terminal.ends(process) == 130
        assert "Traceback" not in terminal.text
        go_on.set()


async def test_with_nothing_to_wait_for_it_just_stops(engine: MockEngine) -> None:
    async with in_terminal("--port", "0", "--upstream", engine.url) as (process, terminal):
        # The last line of the banner: nothing else is written meanwhile.
        await terminal.shows(f"{engine.url}: mock")
        terminal.type(CTRL_C)
        assert await terminal.ends(process) == 0
        assert "Stopping.\n" in terminal.text
        # It takes the place of what the terminal shows for the keys.
        assert "^C\rStopping." in terminal.raw


async def test_programs_find_in_the_log_what_a_stop_waits_for(engine: MockEngine) -> None:
    go_on, port = stays_silent(engine), free_port()
    process = await asyncio.create_subprocess_exec(
        *ANTIPHON, "--port", str(port), "--upstream", engine.url,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=bare_environment(),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    await process.stdout.readline()
    async with streaming(port):
        process.send_signal(signal.SIGTERM)
        while (line := json.loads(await process.stderr.readline()))["event"] != "stopping":
            pass
        assert (line["responses"], line["seconds_at_most"]) == (1, 30.0)
        go_on.set()
    await process.communicate()


async def test_many_clients_may_wait_for_their_connection() -> None:
    """Nothing is accepted meanwhile: this blocks the event loop."""
    app = web.Application()
    runner = web.AppRunner(app)
    await runner.setup()
    address = await listen(runner, Settings(port=0))
    try:
        with contextlib.ExitStack() as opened:
            clients = [socket.create_connection(("127.0.0.1", address.port), timeout=5) for _ in range(300)]
            for client in clients:
                opened.enter_context(client)
            assert all(client.getpeername()[1] == address.port for client in clients)
    finally:
        await runner.cleanup()
