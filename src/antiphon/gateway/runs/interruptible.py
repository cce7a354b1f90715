"""Work that others can end, without a task of its own."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interruptible:
    """`run()` it in the task of the caller; `interrupt()` ends it, and only it, from anywhere.

    A task for it, and the wait for that, take 7 µs; this takes 0.7. As `asyncio.timeout` does, an interruption cancels the
    caller's task and takes that back where the work ends.
    """

    __slots__ = ("_interrupted", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._interrupted = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result. None: it was interrupted."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before, result = task.cancelling(), None
        self._task, self._interrupted = task, False
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
            self._task = None
            if self._interrupted:
                task.uncancel()
        return result

    def interrupt(self) -> None:
        """Nothing happens if it does not run."""
        if self._task is not None and not self._interrupted:
            self._interrupted = True
            self._task.cancel()


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
