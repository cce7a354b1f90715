"""Leases and attempts: a background response survives the death of its worker, outages of its store, and its gateway."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.background import Background, held_back
from support.engine import MockEngine
from support.gateway import running_gateway
from support.stores import Clock, interposed
from support.streams import TERMINAL, check_stream

from antiphon.errors import StoreUnavailable
from antiphon.gateway.background.followers import ended
from antiphon.store import Store, open_store
from antiphon.store.records import Event
from bench.processes import free_port


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    # The gateway says when a response expires, by its own clock.
    clock.now = time.time()
    return clock


@pytest_asyncio.fixture
async def store(clock: Clock) -> AsyncIterator[Store]:
    async with open_store("memory:", clock) as opened:
        yield opened


async def die_with(store: Store, times: int) -> None:
    """Claims the next job so many times, as workers would that died each time."""
    for _ in range(times):
        assert await store.claim("dead", 0, 9) is not None


async def test_a_worker_that_lost_its_lease_gives_up_at_once(engine: MockEngine, store: Store, clock: Clock) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    # Two seconds, of the store's clock: it is renewed in time only because that clock stands still.
    async with running_gateway(engine, shares=store, background_lease=2.0) as gateway:
        background = Background(gateway)
        _, conversation = await gateway.post({}, "/v1/conversations")
        id = (await background.create("Hi", conversation=conversation["id"]))["id"]
        await engine.asked.wait()
        clock.forward(2)
        job = await store.claim("another", 60, 3)
        assert job is not None
        assert (job.record.id, job.attempt) == (id, 2)
        await engine.cancelled.wait()
        sent = [Event(0, b'event: x\ndata: {"type":"x","sequence_number":0}\n\n')]
        # The conversation stays locked: the lock belongs to the new attempt, which has the same id.
        assert not await store.lock_conversation("", conversation["id"], "resp_other", 60)
        assert await store.append_events(id, "another", 2, sent)
        progress = await store.events("", id)
        assert progress is not None
        assert (progress.status, progress.events) == ("in_progress", sent)


async def test_a_response_of_a_dead_worker_is_run_again(engine: MockEngine, store: Store) -> None:
    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        id = (await background.create())["id"]
        await die_with(store, 2)
        async with running_gateway(engine, shares=store):
            assert (await background.ended(id))["status"] == "completed"
        check_stream(await background.follow(id))


@pytest.mark.parametrize(("attempts", "times"), [(1, "1 time"), (2, "2 times")])
async def test_a_response_that_was_begun_too_often_fails_with_the_reason(
    engine: MockEngine, store: Store, attempts: int, times: str
) -> None:
    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        id = (await background.create())["id"]
        await die_with(store, attempts)
        async with running_gateway(engine, shares=store, background_attempts=attempts):
            response = await background.ended(id)
        assert response["status"] == "failed"
        assert response["error"]["message"] == f"The response was begun {times}, and each time its gateway died."
        assert check_stream(await background.follow(id)) == response
    assert engine.requests == []


async def test_a_cancellation_that_a_dead_worker_left_is_done_by_another(engine: MockEngine, store: Store) -> None:
    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        id = (await background.create())["id"]
        await die_with(store, 1)
        assert await store.cancel("", id) == "asked"
        async with running_gateway(engine, shares=store):
            assert (await background.ended(id))["status"] == "cancelled"
        assert check_stream(await background.follow(id))["status"] == "cancelled"
    assert engine.requests == []


@pytest.mark.parametrize("operation", ["chain", "append_events", "finish"])
async def test_a_short_outage_of_the_store_loses_nothing(engine: MockEngine, store: Store, operation: str) -> None:
    script, go_on = held_back("Hel", "lo")
    works, failed = getattr(store, operation), asyncio.Event()
    failing, interference = interposed(store)

    async def away(*work: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise StoreUnavailable
        return await works(*work)

    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        first = await idle.create("Hi")
        id = (await background.create(previous_response_id=first["id"]))["id"]
        interference.instead[operation] = away
        engine.will(script)
        async with running_gateway(engine, shares=failing):
            if operation != "finish":
                await failed.wait()
            go_on.set()
            assert (await background.ended(id))["status"] == "completed"
        assert failed.is_set()
        check_stream(await background.follow(id))


# ---- damaged requests ------------------------------------------------------------------------------------------------

REQUEST = "UPDATE jobs SET request = ? WHERE id = ?"
INPUT = "UPDATE responses SET input = ? WHERE id = ?"
SETTINGS = "UPDATE responses SET settings = ? WHERE id = ?"


def damage(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(statement, values).rowcount == 1
        connection.commit()


@pytest.mark.parametrize(
    ("statement", "damaged"),
    [(REQUEST, b'{"input": "H'), (REQUEST, b'{"input": "Hi", "stop": {}}'), (INPUT, b'[{"id": "msg_1')],
    ids=["no JSON", "a field of another shape", "input that is cut off"],
)
async def test_a_request_that_cannot_be_read_fails_and_others_continue(
    engine: MockEngine, tmp_path: Path, statement: str, damaged: bytes
) -> None:
    path = tmp_path / "responses.db"
    async with running_gateway(engine, store=f"sqlite:{path}", poll=0.02, background_workers=0) as idle:
        background = Background(idle)
        id, other = [(await background.create())["id"] for _ in range(2)]
        damage(path, statement, damaged, id)
        async with running_gateway(engine, store=f"sqlite:{path}", background_workers=1):
            assert (await background.ended(other))["status"] == "completed"
        response = await background.get(id)
        assert response["status"] == "failed"
        assert response["error"]["message"].startswith("The stored request cannot be read: ")
        assert check_stream(await background.follow(id)) == response
        progress = await idle.gateway.store.events("", id)
        assert progress is not None
        assert progress.attempt == 1
    assert len(engine.requests) == 1


async def test_a_response_that_was_accepted_runs_though_the_limits_are_lower_now(engine: MockEngine, store: Store) -> None:
    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        deep: Any = [[[[[["x"]]]]]]
        content = [{"type": "input_text", "text": "Hi", "unknown": deep}]
        id = (await background.create([{"role": "user", "content": content}] * 5))["id"]
        async with running_gateway(engine, shares=store, max_input_items=2, max_nesting=4):
            assert (await background.ended(id))["status"] == "completed"


async def test_a_response_with_unreadable_settings_can_be_failed(engine: MockEngine, tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    async with running_gateway(engine, store=f"sqlite:{path}", poll=0.02, background_workers=0) as idle:
        background = Background(idle)
        id, other = [(await background.create())["id"] for _ in range(2)]
        await die_with(idle.gateway.store, 1)
        damage(path, SETTINGS, b"", id)
        async with running_gateway(engine, store=f"sqlite:{path}", background_workers=1, background_attempts=1):
            assert (await background.ended(other))["status"] == "completed"
            ended_as = await ended(idle.gateway.store, "", id, 10)
            assert ended_as is not None
            assert ended_as.status == "failed"
        response = await background.get(id)
        assert (response["status"], response["background"], response["model"]) == ("failed", True, "mock")
        assert check_stream(await background.follow(id)) == response


async def test_a_request_that_cannot_be_read_can_be_cancelled(engine: MockEngine, store: Store) -> None:
    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        id = (await background.create())["id"]
        record = await store.get("", id)
        assert record is not None
        assert await store.delete("", id)
        await store.enqueue(record, b'{"input": "H')
        await die_with(store, 1)
        assert await store.cancel("", id) == "asked"
        async with running_gateway(engine, shares=store):
            assert (await background.ended(id))["status"] == "cancelled"


async def test_a_response_that_failed_before_it_was_begun_keeps_its_input(store: Store) -> None:
    async with running_gateway(f"http://127.0.0.1:{free_port()}", shares=store, background_patience=0.1) as gateway:
        response = await Background(gateway).made("Hi")
        assert response["status"] == "failed"
        _, items = await gateway.get(f"/v1/responses/{response['id']}/input_items")
        assert [item["content"] for item in items["data"]] == [[{"type": "input_text", "text": "Hi"}]]


# ---- shutting down ---------------------------------------------------------------------------------------------------


async def test_a_gateway_that_stops_lets_a_running_response_finish(engine: MockEngine, store: Store) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, shares=store) as gateway:
        id = (await Background(gateway).create())["id"]
        await engine.asked.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
    record = await store.get("", id)
    assert record is not None
    assert record.status == "completed"


async def test_a_gateway_that_stops_gives_back_a_response_that_takes_too_long(engine: MockEngine, tmp_path: Path) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    kept = f"sqlite:{tmp_path / 'responses.db'}"
    async with running_gateway(engine, store=kept, shutdown_timeout=0.05) as gateway:
        id = (await Background(gateway).create())["id"]
        await engine.asked.wait()
    assert engine.cancelled.is_set()
    # A lease that was not given back would last for half a minute.
    async with running_gateway(engine, store=kept) as gateway, asyncio.timeout(10):
        background = Background(gateway)
        assert (await background.ended(id))["status"] == "completed"
        check_stream(await background.follow(id))


async def test_giving_a_response_back_uses_up_no_attempt(engine: MockEngine, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "store": f"sqlite:{tmp_path / 'responses.db'}",
        "background_attempts": 1,
        "shutdown_timeout": 0.05,
    }
    engine.will(*(held_back("Hel", "lo")[0] for _ in range(3)))
    async with running_gateway(engine, **settings) as gateway:
        id = (await Background(gateway).create())["id"]
        await engine.asked.wait()
    for times in (2, 3):
        engine.asked.clear()
        async with running_gateway(engine, **settings) as gateway:
            await engine.asked.wait()
        assert len(engine.requests) == times
    async with running_gateway(engine, **settings) as gateway:
        assert (await Background(gateway).ended(id))["status"] == "completed"
        progress = await gateway.gateway.store.events("", id)
        assert progress is not None
        assert progress.attempt == 4


async def test_a_follower_of_a_response_that_is_given_back_gets_one_terminal_event(engine: MockEngine, tmp_path: Path) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    kept = f"sqlite:{tmp_path / 'responses.db'}"
    async with running_gateway(engine, store=kept, poll=0.02, background_workers=0) as idle:
        background = Background(idle)
        id = (await background.create())["id"]
        async with running_gateway(engine, store=kept, shutdown_timeout=0.05):
            await engine.asked.wait()
            following = asyncio.create_task(background.follow(id))
        assert (await background.get(id))["status"] == "queued"
        async with running_gateway(engine, store=kept):
            events = await following
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert [event["type"] in TERMINAL for event in events].count(True) == 1
        assert events[-1]["response"] == await background.get(id)
        assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello world"


async def test_a_gateway_that_stops_fails_a_response_that_no_other_can_take_over(engine: MockEngine, store: Store) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, shares=store, background_workers=0) as idle:
        async with running_gateway(engine, shares=store, shutdown_timeout=0.05) as gateway:
            id = (await Background(gateway).create())["id"]
            await engine.asked.wait()
        response = await Background(idle).get(id)
        assert response["status"] == "failed"
        assert response["error"]["message"] == "The gateway is shutting down."
        check_stream(await Background(idle).follow(id))
