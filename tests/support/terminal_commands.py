"""Commands in a pseudo terminal, as a person sees and uses them."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from support.commands import ANTIPHON, WITHOUT_SANDBOX, bare_environment

CTRL_C, CTRL_D, ENTER = b"\x03", b"\x04", b"\r"
# What changes only how a text looks, or where it is.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
# Makes the pseudo terminal the one of the process, so that Ctrl-C reaches it, and becomes the command.
BECOME = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """The screen and the keyboard of one command."""

    def __init__(self, columns: int = 120) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._raw = b""
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._ours, self._read)

    @property
    def raw(self) -> str:
        return self._raw.decode(errors="replace")

    @property
    def text(self) -> str:
        """Without colours and movements."""
        return CONTROL.sub("", self.raw)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    async def shows(self, words: str, times: int = 1) -> str:
        """Waits until they have been shown so often. Returns the whole text."""
        try:
            async with asyncio.timeout(60):
                while self.text.count(words) < times:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{words!r} is not shown:\n{self.text}") from None
        return self.text

    async def ends(self, process: asyncio.subprocess.Process) -> int:
        async with asyncio.timeout(60):
            code = await process.wait()
        self._read()
        return code

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.theirs)

    def _read(self) -> None:
        os.set_blocking(self._ours, False)
        # Nothing is left, or the command has ended.
        with contextlib.suppress(OSError):
            while data := os.read(self._ours, 65536):
                self._raw += data
        self._changed.set()


@asynccontextmanager
async def in_terminal(
    *arguments: str, command: Sequence[str] = ANTIPHON, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Terminal]]:
    """A running `antiphon`, whose input, output and errors are a terminal."""
    terminal = Terminal()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BECOME, *command, *arguments,
        stdin=terminal.theirs, stdout=terminal.theirs, stderr=terminal.theirs, start_new_session=True,
        env=bare_environment(TERM="xterm-256color", **WITHOUT_SANDBOX | environment),
    )  # fmt: skip
    try:
        yield process, terminal
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        terminal.close()
