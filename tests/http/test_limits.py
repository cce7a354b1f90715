"""How many responses a key may run, how many requests it may send, and how long it waits for a busy engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import structs
from support.background import Background, held_back
from support.engine import CUT, MockEngine, Refusal, Writer, chunk, text
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway, started
from support.sockets import connected
from support.streams import check_stream

from antiphon.app import admission_limits
from antiphon.errors import EngineBusy
from antiphon.gateway.admission import Admission, AdmissionLimits, EngineSeat
from antiphon.settings import Settings

pytestmark = pytest.mark.timeout(60)

ADA = {"Authorization": "Bearer ada"}
BOB = {"Authorization": "Bearer bob"}
KEYS = ("ada", "bob")
CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
Answer = tuple[int, dict[str, Any], dict[str, str]]


async def posted(gateway: GatewayUnderTest, path: str, key: dict[str, str], **body: Any) -> Answer:
    async with gateway.client.post(gateway.url + path, json=body, headers=key) as answer:
        data = await answer.read()
        known = {name.lower(): value for name, value in answer.headers.items()}
        parsed = msgspec.json.decode(data) if answer.content_type == "application/json" else {}
        return answer.status, parsed, known


async def streamed(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses", key, model="mock", input="Hi", stream=True)


async def whole(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses", key, model="mock", input="Hi")


async def compacted(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses/compact", key, model="mock", input="Hi")


async def counted(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses/input_tokens", key, model="mock", input="Hi")


async def passed_through(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/chat/completions", key, **CHAT)


async def by_websocket(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    async with connected(gateway, headers=key) as socket:
        await socket.send()
        event = await socket.event()
        while event["type"] not in ("error", "response.completed"):
            event = await socket.event()
        return event.get("status", 200), event, event.get("headers", {})


WAYS_IN: dict[str, Callable[[GatewayUnderTest, dict[str, str]], Awaitable[Answer]]] = {
    "streamed": streamed,
    "whole": whole,
    "compacted": compacted,
    "counted": counted,
    "passed through": passed_through,
    "websocket": by_websocket,
}
every_way_in = pytest.mark.parametrize("way_in", WAYS_IN.values(), ids=WAYS_IN)


@asynccontextmanager
async def occupied(gateway: GatewayUnderTest, engine: MockEngine, key: dict[str, str]) -> AsyncIterator[asyncio.Event]:
    """While a response of this key runs, until the event is set or the client is gone."""
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with aiohttp.ClientSession() as client:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with client.post(gateway.url + "/v1/responses", json=body, headers=key) as answer:
            assert answer.status == 200
            await answer.content.readuntil(b"response.output_text.delta")
            yield go_on
            if go_on.is_set():
                rest = await answer.content.read()
                assert b"response.completed" in rest


async def until(is_so: Callable[[], bool]) -> None:
    """Lets others run until something is so, and fails if it takes too long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 20
    while not is_so():
        assert loop.time() < until
        await asyncio.sleep(0.005)


async def left(gateway: GatewayUnderTest) -> None:
    """Waits until no place is taken."""
    admission = gateway.gateway.admission
    queues = [*admission._owners.values(), *admission._engines.values()]
    await until(lambda: not any(queue.running or queue.waiting for queue in queues))


# ---- responses at once -----------------------------------------------------------------------------------------------


@every_way_in
async def test_one_response_more_than_a_key_may_run_is_refused(engine: MockEngine, way_in: Any) -> None:
    async with running_gateway(engine, api_key=KEYS, key_responses=1) as gateway:
        async with occupied(gateway, engine, ADA) as go_on:
            status, body, headers = await way_in(gateway, ADA)
            assert (status, body["error"]["code"], body["error"]["type"]) == (429, "rate_limit_exceeded", "rate_limit_error")
            assert int(headers["retry-after"]) >= 1
            assert body["error"]["message"].startswith(
                "This key may run 1 response at once, and no more. Try again when one has"
            )
            status, body, _ = await way_in(gateway, BOB)
            assert status == 200, body
            go_on.set()
        status, body, _ = await way_in(gateway, ADA)
        assert status == 200, body
        await left(gateway)


async def test_without_a_limit_nothing_is_refused_and_no_header_is_sent(gateway: GatewayUnderTest) -> None:
    answers = await asyncio.gather(*(whole(gateway, {}) for _ in range(20)))
    assert {status for status, _, _ in answers} == {200}
    assert not [name for _, _, headers in answers for name in headers if name.startswith("x-ratelimit")]


async def test_without_keys_all_clients_count_together(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway, occupied(gateway, engine, {}):
        assert (await whole(gateway, {}))[0] == 429


async def test_what_was_refused_did_not_reach_the_engine(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway, occupied(gateway, engine, {}):
        await whole(gateway, {})
        assert len(engine.requests) == 1


async def test_a_client_that_disconnects_frees_its_place(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1, engine_requests=1) as gateway:
        async with occupied(gateway, engine, {}):
            pass
        await left(gateway)
        assert (await whole(gateway, {}))[0] == 200


@pytest.mark.parametrize("wrong", [Refusal(500, {"error": {"message": "no"}}), Refusal(400, {"error": {"message": "no"}})])
async def test_a_failure_of_the_engine_frees_the_place(engine: MockEngine, wrong: Refusal) -> None:
    async with running_gateway(engine, key_responses=1, engine_requests=1, retries=0) as gateway:
        for way_in in (whole, streamed, passed_through, compacted, by_websocket):
            engine.will(wrong)
            assert (await way_in(gateway, {}))[0] in (400, 500, 502)
            await left(gateway)


async def test_an_answer_that_is_cut_frees_the_place(engine: MockEngine) -> None:
    async def cut(write: Writer) -> None:
        await write(chunk({"content": "Hel"}))
        await write(CUT)

    async with running_gateway(engine, key_responses=1, engine_requests=1, retries=0) as gateway:
        for way_in in (whole, streamed):
            engine.will(cut)
            await way_in(gateway, {})
            await left(gateway)


async def test_a_request_that_is_wrong_frees_the_place(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1, engine_requests=1) as gateway:
        wrong = ({"input": 5}, {"previous_response_id": "resp_none"}, {"background": True, "store": False})
        for body in wrong:
            status, _, _ = await posted(gateway, "/v1/responses", {}, **({"model": "mock", "input": "Hi"} | body))
            assert status in (400, 404)
            await left(gateway)


async def test_a_shutdown_frees_every_place(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=2, engine_requests=1, shutdown_timeout=0.1) as gateway:
        held, _ = held_back("Hel", "lo")
        engine.will(held)
        requests = [asyncio.create_task(streamed(gateway, {})) for _ in range(2)]
        await engine.asked.wait()
    await left(gateway)
    await asyncio.gather(*requests, return_exceptions=True)


# ---- requests in a minute --------------------------------------------------------------------------------------------


@every_way_in
async def test_one_request_more_than_a_minute_allows_is_refused(engine: MockEngine, way_in: Any) -> None:
    async with running_gateway(engine, api_key=KEYS, key_requests_per_minute=2) as gateway:
        assert [(await way_in(gateway, ADA))[0] for _ in range(2)] == [200, 200]
        status, body, headers = await way_in(gateway, ADA)
        assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
        # The next one is possible when half of the minute has passed since the first.
        assert 1 <= int(headers["retry-after"]) <= 30
        assert f"in {headers['retry-after']} seconds" in body["error"]["message"]
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] == "0"
        assert headers["x-ratelimit-reset-requests"]
        assert (await way_in(gateway, BOB))[0] == 200


async def test_every_answer_says_how_many_requests_remain(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=KEYS, key_requests_per_minute=10) as gateway:
        for way_in, remaining in ((whole, 9), (streamed, 8), (passed_through, 7)):
            _, _, headers = await way_in(gateway, ADA)
            assert headers["x-ratelimit-limit-requests"] == "10"
            assert headers["x-ratelimit-remaining-requests"] == str(remaining)
        async with gateway.client.get(gateway.url + "/v1/models", headers=ADA) as answer:
            assert answer.headers["x-ratelimit-remaining-requests"] == "7"
        async with gateway.client.get(gateway.url + "/v1/models", headers=BOB) as answer:
            assert answer.headers["x-ratelimit-remaining-requests"] == "10"
            assert answer.headers["x-ratelimit-reset-requests"] == "0ms"


async def test_a_background_response_counts_when_it_is_created_and_not_when_it_is_fetched(engine: MockEngine) -> None:
    async with running_gateway(engine, key_requests_per_minute=1) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        assert (await background.ended(id))["status"] == "completed"
        status, body, _ = await posted(gateway, "/v1/responses", {}, model="mock", input="Hi", background=True)
        assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")


async def test_a_websocket_stays_open_after_a_refusal(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway, connected(gateway) as socket:
        async with occupied(gateway, engine, {}) as go_on:
            await socket.send()
            assert (await socket.event())["error"]["code"] == "rate_limit_exceeded"
            go_on.set()
        await socket.create()


# ---- background responses --------------------------------------------------------------------------------------------


async def test_a_background_response_waits_for_its_key(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway:
        background = Background(gateway)
        async with occupied(gateway, engine, {}) as go_on:
            ids = [(await background.create())["id"] for _ in range(2)]
            await gateway.gateway.store.claim("none", 60, 3, [""])
            assert len(engine.requests) == 1
            go_on.set()
        for id in ids:
            assert (await background.ended(id))["status"] == "completed"
        await left(gateway)


async def test_a_key_that_may_run_no_more_does_not_keep_the_workers_from_others(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=KEYS, key_responses=1, background_workers=1) as gateway:
        ada, bob = Background(gateway, headers=ADA), Background(gateway, headers=BOB)
        async with occupied(gateway, engine, ADA) as go_on:
            ids = [(await ada.create())["id"] for _ in range(5)]
            assert (await bob.made())["status"] == "completed"
            assert {(await ada.get(id))["status"] for id in ids} == {"queued"}
            go_on.set()
        for id in ids:
            assert (await ada.ended(id))["status"] == "completed"
        await left(gateway)


async def test_a_body_is_not_read_before_its_key_has_a_place_for_it(engine: MockEngine) -> None:
    wrong = {"model": "mock", "input": 5}
    async with running_gateway(engine, key_responses=1) as gateway, occupied(gateway, engine, {}):
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
            assert (await posted(gateway, path, {}, **wrong))[0] == 429
        # A background response needs no place yet.
        assert (await posted(gateway, "/v1/responses", {}, **wrong, background=True))[0] == 400
        assert (await posted(gateway, "/v1/responses", {}, model="mock", input="Hi", background=True))[0] == 200


async def test_a_client_that_comes_again_when_it_was_asked_to_goes_before_background_responses(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, key_responses=1, background_workers=4) as gateway:
        background = Background(gateway)
        ids = [(await background.create())["id"] for _ in range(3)]
        await turns.begun.acquire()
        status, _, headers = await whole(gateway, {})
        assert (status, int(headers["retry-after"])) == (429, 1)
        queue = gateway.gateway.admission._owner_queue("")
        already_claimed = sum(map(len, queue._waiting.values()))
        for _ in range(already_claimed + 1):
            turns.go_on.release()
        await until(lambda: not queue.running)
        # No further one was begun: the place is free for the client.
        turns.go_on.release()
        assert (await whole(gateway, {}))[0] == 200
        for _ in ids:
            turns.go_on.release()
        for id in ids:
            assert (await background.ended(id))["status"] == "completed"


async def test_a_background_response_that_waits_for_its_key_can_be_cancelled(engine: MockEngine) -> None:
    async with running_gateway(engine, key_responses=1) as gateway:
        background = Background(gateway)
        async with occupied(gateway, engine, {}) as go_on:
            id = (await background.create())["id"]
            assert (await background.cancel(id))["status"] == "cancelled"
            go_on.set()
        await left(gateway)
        assert len(engine.requests) == 1


async def test_a_response_whose_key_is_busy_again_when_it_was_claimed_waits_without_a_worker(
    engine: MockEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_gateway(engine, api_key=KEYS, key_responses=1, background_workers=1) as gateway:
        ada, bob = Background(gateway, headers=ADA), Background(gateway, headers=BOB)
        async with occupied(gateway, engine, ADA) as go_on:
            # As if another response had begun between the look and the claim.
            monkeypatch.setattr(gateway.gateway.admission, "full_owners", set)
            ids = [(await ada.create())["id"] for _ in range(2)]
            for id in ids:
                await ada.seen(id, "in_progress")
            assert (await bob.made())["status"] == "completed"
            assert (await ada.cancel(ids[0]))["status"] == "cancelled"
            assert len(engine.requests) == 2
            go_on.set()
        assert (await ada.ended(ids[1]))["status"] == "completed"
        await left(gateway)


async def test_keys_take_turns_with_the_workers(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=KEYS, background_workers=1) as gateway:
        ada, bob = Background(gateway, headers=ADA), Background(gateway, headers=BOB)
        script, go_on = held_back("Hel", "lo")
        engine.will(script)
        first = (await ada.create("ada 0"))["id"]
        await engine.asked.wait()
        ids = [(await ada.create(f"ada {number}"))["id"] for number in (1, 2, 3)]
        last = (await bob.create("bob 0"))["id"]
        go_on.set()
        for id in (first, *ids):
            await ada.ended(id)
        await bob.ended(last)
        asked = [request["messages"][-1]["content"] for request in engine.requests]
        assert asked == ["ada 0", "bob 0", "ada 1", "ada 2", "ada 3"]


# ---- busy engines ----------------------------------------------------------------------------------------------------


class Turns:
    """Answers that end one by one, and how many of them there were at once."""

    def __init__(self, engine: MockEngine) -> None:
        self.now = self.most = 0
        self.go_on = asyncio.Semaphore(0)
        self.begun = asyncio.Semaphore(0)
        engine.otherwise = lambda body: self

    async def __call__(self, write: Writer) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.release()
        try:
            await self.go_on.acquire()
        finally:
            self.now -= 1
        await write(text("Hello"))


async def waiting(gateway: GatewayUnderTest, number: int) -> None:
    """Waits until so many requests are in the queue of the engine."""
    queue = gateway.gateway.admission.engine_queue(gateway.gateway.pool.engines[0])
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


async def test_one_more_than_may_wait_is_refused(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, engine_requests=1, engine_queue=1) as gateway:
        requests = [asyncio.create_task(whole(gateway, {})) for _ in range(2)]
        await waiting(gateway, 1)
        for way_in in WAYS_IN.values():
            status, body, headers = await way_in(gateway, {})
            assert (status, body["error"]["code"]) == (503, "engine_busy")
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
            assert (status, body["error"]["code"]) == (503, "engine_busy")
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
            await EngineSeat(admission, "bob").take(engine)
        assert f"in about {busy.value.retry_after} s" in busy.value.message
        return busy.value.retry_after

    async with asyncio.TaskGroup() as group:
        seats = [EngineSeat(admission, "bob") for _ in range(5)]
        tasks = [group.create_task(seat.take(engine)) for seat in seats]
        await until(lambda: admission.engine_queue(engine).waiting == 3)
        # Nothing is known yet, so a client may try at once. It takes at least as long as it has taken already.
        assert await wait_said() == 1
        now = 5.0
        assert await wait_said() == 10
        # Three wait before it, two are answered at once, and each takes five seconds.
        seats[0].leave()
        seats[1].leave()
        seats += [EngineSeat(admission, "bob"), EngineSeat(admission, "bob")]
        tasks += [group.create_task(seat.take(engine)) for seat in seats[-2:]]
        await until(lambda: admission.engine_queue(engine).waiting == 3)
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
        seat = EngineSeat(gateway.gateway.admission, "another")
        await seat.take(gateway.gateway.pool.engines[0])
        events = await gateway.stream()
        assert events[-1]["type"] == "response.failed"
        assert "is busy" in events[-1]["response"]["error"]["message"]
        assert [event["type"] for event in events].count("response.in_progress") > 2
        seat.leave()


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
            queues = [gateway.gateway.admission.engine_queue(each) for each in gateway.gateway.pool.engines]
            await until(lambda: sum(queue.waiting for queue in queues) == 1)
            for turn in turns:
                turn.go_on.release()
                turn.go_on.release()
            assert [(await each)[0] for each in (first, second, third)] == [200, 200, 200]
            await left(gateway)


async def test_a_free_engine_is_tried_first_wherever_requests_come_in(engine: MockEngine) -> None:
    async with started(MockEngine()) as other, running_gateway(engine, other, engine_requests=1, queue_timeout=0) as gateway:
        seat = EngineSeat(gateway.gateway.admission, "another")
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
        first, second = EngineSeat(admission, "ada"), EngineSeat(admission, "bob")
        await first.take(only)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await second.take(only)
        first.leave()
        await second.take(only)
        assert admission.is_full(only)
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


# ---- the whole time --------------------------------------------------------------------------------------------------


async def trickle(write: Writer) -> None:
    """An answer that never ends."""
    while True:
        await write(chunk({"content": "x"}))
        await asyncio.sleep(0.005)


async def test_a_stream_that_takes_too_long_fails_and_its_engine_is_stopped(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway:
        engine.will(trickle)
        events = await gateway.stream()
        assert events[-1]["type"] == "response.failed"
        assert "`response_timeout`" in events[-1]["response"]["error"]["message"]
        assert events[-1]["response"]["output"][0]["status"] == "incomplete"
        await engine.cancelled.wait()
        await left(gateway)


@pytest.mark.parametrize("way_in", [whole, compacted, passed_through, counted, streamed])
async def test_an_engine_that_does_not_begin_in_time_is_given_up(engine: MockEngine, way_in: Any) -> None:
    async def silent(write: Writer) -> None:
        await asyncio.Event().wait()

    async with running_gateway(engine, response_timeout=0.3) as gateway:
        engine.will(silent)
        status, body, headers = await way_in(gateway, {})
        assert (status, body["error"]["code"]) == (504, "response_timeout")
        assert headers["x-should-retry"] == "false"
        assert "retry-after" not in headers
        await engine.cancelled.wait()
        await left(gateway)


async def test_a_whole_answer_that_takes_too_long_is_a_504(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=0.3) as gateway:
        engine.will(trickle)
        status, body, _ = await whole(gateway, {})
        assert (status, body["error"]["code"]) == (504, "response_timeout")
        await engine.cancelled.wait()


async def test_a_response_on_a_websocket_that_takes_too_long_fails_and_the_next_one_runs(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway, connected(gateway) as socket:
        engine.will(trickle)
        await socket.send()
        events = [await socket.event()]
        while not events[-1]["type"].endswith(("failed", "completed")):
            events.append(await socket.event())
        check_stream(events)
        assert events[-1]["type"] == "response.failed"
        await socket.create()


async def test_a_stream_that_is_passed_through_is_cut_when_it_takes_too_long(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway:
        engine.will(trickle)
        async with gateway.client.post(gateway.url + "/v1/chat/completions", json=CHAT) as answer:
            assert answer.status == 200
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await engine.cancelled.wait()
        await left(gateway)


async def test_a_background_response_that_takes_too_long_fails(engine: MockEngine) -> None:
    async with running_gateway(engine, response_timeout=1.0) as gateway:
        background = Background(gateway)
        engine.will(trickle)
        response = await background.made()
        assert response["status"] == "failed"
        assert "`response_timeout`" in response["error"]["message"]
        check_stream(await background.follow(response["id"]))
        await engine.cancelled.wait()
        await left(gateway)


async def test_a_client_that_does_not_read_is_left_when_the_time_is_over(engine: MockEngine) -> None:
    async def torrent(write: Writer) -> None:
        while True:
            await write(chunk({"content": "x" * 1000}) * 50)

    async with running_gateway(engine, response_timeout=0.5, heartbeat=0.2, key_responses=1) as gateway:
        engine.will(torrent)
        _, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]), limit=1024)
        body = msgspec.json.encode({"model": "mock", "input": "Hi", "stream": True})
        head = f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await engine.cancelled.wait()
        await left(gateway)
        assert (await whole(gateway, {}))[0] == 200
        writer.transport.abort()


async def test_new_limits_count_without_a_restart(engine: MockEngine) -> None:
    async with running_gateway(engine) as gateway:
        settings = Settings(**(DEFAULTS | {"upstream": (engine.url,), "port": 0}))
        await gateway.reload(structs.replace(settings, key_requests_per_minute=1, max_input_items=1))
        body = {"model": "mock", "input": [{"role": "user", "content": "Hi"}] * 2}
        status, answer = await gateway.post(body)
        assert (status, answer["error"]["param"]) == (400, "input")
        status, answer = await gateway.post(body)
        assert (status, answer["error"]["code"]) == (429, "rate_limit_exceeded")
