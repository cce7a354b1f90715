"""Codex as a person uses it, in a terminal: Ctrl-C ends the engine's work, and a lean one stays lean."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.codex import MODEL, Codex, arguments, calls
from support.engine import Body, MockEngine, Writer, call, chunk, text
from support.gateway import running_gateway
from support.terminal import CTRL_C, ENTER, Terminal

from antiphon.cli.codex.config import BASE_SETTINGS, LEAN_SETTINGS

pytestmark = pytest.mark.timeout(120, func_only=True)


def end_all_that_run_from(home: Path) -> None:
    """The interactive Codex leaves a server of its own behind, in a session of its own."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(home).encode() in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)


@contextlib.asynccontextmanager
async def in_a_terminal(codex: Codex, prompt: str) -> AsyncIterator[tuple[Terminal, asyncio.subprocess.Process]]:
    terminal = Terminal()
    process = await asyncio.create_subprocess_exec(
        str(codex.binary),
        prompt,
        cwd=codex.repository,
        env={**codex.environment(), "TERM": "xterm-256color"},
        stdin=terminal.theirs,
        stdout=terminal.theirs,
        stderr=terminal.theirs,
        start_new_session=True,
    )
    os.close(terminal.theirs)
    try:
        yield terminal, process
    finally:
        end_all_that_run_from(codex.home)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        terminal.close()


async def test_ctrl_c_cancels_the_engines_request(codex: Codex, engine: MockEngine) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"content": "Beginning"}))
        await asyncio.Event().wait()

    # Codex also asks for a title of the session, before or after.
    engine.otherwise = lambda body: text("Counting") if "task title" in str(body["messages"][-1]["content"]) else endless
    codex.config[f'projects."{codex.repository}".trust_level'] = "trusted"
    codex.write_configuration()
    async with in_a_terminal(codex, "Count to a million") as (terminal, process):
        await terminal.shows(b"Beginning")
        terminal.type(CTRL_C)
        await terminal.shows(b"Cancel task")
        terminal.type(ENTER)
        async with asyncio.timeout(30):
            await engine.cancelled.wait()
        assert process.returncode is None, "Codex itself goes on"


async def test_a_lean_codex_offers_no_more_tools_in_a_terminal(codex: Codex, engine: MockEngine) -> None:
    codex.config |= {**BASE_SETTINGS, **LEAN_SETTINGS}
    codex.config[f'projects."{codex.repository}".trust_level'] = "trusted"
    codex.write_configuration()
    engine.otherwise = lambda body: text("Greetings")
    async with in_a_terminal(codex, "Say hello") as (terminal, _):
        await terminal.shows(b"Greetings")
    turn = next(body for body in engine.requests if body["messages"][-1]["content"] == "Say hello")
    assert [tool["function"]["name"] for tool in turn["tools"]] == ["exec_command", "write_stdin", "apply_patch"]
    assert turn["messages"][0]["content"] == MODEL["base_instructions"]
    assert len(turn["messages"]) == 2
    assert b"unrecognized" not in terminal.shown


@pytest.mark.parametrize("help", ["off", "full"])
async def test_a_title_that_is_answered_with_calls_comes_to_an_end(
    binary: Path, engine: MockEngine, tmp_path: Path, help: str
) -> None:
    """Codex offers a tool for it, carries out no call of it, and asks again after each."""
    answered = asyncio.Event()

    def reply(body: Body) -> bytes:
        if "task title" not in str(body["messages"]):
            return text("Greetings")
        if "tools" not in body:
            answered.set()
            return text('{"title": "Say hello"}')
        number, name = len(engine.requests), body["tools"][0]["function"]["name"]
        patch = f"*** Begin Patch\n*** Add File: f{number}\n+x\n*** End Patch"
        easy = arguments(path=f"f{number}", content="x")
        return calls(call(name, arguments(input=patch) if name == "apply_patch" else easy, id=f"call_{number}"))

    engine.otherwise = reply
    async with running_gateway(engine, help=help) as gateway:
        codex = Codex(binary, gateway.url, tmp_path)
        codex.config |= {**BASE_SETTINGS, **LEAN_SETTINGS}
        codex.config[f'projects."{codex.repository}".trust_level'] = "trusted"
        codex.write_configuration()
        async with in_a_terminal(codex, "Say hello") as (terminal, _):
            await terminal.shows(b"Greetings")
            async with asyncio.timeout(30):
                await answered.wait()
    results = [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]
    assert "No usable execution environment" in results[0]
    assert ["have failed with this same output" in each for each in results[:5]] == [False] * 4 + [True]
    # Five turns with each tool, at the most: one, or the three easy ones in its place.
    assert len(results) <= (5 if help == "off" else 15)
