"""A pseudo terminal, for commands that behave differently in one."""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios

# What a terminal answers when it is asked where its cursor is, and what it is.
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c", b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"}

CTRL_C, ENTER = b"\x03", b"\r"


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
        try:
            async with asyncio.timeout(60):
                while words not in self.shown:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"the terminal never showed {words!r}, but: {self.shown!r}") from None

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
