"""Codex as a person uses it, in a terminal: Ctrl-C ends the engine's work, and a lean one stays lean."""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.codex import MODEL, Codex
from support.engine import MockEngine, Writer, chunk, text

from antiphon.cli.codex_config import LEAN_SETTINGS

pytestmark = pytest.mark.timeout(120, func_only=True)

# What a terminal answers when it is asked where its cursor is, and what it is.
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c", b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"}


CTRL_C, ENTER = b"\x03", b"\r"


def end_all_that_run_from(home: Path) -> None:
    """The interactive Codex leaves a server of its own behind, in a session of its own."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(home).encode() in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)


class Terminal:
    """The other end of a pseudo terminal: it remembers what was shown, and answers what a terminal is asked."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.shown = b""
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.ours, self._read)

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    async def shows(self, words: bytes) -> None:
        async with asyncio.timeout(60):
            while words not in self.shown:
                self._changed.clear()
                await self._changed.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.ours)
        os.close(self.ours)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            data = os.read(self.ours, 65536)
            self.shown += data
            for question, answer in ANSWERS.items():
                os.write(self.ours, answer * data.count(question))
        self._changed.set()


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
        # Codex also asks for a title of the session.
        if "task title" in engine.last["messages"][-1]["content"]:
            await write(text("Counting"))
            return
        await write(chunk({"content": "Beginning"}))
        await asyncio.Event().wait()

    engine.will(endless, endless)
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
    codex.config |= LEAN_SETTINGS
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
