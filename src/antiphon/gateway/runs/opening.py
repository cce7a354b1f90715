"""What leads to the engine's next answer, and can be ended from anywhere."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from antiphon.engines.replies import Reply

# ---- Work that others can end, without a task of its own -------------------------------------------------------------

T = TypeVar("T")


class Interruptible:
    """`run()` it in the task of the caller; `interrupt()` ends it, and only it, from anywhere.

    A task for it, and the wait for that, take 7 µs; this takes 0.7. As `asyncio.timeout` does, an interruption cancels the
    caller's task and takes that back where the work ends.
    """

    __slots__ = ("_interrupted", "_running")

    def __init__(self) -> None:
        self._running: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result. None: it was interrupted."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before, result = task.cancelling(), None
        self._running, self._interrupted = task, False
        try:
            try:
                result = await work
            finally:
                if self._interrupted:
                    # Work that interrupts itself, and does not wait any more, would leave the cancellation to its caller.
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Others may have cancelled the task, too.
            if not self._interrupted or task.cancelling() > cancelled_before + 1:
                raise
        finally:
            self._running = None
            if self._interrupted:
                task.uncancel()
        return result

    def interrupt(self) -> None:
        """Nothing happens if it does not run."""
        if self._running is not None and not self._interrupted:
            self._interrupted = True
            self._running.cancel()


async def done_within(task: asyncio.Task[Any], seconds: float) -> None:
    """Waits until the task is done, for so long at most, and leaves it running. `asyncio.wait` does the same for several tasks,
    by three times as many calls."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = loop.call_later(seconds, wake)
    task.add_done_callback(wake)
    try:
        await woken
    finally:
        timer.cancel()
        task.remove_done_callback(wake)


# ---- The next answer -------------------------------------------------------------------------------------------------

# Takes the steps up to an answer. None: there is none to come.
Open = Callable[[], Coroutine[Any, Any, Reply | None]]


class Opening(Interruptible):
    """`run()` it in place, or `start()` it where the response may have to begin before there is an answer. Then ask for the
    `next()` one, until there is none."""

    __slots__ = ("reply", "task")

    def __init__(self) -> None:
        super().__init__()
        self.task: asyncio.Task[Reply | None] | None = None
        # The answer that came before the response began.
        self.reply: Reply | None = None

    async def start(self, open_answer: Open, patience: float) -> None:
        """Waits for the answer for so many seconds at most."""
        self.task = asyncio.create_task(open_answer())
        await done_within(self.task, patience)

    async def next(self, open_answer: Open) -> Reply | None:
        """None: there is none to come, or it was interrupted. The usage may still have to be estimated."""
        reply, self.reply = self.reply, None
        if reply is not None:
            return reply
        if (task := self.task) is None:
            return await self.run(open_answer())
        try:
            reply = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not task.cancelled() or (current is not None and current.cancelling()):
                raise
        self.task = None
        return reply

    def interrupt(self) -> None:
        super().interrupt()
        if self.task is not None:
            self.task.cancel()

    def close(self) -> None:
        """Nobody is going to read the answer."""
        task, reply = self.task, self.reply
        if task is not None and not task.cancel() and not task.cancelled() and task.exception() is None:
            reply = task.result()
        if reply is not None:
            reply.close()

    async def wait(self) -> None:
        """Calls that were running have been stopped, and may still be about to end."""
        if self.task is not None:
            await asyncio.wait({self.task})
