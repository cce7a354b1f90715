"""Work that is ended from outside, in the task of its caller."""

import asyncio

import pytest

from antiphon.gateway.runs.steps import Interruptible, done_within


async def test_the_result_of_the_work_is_returned() -> None:
    async def work() -> int:
        return 7

    assert await Interruptible().run(work()) == 7


async def test_an_interruption_ends_the_work_and_nothing_else() -> None:
    steps, waiting = Interruptible(), asyncio.Event()
    asyncio.get_running_loop().call_soon(steps.interrupt)
    assert await steps.run(waiting.wait()) is None
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    # It can wait again.
    await asyncio.sleep(0)


async def test_work_that_interrupts_itself_at_its_end_does_not_cancel_its_caller() -> None:
    steps = Interruptible()

    async def work() -> int:
        steps.interrupt()
        return 7

    assert await steps.run(work()) == 7
    await asyncio.sleep(0)


async def test_an_error_of_interrupted_work_does_not_count() -> None:
    steps = Interruptible()

    async def work() -> int:
        steps.interrupt()
        raise ValueError("wrong")

    assert await steps.run(work()) is None
    await asyncio.sleep(0)


async def test_a_caller_that_is_cancelled_too_is_cancelled() -> None:
    steps = Interruptible()

    async def call() -> None:
        await steps.run(asyncio.Event().wait())

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    steps.interrupt()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_can_be_run_again_after_an_interruption() -> None:
    steps = Interruptible()
    asyncio.get_running_loop().call_soon(steps.interrupt)
    assert await steps.run(asyncio.Event().wait()) is None
    steps.interrupt()
    assert await steps.run(asyncio.sleep(0, 7)) == 7


async def test_a_task_is_waited_for_until_it_is_done() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    task = asyncio.create_task(work())
    await done_within(task, 60.0)
    assert task.result() == "done"
    failing = asyncio.create_task(fail())
    await done_within(failing, 60.0)
    assert isinstance(failing.exception(), ValueError)


async def fail() -> None:
    raise ValueError


async def test_a_task_that_takes_longer_is_left_running_and_so_it_is_if_the_wait_is_cancelled() -> None:
    end = asyncio.Event()
    task = asyncio.create_task(end.wait())
    await done_within(task, 0.0)
    assert not task.done()
    waiting = asyncio.create_task(done_within(task, 60.0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert not task.done()
    end.set()
    assert await task
