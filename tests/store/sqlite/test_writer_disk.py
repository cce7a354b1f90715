"""What the system sees of the process that writes for several workers: it acknowledges nothing that the disk does not have."""

import asyncio
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.programs import leave_out
from support.store_writers import until_writer_is_used
from support.stores import Clock, record

from antiphon.app.processes.store_writer import StoreWriter
from antiphon.settings.settings import Settings
from antiphon.store import open_store

# `[pid] 12:00:00 fdatasync(7) = 0`: the call, its file and its result.
CALL = re.compile(r"(fdatasync|fsync|sendto|recvfrom|write)\((\d+).*?= (-?\d+)")
WORKERS = 3
PUTS = 40


def calls_of(trace: str) -> Iterator[tuple[str, int, int]]:
    for line in trace.splitlines():
        if found := CALL.search(line):
            yield found[1], int(found[2]), int(found[3])


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_no_answer_is_sent_before_the_disk_has_what_it_acknowledges(tmp_path: Path, clock: Clock) -> None:
    if shutil.which("strace") is None:
        leave_out("strace is not installed")
    url = f"sqlite:{tmp_path / 'responses.db'}"
    trace = tmp_path / "trace"
    async with AsyncExitStack() as stack:
        # The path of a Unix socket must be short.
        writer = StoreWriter(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        await writer.start(Settings(store=url))
        stack.push_async_callback(writer.stop)
        stores = [await stack.enter_async_context(open_store(url, clock, writer=writer.path)) for _ in range(WORKERS)]
        for store in stores:
            await until_writer_is_used(store)
        command = ["strace", "-f", "-e", "trace=fdatasync,fsync,sendto,recvfrom", "-o", str(trace), "-p", str(writer.pid)]
        tracing = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        assert tracing.stderr is not None
        if b"attached" not in (said := await tracing.stderr.readline()):
            leave_out(f"strace may not follow a process here: {said.decode().strip()}")
        for number in range(PUTS):
            await asyncio.gather(*(store.put(record(f"{place}-{number}")) for place, store in enumerate(stores)))
        tracing.terminate()
        await tracing.communicate()
    answers = synced = 0
    has_read, is_synced = False, False
    for call, _, result in calls_of(trace.read_text()):
        if call == "recvfrom" and result > 0:
            has_read, is_synced = True, False
        elif call == "fdatasync" and has_read:
            assert result == 0
            is_synced, synced = True, synced + 1
        elif call == "sendto":
            assert is_synced, "an answer was sent, and nothing was synced since the last request was read"
            answers += 1
    assert answers >= PUTS
    # What came together was synced together, and nothing was synced without need.
    assert synced <= answers
