"""Background responses wait for their key, and keys take turns with the workers."""

import pytest
from support.background import Background, held_back
from support.engine import MockEngine
from support.gateway import running_gateway
from support.ways_in import ADA, BOB, KEYS, Turns, left, occupied, posted, until, whole

pytestmark = pytest.mark.timeout(60)


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


async def test_only_what_runs_at_once_needs_a_place(engine: MockEngine) -> None:
    right, wrong = {"model": "mock", "input": "Hi"}, {"model": "mock", "input": 5}
    async with running_gateway(engine, key_responses=1) as gateway, occupied(gateway, engine, {}):
        for path in ("/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"):
            assert (await posted(gateway, path, {}, **right))[0] == 429
        # A background response needs no place yet. Which it is, is known when it has been read.
        assert (await posted(gateway, "/v1/responses", {}, **wrong))[0] == 400
        assert (await posted(gateway, "/v1/responses", {}, **wrong, background=True))[0] == 400
        assert (await posted(gateway, "/v1/responses", {}, **right, background=True))[0] == 200


async def test_a_client_that_comes_again_when_it_was_asked_to_goes_before_background_responses(engine: MockEngine) -> None:
    turns = Turns(engine)
    async with running_gateway(engine, key_responses=1, background_workers=4) as gateway:
        background = Background(gateway)
        ids = [(await background.create())["id"] for _ in range(3)]
        await turns.begun.acquire()
        status, _, headers = await whole(gateway, {})
        assert (status, int(headers["retry-after"])) == (429, 1)
        queue = gateway.gateway.admission.owners._queues[""]
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
            monkeypatch.setattr(gateway.gateway.admission.owners, "full_owners", set)
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
