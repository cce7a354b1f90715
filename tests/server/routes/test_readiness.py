"""GET /ready: whether a request that comes now can be answered."""

import asyncio
import signal
import time
from typing import Any

import pytest
from support.engine import MockEngine
from support.gateway import running_gateway
from support.postgres import PostgresServer

from antiphon.app.options import Intervals
from antiphon.errors import StoreUnavailable
from antiphon.server.parts import APP
from antiphon.server.readiness import Readiness
from antiphon.store.memory.store import MemoryStore
from antiphon.store.wakeups import Wakeups

AT_ONCE = Intervals(readiness=0)


class Asked(MemoryStore):
    """A store that can be away, or silent."""

    def __init__(self) -> None:
        super().__init__(time.time, Wakeups(1))
        self.asked = 0
        self.away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def get(self, owner: str, id: str, *, output: bool = True) -> Any:
        self.asked += 1
        await self.may_answer.wait()
        if self.away:
            raise StoreUnavailable
        return await super().get(owner, id)


async def test_a_server_that_is_stopped_is_a_503_and_one_that_is_back_is_ready(
    engine: MockEngine, postgres: PostgresServer
) -> None:
    async with running_gateway(engine, store=postgres.new_database(), intervals=AT_ONCE) as gateway:
        assert (await gateway.get("/ready"))[0] == 200
        await asyncio.to_thread(postgres.stop)
        try:
            status, body = await gateway.get("/ready")
            assert (status, body["error"]["code"]) == (503, "store_unavailable")
            assert int(gateway.headers["Retry-After"]) >= 1
            # The gateway itself runs: nobody has to start it anew.
            assert (await gateway.get("/health"))[0] == 200
        finally:
            await asyncio.to_thread(postgres.start)
        assert (await gateway.get("/ready"))[0] == 200


async def test_a_server_that_is_silent_is_a_503_in_time(engine: MockEngine, postgres: PostgresServer) -> None:
    async with running_gateway(engine, store=postgres.new_database(), intervals=AT_ONCE) as gateway:
        assert (await gateway.get("/ready"))[0] == 200
        postgres.signal_all(signal.SIGSTOP)
        try:
            status, body = await gateway.get("/ready")
        finally:
            postgres.signal_all(signal.SIGCONT)
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        assert "2 s" in body["error"]["message"]


async def test_a_gateway_that_stops_is_not_ready(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        gateway.app[APP].open.readiness.stop()
        status, body = await gateway.get("/ready")
    assert (status, body["error"]["message"]) == (503, "The gateway is shutting down.")


async def test_the_store_is_asked_once_for_all_who_ask_at_the_same_time() -> None:
    store = Asked()
    readiness = Readiness(store, lifetime=0)
    store.may_answer.clear()
    asking = [asyncio.create_task(readiness.store_answers()) for _ in range(5)]
    await asyncio.sleep(0)
    store.may_answer.set()
    assert await asyncio.gather(*asking) == [True] * 5
    assert store.asked == 1


async def test_its_answer_counts_for_a_while() -> None:
    store = Asked()
    readiness = Readiness(store, lifetime=3600)
    await readiness.check()
    store.away = True
    await readiness.check()
    assert store.asked == 1


async def test_a_bad_answer_counts_for_as_long_and_no_longer() -> None:
    store = Asked()
    store.away = True
    for lifetime, ready, asked in ((3600.0, False, 1), (0.0, True, 2)):
        readiness = Readiness(store, lifetime=lifetime)
        store.asked, store.away = 0, True
        with pytest.raises(StoreUnavailable):
            await readiness.check()
        store.away = False
        assert await readiness.store_answers() is ready
        assert store.asked == asked


async def test_nothing_is_left_of_a_question_when_it_is_closed() -> None:
    store = Asked()
    store.may_answer.clear()
    readiness = Readiness(store)
    asking = asyncio.create_task(readiness.store_answers())
    await asyncio.sleep(0)
    await readiness.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
