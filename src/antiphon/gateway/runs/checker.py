"""Checks, run in processes that can be killed: no grammar and no schema can stop the gateway.

The processes are spawned, never forked, when there is something to check. A check that is not done in time is killed with
its process, and the next one gets a new process; so is one whose client has gone. Owners take turns with the processes, and
none has all of them: the checks of one owner, however slow, delay those of others by little.
"""

import asyncio
import contextlib
import logging
import math
import subprocess
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from antiphon.child_processes.child import python_command
from antiphon.core.checks.work import CheckOutcome, CheckWork
from antiphon.errors import RateLimited
from antiphon.gateway.limits.fair_queue import FairQueue, QueueFull
from antiphon.gateway.runs.check_process import read_message, write_message
from antiphon.logs import log

# How long one check may take, in seconds.
DEADLINE = 5.0
# A new process imports large libraries before its first check.
START_DEADLINE = 60.0
# How many checks run at once, and how many of them may be of one owner. More of them wait.
MOST_PROCESSES = 3
OWN_PROCESSES = 2
# How many checks may wait. If there are more, those of the owner that has the most of them are refused first.
MOST_WAITING = 1000
# The longest time after which a client is asked to try again, in seconds.
LONGEST_WAIT = 60
TOO_MANY = "Too many checks of schemas, grammars and documents of this key are waiting. Try again in about {wait} s."

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CheckOutcome).decode
UNFINISHED = CheckOutcome(unfinished=True)


class PendingCheck:
    """A check that waits, or runs. Its outcome is None if it did not come to an end."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self.outcome: Future[CheckOutcome | None] = Future()
        # The one that does it now.
        self.process: CheckProcess | None = None
        # Nobody waits for its outcome any more.
        self.given_up = False


class Checker:
    """`run()` any number of checks, then `close()`. It belongs to no event loop."""

    def __init__(
        self,
        deadline: float = DEADLINE,
        most_processes: int = MOST_PROCESSES,
        own_processes: int = OWN_PROCESSES,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._deadline = deadline
        # Each thread waits for one process.
        self._threads = ThreadPoolExecutor(most_processes, thread_name_prefix="check")
        # For all that follows.
        self._lock = threading.Lock()
        self._queue: FairQueue[PendingCheck] = FairQueue(most_processes, most_waiting, own_processes)
        self._pending: set[PendingCheck] = set()
        self._idle: list[CheckProcess] = []
        self._busy: set[CheckProcess] = set()
        self._closed = False

    async def run(self, work: CheckWork, owner: str = "", *, patient: bool = False) -> CheckOutcome:
        """Never raises for what the work does: work that fails or takes too long is unfinished. Raises RateLimited if too many
        checks of its owner wait, unless it is patient."""
        try:
            check = PendingCheck(_encode(work))
        except (UnicodeEncodeError, RecursionError):
            return UNFINISHED
        try:
            self._enter(check, owner, patient=patient)
            outcome = await asyncio.wrap_future(check.outcome)
        except QueueFull as full:
            wait = min(LONGEST_WAIT, max(1, math.ceil(full.seconds)))
            raise RateLimited(TOO_MANY.format(wait=wait), retry_after=wait) from None
        finally:
            self._stop_waiting(check)
        if outcome is None or outcome.unfinished:
            why = f"killed after {self._deadline:g} s, or its process died" if outcome is None else "the work failed"
            log("check_unfinished", level=logging.WARNING, kind=type(work).__name__, reason=why)
        return outcome or UNFINISHED

    # ---- who is served next ------------------------------------------------------------------------------------------

    def _enter(self, check: PendingCheck, owner: str, *, patient: bool) -> None:
        with self._lock:
            now = time.monotonic()
            displaced = self._queue.enter(check, owner, now, patient=patient)
            wait = self._queue.seconds_to_wait(now)
            self._pending.add(check)
            if self._queue.runs(check):
                self._start([check])
        # One that was given up meanwhile has nobody to report to.
        if displaced is not None and displaced is not check and displaced.outcome.set_running_or_notify_cancel():
            displaced.outcome.set_exception(QueueFull(wait))

    def _start(self, checks: Iterable[PendingCheck]) -> None:
        for check in checks:
            if self._closed:
                check.outcome.cancel()
            else:
                self._threads.submit(self._serve, check)

    def _stop_waiting(self, check: PendingCheck) -> None:
        """One that runs is killed, if it was given up, and leaves the queue when its thread is free."""
        with self._lock:
            self._pending.discard(check)
            if not self._queue.runs(check):
                self._queue.leave(check, time.monotonic())
            elif not check.outcome.done():
                check.given_up = True
                if check.process is not None:
                    check.process.kill()

    def _serve(self, check: PendingCheck) -> None:
        """In a thread."""
        is_wanted = check.outcome.set_running_or_notify_cancel()
        outcome: CheckOutcome | None = None
        try:
            if is_wanted:
                outcome = self._ask(check)
        finally:
            with self._lock:
                self._start(self._queue.leave(check, time.monotonic()))
            if is_wanted:
                check.outcome.set_result(outcome)

    # ---- processes ---------------------------------------------------------------------------------------------------

    def _ask(self, check: PendingCheck) -> CheckOutcome | None:
        try:
            process = self._take()
        except OSError as failed:
            log("check_process_not_started", level=logging.ERROR, reason=str(failed))
            return None
        is_ready = process.is_ready()
        is_asked = is_ready and self._begin(check, process)
        outcome = process.ask(check.message) if is_asked else None
        with self._lock:
            self._busy.discard(process)
            check.process = None
            # Of those that were asked, only a whole answer leaves a process fit for the next check.
            is_fit = outcome is not None and not check.given_up if is_asked else is_ready
            if is_fit and not self._closed:
                self._idle.append(process)
                return outcome
        process.close()
        return outcome

    def _begin(self, check: PendingCheck, process: "CheckProcess") -> bool:
        """False: it was given up while the process started. To kill that would only delay the next check."""
        with self._lock:
            if not check.given_up:
                check.process = process
            return not check.given_up

    def _take(self) -> "CheckProcess":
        with self._lock:
            process = self._idle.pop() if self._idle else None
        # Not under the lock, for which the event loop may be waiting: it takes a while.
        process = process or CheckProcess(self._deadline)
        with self._lock:
            self._busy.add(process)
            if self._closed:
                process.kill()
        return process

    def close(self) -> None:
        """Ends the checks that run, too."""
        with self._lock:
            self._closed = True
            for check in self._pending:
                # Those that run are ended with their processes.
                check.outcome.cancel()
            idle, self._idle = self._idle, []
            for process in self._busy:
                process.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in idle:
            process.close()


class CheckProcess:
    """One process. Every method blocks, for no longer than its deadline."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._process = subprocess.Popen(
            python_command("antiphon.gateway.runs.check_process", str(deadline)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # An interrupt at the terminal is meant for the gateway.
            start_new_session=True,
        )
        self._is_ready = False

    def is_ready(self) -> bool:
        """Waits for its start. False: that took too long, or it died."""
        self._is_ready = self._is_ready or self._within(START_DEADLINE, b"") is not None
        return self._is_ready

    def ask(self, message: bytes) -> CheckOutcome | None:
        """None: it took too long, or the process died."""
        answer = self._within(self._deadline, message)
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
