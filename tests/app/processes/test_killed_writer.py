"""A gateway with several workers on SQLite whose writer, or a worker, is killed again and again under load."""

import asyncio
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import aiohttp
import pytest
from support.engine import MockEngine
from support.ways_in import until
from support.worker_gateway import WorkerGateway, worker_gateway

from bench.processes import family
from bench.workers import writer_of

SAMPLE = pytest.param(3, id="sample")
ALL = pytest.param(20, id="all", marks=pytest.mark.slow)
CLIENTS = 8

pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(sys.platform != "linux", reason="one port for several processes")]


def config(engine: MockEngine) -> str:
    # Nobody reads the log while the load runs.
    return f'upstream = ["{engine.url}"]\nlog_level = "error"\n'


class Load:
    """Clients that ask one request after another, and remember what was acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.stored: list[str] = []
        self.statuses: set[int] = set()
        # Requests whose connection ended before their answer.
        self.broken = 0

    async def ask(self) -> None:
        while True:
            with suppress(aiohttp.ClientError):
                async with aiohttp.ClientSession(self._url) as client:
                    await self._ask_with(client)
            self.broken += 1

    async def _ask_with(self, client: aiohttp.ClientSession) -> None:
        while True:
            async with client.post("/v1/responses", json={"model": "mock", "input": "Hi"}) as answer:
                self.statuses.add(answer.status)
                response = await answer.json()
            self.stored.append(response["id"])


async def writer_pid(gateway: WorkerGateway, but: int | None = None) -> int:
    """The process that writes; `but`: not this one."""
    found: list[int] = []

    def is_there() -> bool:
        pid = writer_of(family(gateway.process.pid))
        found[:] = [pid] if pid is not None and pid != but else []
        return bool(found)

    await until(is_there)
    return found[0]


async def kill_often(gateway: WorkerGateway, kills: int, victim: Callable[[], int | None]) -> Load:
    load = Load(gateway.url)
    chance = random.Random(7)
    asking = [asyncio.create_task(load.ask()) for _ in range(CLIENTS)]
    for _ in range(kills):
        before = len(load.stored)
        # At another point of its work each time; then all goes on.
        await until(lambda before=before: len(load.stored) > before + 20)  # type: ignore[misc]
        await asyncio.wait(asking, timeout=chance.uniform(0, 0.05))
        await until(lambda: victim() is not None)
        if (pid := victim()) is not None:
            os.kill(pid, signal.SIGKILL)
        await until(lambda pid=pid: victim() != pid)  # type: ignore[misc]
    before = len(load.stored)
    await until(lambda: len(load.stored) > before + 20)
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    return load


def check_stored(folder: Path, load: Load, *, most_unacknowledged: int) -> None:
    with closing(sqlite3.connect(folder / "data" / "responses.db")) as connection:
        ids = {id for (id,) in connection.execute("SELECT id FROM responses")}
        counted = [id for (id,) in connection.execute("SELECT id FROM usage_entries")]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(load.stored) == len(set(load.stored))
    assert set(load.stored) - ids == set()
    # Each request was stored at most once, and counted once. What a client gave up may be counted without being stored.
    assert len(ids) <= len(load.stored) + most_unacknowledged
    assert ids - set(counted) == set()
    assert len(counted) <= len(ids) + most_unacknowledged


@pytest.mark.parametrize("kills", [SAMPLE, ALL])
async def test_a_writer_that_is_killed_loses_and_repeats_nothing(engine: MockEngine, tmp_path: Path, kills: int) -> None:
    async with worker_gateway(tmp_path, config(engine)) as gateway:
        await gateway.ready()
        await writer_pid(gateway)
        load = await kill_often(gateway, kills, lambda: writer_of(family(gateway.process.pid)))
    # Nobody has noticed.
    assert (load.statuses, load.broken) == ({200}, 0)
    check_stored(tmp_path, load, most_unacknowledged=CLIENTS)


@pytest.mark.parametrize("kills", [SAMPLE, ALL])
async def test_a_worker_that_is_killed_loses_nothing_that_was_acknowledged(
    engine: MockEngine, tmp_path: Path, kills: int
) -> None:
    # One that dies often is started again after longer and longer pauses.
    workers = 4 if kills > 5 else 2
    async with worker_gateway(tmp_path, config(engine), workers=workers) as gateway:
        await gateway.ready(workers)
        await writer_pid(gateway)

        def worker() -> int | None:
            pids = family(gateway.process.pid)[1:]
            return min((pid for pid in pids if pid != writer_of(pids)), default=None)

        load = await kill_often(gateway, kills, worker)
    assert load.statuses == {200}
    # Those whose connection ended, and those that the test ended.
    check_stored(tmp_path, load, most_unacknowledged=load.broken + CLIENTS)


async def test_a_restart_replaces_the_writer_after_the_first_worker(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, config(engine)) as gateway:
        await gateway.ready()
        before = await writer_pid(gateway)
        load = Load(gateway.url)
        asking = [asyncio.create_task(load.ask()) for _ in range(CLIENTS)]
        await until(lambda: len(load.stored) > 20)
        assert (await gateway.run("restart")).returncode == 0
        after = await writer_pid(gateway)
        so_far = len(load.stored)
        await until(lambda: len(load.stored) > so_far + 20)
        for each in asking:
            each.cancel()
        await asyncio.wait(asking)
        assert after != before
        assert before not in family(gateway.process.pid)
    assert load.statuses == {200}
    check_stored(tmp_path, load, most_unacknowledged=load.broken + CLIENTS)


async def test_the_writer_stays_until_the_workers_have_ended(engine: MockEngine, tmp_path: Path) -> None:
    async with worker_gateway(tmp_path, config(engine)) as gateway:
        await gateway.ready()
        pid = await writer_pid(gateway)
        watch = os.pidfd_open(pid)
        # What a terminal, or a service, sends to all processes.
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
        async with (await gateway.client()).post("/v1/responses", json={"model": "mock", "input": "Hi"}) as answer:
            assert answer.status == 200
        assert await writer_pid(gateway) == pid
        gateway.process.kill()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(watch, ended.set)
        async with asyncio.timeout(60):
            await ended.wait()
        asyncio.get_running_loop().remove_reader(watch)
        os.close(watch)
