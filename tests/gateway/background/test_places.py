"""A response that waits does not block others, and as many run at once as there are workers."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from support import gateway as gateways
from support.background import Background, held_back
from support.engine import MockEngine, Writer, text
from support.stores import interposed

from antiphon.app.options import Intervals
from antiphon.gateway.background import workers
from antiphon.store import Store

# A response that waits tries again soon.
running_gateway = partial(gateways.running_gateway, intervals=Intervals(background_retry=0.02))


async def until(is_so: Callable[[], bool]) -> None:
    """Lets others run until something is so."""
    loop = asyncio.get_running_loop()
    latest = loop.time() + 20
    while not is_so():
        assert loop.time() < latest
        await asyncio.sleep(0)


class Room:
    """A conversation that another response has locked until `free()`."""

    def __init__(self, store: Store, id: str) -> None:
        self._store = store
        self.id = id

    @classmethod
    async def occupied(cls, gateway: gateways.GatewayUnderTest) -> "Room":
        _, conversation = await gateway.post({}, "/v1/conversations")
        room = cls(gateway.gateway.store, conversation["id"])
        assert await room._store.lock_conversation("", room.id, "resp_other", 60)
        return room

    async def free(self) -> None:
        assert await self._store.unlock_conversation("", self.id, "resp_other")


async def test_a_response_that_waits_for_a_conversation_does_not_block_others(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=1) as gateway:
        background = Background(gateway)
        room = await Room.occupied(gateway)
        id = (await background.create("One", conversation=room.id))["id"]
        await background.seen(id, "in_progress")
        for _ in range(3):
            assert (await background.made("Two"))["status"] == "completed"
        assert (await background.get(id))["status"] == "in_progress"
        await room.free()
        assert (await background.ended(id))["status"] == "completed"
        assert len(engine.requests) == 4


class Busy:
    """Answers that take a moment each, and how many of them there were at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, write: Writer) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.05)
        self.now -= 1
        await write(text("Hello"))


async def test_the_engine_never_gets_more_responses_than_there_are_workers(engine: MockEngine) -> None:
    busy = Busy()
    engine.otherwise = lambda body: busy
    async with running_gateway(engine, background_workers=2) as gateway:
        background = Background(gateway)
        rooms = [await Room.occupied(gateway) for _ in range(4)]
        waiting = [(await background.create(conversation=room.id))["id"] for room in rooms]
        for id in waiting:
            await background.seen(id, "in_progress")
        others = [(await background.create())["id"] for _ in range(6)]
        for room in rooms:
            await room.free()
        for id in [*waiting, *others]:
            assert (await background.ended(id))["status"] == "completed"
    assert (busy.most, len(engine.requests)) == (2, 10)


async def test_the_number_of_claimed_responses_is_limited(engine: MockEngine) -> None:
    store, interference = interposed()
    claim, finish = interference.store.claim, interference.store.finish
    async with running_gateway(engine, shares=store, background_workers=1) as gateway:
        background = Background(gateway)
        claimed, most, full = set[str](), 0, asyncio.Event()

        async def claim_and_count(*asked: Any) -> Any:
            nonlocal most
            job = await claim(*asked)
            if job is not None:
                claimed.add(job.record.id)
                most = max(most, len(claimed))
            if len(claimed) == workers.CLAIMED_PER_PLACE:
                full.set()
            return job

        async def finish_and_count(record: Any, *rest: Any) -> Any:
            claimed.discard(record.id)
            return await finish(record, *rest)

        interference.instead = {"claim": claim_and_count, "finish": finish_and_count}
        room = await Room.occupied(gateway)
        ids = [(await background.create(conversation=room.id))["id"] for _ in range(workers.CLAIMED_PER_PLACE + 2)]
        await full.wait()
        await room.free()
        for id in ids:
            assert (await background.ended(id))["status"] == "completed"
        assert most == workers.CLAIMED_PER_PLACE


async def test_a_response_that_waits_for_a_place_is_cancelled_at_once(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, background_workers=1) as gateway:
        background = Background(gateway)
        room = await Room.occupied(gateway)
        id = (await background.create(conversation=room.id))["id"]
        await background.seen(id, "in_progress")
        running = (await background.create())["id"]
        await engine.asked.wait()
        await room.free()
        assert (await background.cancel(id))["status"] == "cancelled"
        assert (await background.get(running))["status"] == "in_progress"
        go_on.set()
        assert (await background.ended(running))["status"] == "completed"
        # The place that the other waited for is still there.
        assert (await background.made())["status"] == "completed"


async def test_waiting_responses_are_given_back_before_running_ones_are_waited_for(engine: MockEngine, tmp_path: Path) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    kept = f"sqlite:{tmp_path / 'responses.db'}"
    async with AsyncExitStack() as idles, AsyncExitStack() as working:
        idle = await idles.enter_async_context(running_gateway(engine, store=kept, poll=0.02, background_workers=0))
        await working.enter_async_context(running_gateway(engine, store=kept, poll=0.02, background_workers=1))
        background = Background(idle)
        room = await Room.occupied(idle)
        id = (await background.create(conversation=room.id))["id"]
        await background.seen(id, "in_progress")
        running = (await background.create())["id"]
        await engine.asked.wait()
        stopping = asyncio.create_task(working.aclose())
        await background.seen(id, "queued")
        assert not stopping.done()
        go_on.set()
        await stopping
        assert (await background.get(running))["status"] == "completed"


async def test_a_waiting_response_that_no_gateway_can_take_over_fails(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=0) as idle:
        async with running_gateway(engine, shares=idle.gateway.store, background_workers=1):
            room = await Room.occupied(idle)
            id = (await Background(idle).create(conversation=room.id))["id"]
            await Background(idle).seen(id, "in_progress")
        response = await Background(idle).get(id)
        assert (response["status"], response["error"]["message"]) == ("failed", "The gateway is shutting down.")


async def test_a_response_waits_for_whichever_engine_becomes_free_first(engine: MockEngine) -> None:
    async with (
        gateways.started(MockEngine()) as second,
        gateways.started(MockEngine()) as third,
        running_gateway(engine, second, third, engine_requests=1) as gateway,
    ):
        admission, engines = gateway.gateway.admission, gateway.gateway.pool.engines
        queues = [admission.engines.queue(each) for each in engines]
        background = Background(gateway)
        for free in range(3):
            seats = [admission.engines.seat("another") for _ in engines]
            for seat, each in zip(seats, engines, strict=True):
                await seat.take(each)
            id = (await background.create())["id"]
            await until(lambda: all(queue._waiting for queue in queues))
            asked = [len(each.requests) for each in (engine, second, third)]
            seats[free].leave()
            assert (await background.ended(id))["status"] == "completed"
            # That engine was asked, and no other.
            asked[free] += 1
            assert [len(each.requests) for each in (engine, second, third)] == asked
            # It waits nowhere, and has left its place.
            assert [queue.running for queue in queues] == [int(at != free) for at in range(3)]
            assert not any(queue._waiting for queue in queues)
            for seat in seats:
                seat.leave()


async def test_a_response_that_waits_for_several_engines_is_cancelled_at_once(engine: MockEngine) -> None:
    async with gateways.started(MockEngine()) as second, running_gateway(engine, second, engine_requests=1) as gateway:
        admission, engines = gateway.gateway.admission, gateway.gateway.pool.engines
        for each in engines:
            await admission.engines.seat("another").take(each)
        background = Background(gateway)
        id = (await background.create())["id"]
        queues = [admission.engines.queue(each) for each in engines]
        await until(lambda: all(queue._waiting for queue in queues))
        assert (await background.cancel(id))["status"] == "cancelled"
        assert not any(queue._waiting for queue in queues)
    assert engine.requests == second.requests == []
