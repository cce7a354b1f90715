"""Processes of this machine, found by what their command line has."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

# Seconds between two looks at the table of processes: the system tells nobody when it changes.
PAUSE = 0.02


def running(*words: str) -> dict[int, str]:
    """The processes that have all of these words in their command line or their environment, but not this one."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            surroundings = command + (folder / "environ").read_bytes()
            # Of a process that has ended, both are empty.
            if command and all(word.encode() in surroundings for word in words) and int(folder.name) != os.getpid():
                found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


async def none_runs(*words: str) -> None:
    """Waits until none of them is left."""
    await _until(lambda: not running(*words))


async def one_runs(*words: str) -> None:
    await _until(lambda: bool(running(*words)))


async def _until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)


async def ended(watch: int) -> None:
    """Waits for the end of a process. `watch`: from `os.pidfd_open()`."""
    loop, has_ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watch, has_ended.set)
    try:
        await asyncio.wait_for(has_ended.wait(), 60)
    finally:
        loop.remove_reader(watch)
        os.close(watch)
