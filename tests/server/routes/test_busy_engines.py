"""How many requests an engine gets at once, and how the others wait for it."""

import asyncio
from typing import Any

import pytest
from support.background import Background, held_back
from support.engine import OWN_FIELDS, MockEngine
from support.gateway import GatewayUnderTest, running_gateway, started
from support.ways_in import ADA, BOB, KEYS, WAYS_IN, Turns, every_way_in, left, posted, refusal_of, streamed, until, whole

from antiphon.app.options import admission_limits
from antiphon.errors import EngineBusy
from antiphon.gateway.limits.owner_limits import Admission
from antiphon.gateway.limits.places import AdmissionLimits
from antiphon.settings.settings import Settings

pytestmark = pytest.mark.timeout(60)


async def waiting(gateway: GatewayUnderTest, number: int) -> None:
    """Waits until so many requests are in the queue of the engine."""
    queue = gateway.gateway.admission.engines.queue(gateway.gateway.pool.engines[0])
    await until(lambda: queue.waiting == number)


@every_way_in
async def test_an_engine_gets_so_many_requests_at_once_and_the_others_wait(engine: MockEngine, way_in: Any) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=2) as gateway:
        requests = [asyncio.create_task(way_in(gateway, {})) for _ in range(5)]
        await waiting(gateway, 3)
        await turns.begun.acquire()
        await turns.begun.acquire()
        for _ in requests:
            turns.go_on.release()
        assert {status for status, _, _ in await asyncio.gather(*requests)} == {200}
        assert turns.most == 2
        await left(gateway)


async def test_an_engine_gets_as_many_requests_as_it_says_that_it_processes() -> None:
    """llama.cpp would let them wait in the order of their arrival; here, the keys take turns."""
    props = {"total_slots": 2, "default_generation_settings": {"n_ctx": 4096}}
    engine = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"], paths={"/props": props})
    turns = Turns(engine)
    async with started(engine), running_gateway(engine, engine_requests="auto") as gateway:
        requests = [asyncio.create_task(whole(gateway, {})) for _ in range(5)]
        await waiting(gateway, 3)
        await turns.begun.acquire()
        await turns.begun.acquire()
        for _ in requests:
            turns.go_on.release()
        assert {status for status, _, _ in await asyncio.gather(*requests)} == {200}
        assert turns.most == 2
        _, shown = await gateway.get("/inspector/engines")
        assert shown["engines"][0]["limit"] == 2


async def test_an_engine_that_does_not_say_it_gets_any_number_of_requests(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests="auto") as gateway:
        requests = [asyncio.create_task(whole(gateway, {})) for _ in range(5)]
        for _ in requests:
            await turns.begun.acquire()
        for _ in requests:
            turns.go_on.release()
        assert {status for status, _, _ in await asyncio.gather(*requests)} == {200}


async def test_one_more_than_may_wait_is_refused(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=1, engine_queue=1) as gateway:
        requests = [asyncio.create_task(whole(gateway, {})) for _ in range(2)]
        await waiting(gateway, 1)
        for way_in in WAYS_IN.values():
            status, body, headers = await way_in(gateway, {})
            assert refusal_of(status, body) == (503, "engine_busy")
            assert int(headers["retry-after"]) >= 1
        turns.go_on.release()
        turns.go_on.release()
        assert {status for status, _, _ in await asyncio.gather(*requests)} == {200}


async def test_one_that_has_waited_too_long_is_refused(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=1, queue_timeout=0.05) as gateway:
        first = asyncio.create_task(whole(gateway, {}))
        await turns.begun.acquire()
        for way_in in WAYS_IN.values():
            status, body, headers = await way_in(gateway, {})
            assert refusal_of(status, body) == (503, "engine_busy")
            assert int(headers["retry-after"]) >= 1
        turns.go_on.release()
        assert (await first)[0] == 200
        assert len(engine.requests) == 1
        await left(gateway)


async def test_the_time_after_which_to_try_again_is_that_of_the_queue(gateway: GatewayUnderTest) -> None:
    """By how long the engine's responses have taken, and how many wait for it."""
    now = 0.0
    admission = Admission(AdmissionLimits(engine_requests=2, engine_queue=3), now=lambda: now)
    (engine,) = gateway.gateway.pool.engines

    async def wait_said() -> float | None:
        with pytest.raises(EngineBusy) as busy:
            await admission.engines.seat("bob").take(engine)
        assert f"in about {busy.value.retry_after} s" in busy.value.message
        return busy.value.retry_after

    async with asyncio.TaskGroup() as group:
        seats = [admission.engines.seat("bob") for _ in range(5)]
        tasks = [group.create_task(seat.take(engine)) for seat in seats]
        await until(lambda: admission.engines.queue(engine).waiting == 3)
        # Nothing is known yet, so a client may try at once. It takes at least as long as it has taken already.
        assert await wait_said() == 1
        now = 5.0
        assert await wait_said() == 10
        # Three wait before it, two are answered at once, and each takes five seconds.
        seats[0].leave()
        seats[1].leave()
        seats += [admission.engines.seat("bob"), admission.engines.seat("bob")]
        tasks += [group.create_task(seat.take(engine)) for seat in seats[-2:]]
        await until(lambda: admission.engines.queue(engine).waiting == 3)
        assert await wait_said() == 10
        now = 500.0
        assert await wait_said() == 60
        for seat in seats[2:]:
            seat.leave()
        for task in tasks:
            task.cancel()


async def test_a_stream_that_waits_gets_heartbeats_and_a_proper_end(engine: MockEngine) -> None:
    # It waits for longer than an engine may be silent: nobody is silent here.
    async with running_gateway(engine, engine_requests=1, queue_timeout=0.5, heartbeat=0.02, first_byte_timeout=0.1) as gateway:
        seat = gateway.gateway.admission.engines.seat("another")
        await seat.take(gateway.gateway.pool.engines[0])
        events = await gateway.stream()
        assert events[-1]["type"] == "response.failed"
        assert "is busy" in events[-1]["response"]["error"]["message"]
        assert [event["type"] for event in events].count("response.in_progress") > 2
        seat.leave()


async def test_a_response_that_returns_waits_for_its_engine_for_as_long_as_it_takes(engine: MockEngine) -> None:
    """Although it may not wait at all for its first answer, and another engine is free."""
    async with started(MockEngine()) as second, running_gateway(engine, second) as gateway:
        admission = Admission(AdmissionLimits(engine_requests=1, engine_queue=0, queue_timeout=0))
        one, another = gateway.gateway.pool.engines
        seat, other = admission.engines.seat("ada"), admission.engines.seat("bob")
        await seat.take(one, [another])
        seat.pause()
        seat.pause()
        await other.take(one)
        returning = asyncio.create_task(seat.take(one, [another]))
        await until(lambda: seat.waits)
        with pytest.raises(EngineBusy):
            await admission.engines.seat("eve").take(one)
        assert seat.waits
        other.leave()
        await returning
        assert admission.engines.is_full(one)
        seat.leave()
        assert not admission.engines.is_full(one)


async def test_a_request_goes_to_a_free_engine_before_it_waits_for_a_busy_one(engine: MockEngine) -> None:
    async with started(MockEngine()) as other:
        turns = [Turns(engine), Turns(other)]
        async with running_gateway(engine, other, engine_requests=1, queue_timeout=20) as gateway:
            bodies = {"model": "mock", "input": "Hi", "prompt_cache_key": "same"}
            first, second, third = (asyncio.create_task(posted(gateway, "/v1/responses", {}, **bodies)) for _ in range(3))
            for turn in turns:
                async with asyncio.timeout(10):
                    await turn.begun.acquire()
            # Now both are busy, and the third one waits at one of them.
            queues = [gateway.gateway.admission.engines.queue(each) for each in gateway.gateway.pool.engines]
            await until(lambda: sum(queue.waiting for queue in queues) == 1)
            for turn in turns:
                turn.go_on.release()
                turn.go_on.release()
            assert [(await each)[0] for each in (first, second, third)] == [200, 200, 200]
            await left(gateway)


async def test_a_free_engine_is_tried_first_wherever_requests_come_in(engine: MockEngine) -> None:
    async with started(MockEngine()) as other, running_gateway(engine, other, engine_requests=1, queue_timeout=0) as gateway:
        seat = gateway.gateway.admission.engines.seat("another")
        await seat.take(gateway.gateway.pool.engines[0])
        for way_in in WAYS_IN.values():
            assert [(await way_in(gateway, {}))[0] for _ in range(2)] == [200, 200]
        assert engine.requests == []
        # The busy one is still there, if the free one is not.
        await other.stop()
        status, body, _ = await whole(gateway, {})
        assert (status, body["error"]["code"]) == (503, "engine_busy")
        seat.leave()


async def test_a_seat_that_was_waited_for_in_vain_is_not_taken(engine: MockEngine) -> None:
    async with running_gateway(engine, engine_requests=1) as gateway:
        admission, (only,) = gateway.gateway.admission, gateway.gateway.pool.engines
        first, second = admission.engines.seat("ada"), admission.engines.seat("bob")
        await first.take(only)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await second.take(only)
        first.leave()
        await second.take(only)
        assert admission.engines.is_full(only)
        second.leave()


async def test_one_that_is_gone_is_not_waited_for(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=1) as gateway:
        first = asyncio.create_task(whole(gateway, {}))
        await turns.begun.acquire()
        gone = asyncio.create_task(streamed(gateway, {}))
        await waiting(gateway, 1)
        gone.cancel()
        await waiting(gateway, 0)
        turns.go_on.release()
        assert (await first)[0] == 200
        await left(gateway)
        assert len(engine.requests) == 1


async def test_keys_take_turns_at_an_engine(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, api_key=KEYS, engine_requests=1) as gateway:
        requests = [asyncio.create_task(whole(gateway, ADA))]
        await turns.begun.acquire()
        for number in (1, 2, 3):
            body = {"model": "mock", "input": f"ada {number}"}
            requests.append(asyncio.create_task(posted(gateway, "/v1/responses", ADA, **body)))
            await waiting(gateway, number)
        requests.append(asyncio.create_task(posted(gateway, "/v1/responses", BOB, model="mock", input="bob")))
        await waiting(gateway, 4)
        for _ in requests:
            turns.go_on.release()
        await asyncio.gather(*requests)
        asked = [request["messages"][-1]["content"] for request in engine.requests]
        assert asked == ["Hi", "ada 1", "bob", "ada 2", "ada 3"]


async def test_a_key_that_fills_the_queue_gives_way_to_another(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, api_key=KEYS, engine_requests=1, engine_queue=2) as gateway:
        requests = [asyncio.create_task(whole(gateway, ADA))]
        await turns.begun.acquire()
        requests += [asyncio.create_task(whole(gateway, ADA)) for _ in range(2)]
        await waiting(gateway, 2)
        other = asyncio.create_task(whole(gateway, BOB))
        done, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result()[0] for task in done] == [503]
        for _ in range(3):
            turns.go_on.release()
        assert (await other)[0] == 200
        assert sorted(status for status, _, _ in await asyncio.gather(*requests)) == [200, 200, 503]


async def test_background_responses_wait_for_an_engine_as_long_as_it_takes(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=1, engine_queue=0, queue_timeout=0.01) as gateway:
        first = asyncio.create_task(whole(gateway, {}))
        await turns.begun.acquire()
        background = Background(gateway)
        id = (await background.create())["id"]
        await background.seen(id, "in_progress")
        assert (await whole(gateway, {}))[0] == 503
        turns.go_on.release()
        assert (await first)[0] == 200
        turns.go_on.release()
        assert (await background.ended(id))["status"] == "completed"
        await left(gateway)


async def test_another_engine_is_asked_if_one_is_busy(engine: MockEngine) -> None:
    async with started(MockEngine()) as other:
        script, go_on = held_back("Hel", "lo")
        engine.will(script)
        other.will(script)
        async with running_gateway(engine, other, engine_requests=1, engine_queue=0) as gateway:
            requests = [asyncio.create_task(whole(gateway, {})) for _ in range(2)]
            await engine.asked.wait()
            await other.asked.wait()
            assert (await whole(gateway, {}))[0] == 503
            go_on.set()
            assert {status for status, _, _ in await asyncio.gather(*requests)} == {200}


async def test_limits_can_be_changed_while_requests_wait(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=1, key_requests_per_minute=3) as gateway:
        requests = [asyncio.create_task(whole(gateway, {})) for _ in range(3)]
        await waiting(gateway, 2)
        assert (await whole(gateway, {}))[0] == 429
        gateway.gateway.admission.change(admission_limits(Settings()))
        requests.append(asyncio.create_task(whole(gateway, {})))
        for _ in requests:
            await turns.begun.acquire()
        for _ in requests:
            turns.go_on.release()
        assert {status for status, _, _ in await asyncio.gather(*requests)} == {200}
