"""One Python in a sandbox that keeps its variables from run to run."""

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from antiphon.sandbox import folder as folders
from antiphon.sandbox.folder import unlinked_bytes
from antiphon.sandbox.runs import GIB, KEEP_FREE, MIB, PAUSE, PIECE, KernelRun, Output, SandboxLimits, ShellRun
from antiphon.sandbox.sandbox import Sandbox, SandboxProcess

# An answer: the token of its command, its kind, its size.
TOKEN_BYTES = 16
HEAD_BYTES = TOKEN_BYTES + 5
READY, IMAGE, DONE, SHELL = b"R", b"I", b"D", b"S"
PNG = b"\x89PNG\r\n\x1a\n"

# Seconds. Packages are not imported before code asks for them, so a start is quick on a machine that is not overloaded.
START_TIME = 20.0
# How long code may run after it was interrupted, and a command after its time.
GRACE = 2.0
MOST_IN_PIPE = MIB
# Before the end of a run. Each image is one.
MOST_FRAMES = 1_000
# Characters that say how much of a command's output was left out.
LONGEST_NOTE = 100
# How often the folder is measured while code runs.
MEASURE_EVERY = 0.25


class KernelFailed(Exception):
    """It could not be started. The message says why."""


class _Ended(Exception):
    """The process inside has ended, or does not speak as it should."""


class _Full(Exception):
    """The folder is larger than it may be, or the disk is full. The message says which."""


class Kernel:
    """One run at a time. Between runs, everything inside is paused."""

    def __init__(
        self, process: SandboxProcess, connection: socket.socket, output: int, folder: Path, limits: SandboxLimits
    ) -> None:
        self._process = process
        self._connection = connection
        self._output_end = output
        self._folder = folder
        self._limits = limits
        self._lock = asyncio.Lock()
        self._alive = True
        self._out_of_memory = False
        self._memory_kills = 0  # before the run: also children are killed, and the interpreter goes on
        self._reading: Output | None = None

    @classmethod
    async def start(cls, sandbox: Sandbox, folder: Path, limits: SandboxLimits) -> "Kernel":
        """`folder` is /mnt/data inside. Raises KernelFailed."""
        ours, theirs = socket.socketpair()
        output, output_inside = os.pipe()
        ours.setblocking(False)
        os.set_blocking(output, False)
        _widen(output)
        try:
            process = await sandbox.start(
                [str(theirs.fileno())], folder, limits, output=output_inside, pass_fds=[theirs.fileno()]
            )
        except BaseException as failed:
            ours.close()
            os.close(output)
            if isinstance(failed, OSError):
                # Without the path: this is for the model.
                raise KernelFailed(f"The sandbox could not be started: {failed.strerror}") from failed
            raise
        finally:
            theirs.close()
            os.close(output_inside)
        kernel = cls(process, ours, output, folder, limits)
        await kernel._begin()
        return kernel

    @property
    def is_alive(self) -> bool:
        return self._alive and not self._process.has_ended

    @property
    def is_paused(self) -> bool:
        return self._process.cgroup.is_paused()

    async def run(self, code: str, seconds: float) -> KernelRun:
        """Runs code like a notebook's cell. Code that takes too long is interrupted and keeps its variables; if it goes on
        regardless, everything inside is ended. So it is if the run is cancelled."""
        async with self._lock:
            if not self.is_alive:
                return KernelRun("The interpreter has ended.", failed=True)
            output, images = Output(self._limits.output), list[bytes]()
            command = {"do": "run", "code": code, "images": self._limits.images, "image_bytes": self._limits.image_bytes}
            failed, timed_out, note = True, False, ""
            before = self._process.cgroup.processes()
            try:
                async with self._at_work(output):
                    token = await self._send(command)
                    try:
                        failed = await self._result(token, images, seconds) != b"1"
                    except TimeoutError:
                        timed_out = True
                        await self._send({"do": "interrupt", "token": token}, token)
                        await self._result(token, images, GRACE)
                        if self._process.cgroup.processes() - before:
                            raise TimeoutError from None  # what it has started goes on
                        note = f"[The code was stopped after {seconds:g} seconds. Variables are kept.]"
            except (TimeoutError, _Ended, _Full) as ended:
                failed = True
                note = await self._end(ended, f"The code was ended after {seconds:g} seconds.")
            logs = _joined(output.text(), note)
            return KernelRun(logs, images, failed or timed_out, timed_out, out_of_memory=self._out_of_memory)

    async def shell(self, command: str, seconds: float, most_output: int) -> ShellRun:
        """Runs a command with /bin/sh, in the same folder. That everything inside had to be ended is said in `stderr`."""
        async with self._lock:
            if not self.is_alive:
                return ShellRun("", "The sandbox has ended.", 1)
            output = Output(self._limits.output)
            order = {"do": "shell", "command": command, "seconds": seconds, "most_output": most_output}
            try:
                async with self._at_work(output):
                    # JSON writes one byte with up to six.
                    most = 2 * 6 * most_output + self._limits.image_bytes
                    result = await self._result(await self._send(order), [], seconds + GRACE, most)
                ran = msgspec.json.decode(result, type=ShellRun)
                # Code that is left inside may answer in place of the command.
                longest = most_output + LONGEST_NOTE
                return msgspec.structs.replace(ran, stdout=ran.stdout[:longest], stderr=ran.stderr[:longest])
            except (TimeoutError, _Ended, _Full, msgspec.DecodeError) as ended:
                note = await self._end(ended, f"The command was ended after {seconds:g} seconds.")
                return ShellRun("", note, None if isinstance(ended, TimeoutError) else 1)

    async def close(self) -> None:
        """Ends everything inside. Safe to call twice, and while code runs: the run says that the interpreter has ended."""
        await self._process.end()
        async with self._lock:
            await self._shut()

    async def _shut(self) -> None:
        if self._alive:
            self._alive = False
            self._reading = None
            asyncio.get_running_loop().remove_reader(self._output_end)
            await asyncio.shield(self._process.end())
            self._connection.close()
            os.close(self._output_end)

    async def _begin(self) -> None:
        output = Output(4096)
        try:
            async with self._at_work(output):
                await self._result("", [], START_TIME)
            self._process.cgroup.give_way()
        except (TimeoutError, _Ended, _Full) as failed:
            reason = str(failed) if isinstance(failed, _Full) else output.text().strip() or "no reason was given"
            await self._shut()
            raise KernelFailed(f"The sandbox could not be started: {reason}") from failed
        except BaseException:
            await self._shut()
            raise

    @contextlib.asynccontextmanager
    async def _at_work(self, output: Output) -> AsyncIterator[None]:
        """Resumes what is inside, and pauses it again. Meanwhile its output is read, and its folder is measured."""
        loop = asyncio.get_running_loop()
        here = asyncio.current_task()
        assert here is not None
        full: list[str] = []

        async def watch() -> None:
            full.append(await self._filled())
            here.cancel()

        self._memory_kills = self._process.cgroup.memory_kills()
        self._process.cgroup.pause(False)
        self._reading = output
        loop.add_reader(self._output_end, self._read_output, output)
        watcher = asyncio.create_task(watch())
        try:
            yield
            # Code may be quicker than the one who measures.
            if (reason := await self._over()) is not None:
                raise _Full(reason)
        except asyncio.CancelledError:
            if full and here.uncancel() == 0:
                raise _Full(full[0]) from None
            await self._shut()
            raise
        finally:
            watcher.cancel()
            if self._alive:
                self._process.cgroup.pause(True)
                self._reading = None
                loop.remove_reader(self._output_end)
                self._drain(output)

    async def _filled(self) -> str:
        """Waits until the folder exceeds its limits, or the disk is full."""
        while True:
            if (reason := await self._over()) is not None:
                return reason
            await asyncio.sleep(MEASURE_EVERY)

    async def _over(self) -> str | None:
        try:
            free = shutil.disk_usage(self._folder).free
            full = await asyncio.to_thread(self._is_over)
        except OSError:
            return "The folder /mnt/data is gone."
        if free < KEEP_FREE:
            return "The disk of this machine is almost full."
        most = f"{_size(self._limits.disk)} or {self._limits.files} files"
        return f"There is more in /mnt/data than it has room for ({most})." if full else None

    def _is_over(self) -> bool:
        used = folders.usage(self._folder, self._limits)
        unlinked = unlinked_bytes(self._process.cgroup.processes(), self._folder)
        return used.exceeds(self._limits) or used.size + unlinked > self._limits.disk

    def _read_output(self, output: Output, once: bool = False) -> bool:
        """Whether something was read."""
        try:
            piece = os.read(self._output_end, PIECE)
        except (BlockingIOError, OSError):
            return False
        loop = asyncio.get_running_loop()
        output.add(piece)
        if not piece:
            loop.remove_reader(self._output_end)  # nobody has it open any more
        elif output.is_long and not once:
            loop.remove_reader(self._output_end)
            loop.call_later(PAUSE, self._read_on, output)
        return bool(piece)

    def _drain(self, output: Output) -> None:
        """What was printed before the answer came is in the pipe by now. There may be no end of it if something still runs."""
        for _ in range(MOST_IN_PIPE // PIECE):
            if not self._read_output(output, once=True):
                return

    def _read_on(self, output: Output) -> None:
        if self._reading is output:
            asyncio.get_running_loop().add_reader(self._output_end, self._read_output, output)

    async def _send(self, command: dict[str, Any], token: str | None = None) -> str:
        token = token or secrets.token_hex(TOKEN_BYTES // 2)
        message = msgspec.json.encode(command | {"token": token})
        async with asyncio.timeout(GRACE + len(message) / MIB):
            try:
                await asyncio.get_running_loop().sock_sendall(self._connection, len(message).to_bytes(4, "big") + message)
            except OSError as failed:
                raise _Ended from failed
        return token

    async def _result(self, token: str, images: list[bytes], seconds: float, most: int | None = None) -> bytes:
        """The end of what was asked for. Images go to `images`. Answers to other commands are left out."""
        most = self._limits.image_bytes if most is None else most
        async with asyncio.timeout(seconds):
            for _ in range(MOST_FRAMES):
                # Code may send without end, and reading what is there does not let anything else run.
                await asyncio.sleep(0)
                head = await self._receive(HEAD_BYTES)
                kind, size = head[TOKEN_BYTES : TOKEN_BYTES + 1], int.from_bytes(head[-4:], "big")
                if size > most or kind not in (READY, IMAGE, DONE, SHELL):
                    raise _Ended
                body = await self._receive(size)
                if head[:TOKEN_BYTES].decode("latin-1").strip() != token:
                    continue
                if kind != IMAGE:
                    return body
                # Code may send what it likes: only what begins like an image is taken for one.
                if len(images) < self._limits.images and body.startswith(PNG):
                    images.append(body)
            raise _Ended

    async def _receive(self, size: int) -> bytes:
        data = bytearray()
        loop = asyncio.get_running_loop()
        while len(data) < size:
            try:
                piece = await loop.sock_recv(self._connection, min(size - len(data), MIB))
            except OSError as failed:
                raise _Ended from failed
            if not piece:
                raise _Ended
            data += piece
        return bytes(data)

    async def _end(self, ended: Exception, too_late: str) -> str:
        """Ends everything inside, and says why for the logs."""
        kept = "files in /mnt/data are kept"
        if isinstance(ended, TimeoutError):
            reason = too_late
        elif isinstance(ended, _Full):
            reason, kept = f"{ended} The code was ended.", "of the files in /mnt/data, those that were changed last are removed"
        elif self._process.cgroup.memory_kills() > self._memory_kills:
            self._out_of_memory = True
            reason = f"The code used more than {_size(self._limits.memory)} of memory and was ended."
        else:
            reason = "The interpreter has ended."
        await self._shut()
        if isinstance(ended, _Full):
            await asyncio.to_thread(folders.shrink, self._folder, self._limits)
        return f"[{reason} Variables are lost; {kept}.]"


def _widen(pipe: int) -> None:
    """More fits into it, so a long output is read in fewer pieces."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, MOST_IN_PIPE)


def _joined(logs: str, note: str) -> str:
    return f"{logs.rstrip()}\n{note}" if logs.strip() and note else logs + note


def _size(size: int) -> str:
    return f"{size / GIB:g} GiB" if size >= GIB else f"{size / MIB:g} MiB"
