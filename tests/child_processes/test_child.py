"""Child processes: real ones, of this Python."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process

import pytest

from antiphon.child_processes.child import Child, killed_if_cancelled, lines_of, python_command

pytestmark = pytest.mark.timeout(60)

SAYS_READY = "print('ready', flush=True); input()"
# It ends neither when its input closes nor when it is asked to.
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(600)"


async def run(program: str) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=PIPE, stdout=PIPE, limit=1024)


class Followed(Child):
    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.said: list[str] = []
        assert process.stdout is not None
        self.follow(self._read(process.stdout))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for line in lines_of(stream):
            self.said.append(line)
            if line == "ready":
                self.mark_ready()


async def test_it_is_ready_when_it_says_so_and_stops_when_it_is_asked() -> None:
    child = Followed(await run(SAYS_READY))
    assert await child.ready()
    await child.stop(within=30)
    assert "signal 15" in await child.end() or "code" in await child.end()


async def test_one_that_ends_before_is_never_ready() -> None:
    child = Followed(await run("import sys; print('oh'); sys.exit(3)"))
    assert not await child.ready()
    assert await child.end() == "it exited with code 3"
    assert child.said == ["oh"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
async def test_one_that_does_not_stop_is_killed() -> None:
    child = Followed(await run(STUBBORN))
    assert await child.ready()
    await child.stop(within=0.05)
    assert await child.end() == "it was killed by signal 9"
    # Also once more.
    child.kill()


async def test_a_program_whose_result_nobody_waits_for_is_killed() -> None:
    process = await run(STUBBORN)

    async def wait() -> None:
        async with killed_if_cancelled(process):
            await process.wait()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert process.returncode is not None


async def test_empty_lines_and_those_that_are_too_long_are_skipped() -> None:
    process = await run("print('one'); print(); print('x' * 5000); print('  two  ')")
    assert process.stdout is not None
    said = [line async for line in lines_of(process.stdout)]
    assert said[0] == "one"
    assert said[-1] == "two"
    assert "x" * 5000 not in said
    await process.wait()


def test_modules_are_run_by_the_same_python() -> None:
    assert python_command("antiphon", "serve") == [sys.executable, "-m", "antiphon", "serve"]
