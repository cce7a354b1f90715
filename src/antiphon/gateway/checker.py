"""Checks, run in processes that can be killed: no grammar and no schema can stop the gateway.

The processes are spawned, never forked, when there is something to check. A check that is not done in time is killed with
its process, and the next one gets a new process.
"""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

from antiphon.core.check_work import CheckOutcome, CheckWork
from antiphon.gateway.check_process import read_message, write_message
from antiphon.logs import log

# How long one check may take, in seconds.
DEADLINE = 5.0
# A new process imports large libraries before its first check.
START_DEADLINE = 60.0
# How many checks run at once. More of them wait.
MOST_PROCESSES = 2

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CheckOutcome).decode
UNFINISHED = CheckOutcome(unfinished=True)


class Checker:
    """`run()` any number of checks, then `close()`. It belongs to no event loop."""

    def __init__(self, deadline: float = DEADLINE, most_processes: int = MOST_PROCESSES) -> None:
        self._deadline = deadline
        # Each thread waits for one process.
        self._threads = ThreadPoolExecutor(most_processes, thread_name_prefix="check")
        self._lock = threading.Lock()
        self._idle: list[CheckProcess] = []
        self._busy: set[CheckProcess] = set()
        self._closed = False

    async def run(self, work: CheckWork) -> CheckOutcome:
        """Never raises for what the work does: work that fails or takes too long is unfinished."""
        try:
            message = _encode(work)
        except (UnicodeEncodeError, RecursionError):
            return UNFINISHED
        outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, message)
        if outcome is None:
            log("check_unfinished", kind=type(work).__name__, seconds=self._deadline)
        return outcome or UNFINISHED

    def _ask(self, message: bytes) -> CheckOutcome | None:
        try:
            process = self._take()
        except OSError as failed:
            log("check_process_not_started", level=logging.ERROR, reason=str(failed))
            return None
        outcome = process.ask(message)
        with self._lock:
            self._busy.discard(process)
            # Only a whole answer leaves a process fit for the next check.
            if outcome is not None and not self._closed:
                self._idle.append(process)
                return outcome
        process.close()
        return outcome

    def _take(self) -> "CheckProcess":
        with self._lock:
            process = self._idle.pop() if self._idle else CheckProcess(self._deadline)
            self._busy.add(process)
            return process

    def close(self) -> None:
        """Ends the checks that run, too."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for process in self._busy:
                process.kill()
        for process in idle:
            process.close()


class CheckProcess:
    """One process. Every method blocks, for no longer than its deadline."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._process = subprocess.Popen(
            [sys.executable, "-m", "antiphon.gateway.check_process", str(deadline)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # An interrupt at the terminal is meant for the gateway.
            start_new_session=True,
        )
        self._is_ready = False

    def ask(self, message: bytes) -> CheckOutcome | None:
        """None: it took too long, or the process died."""
        if not self._is_ready:
            self._is_ready = self._within(START_DEADLINE, b"") is not None
        answer = self._within(self._deadline, message) if self._is_ready else None
        return None if answer is None else _decode(answer)

    def _within(self, seconds: float, message: bytes) -> bytes | None:
        """Sends a message, if there is one, and waits for the next answer. The process is killed when the time is over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            if message:
                write_message(self._process.stdin, message)  # type: ignore[arg-type]
            return read_message(self._process.stdout)  # type: ignore[arg-type]
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()

    def kill(self) -> None:
        """Who waits for it gets None at once."""
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
