"""A background response is followed from any event on, by any number of clients of its owner."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from support.background import Background, held_back
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway
from support.raw_client import RawClient, dialled
from support.stores import interposed
from support.streams import BEGINNING, check_stream, parse

from antiphon.core.events.encode import STILL_HERE
from antiphon.errors import StoreUnavailable
from antiphon.store.records import Event
from antiphon.store.sql.background import PAGE_ROWS

Events = list[dict[str, Any]]


@pytest.fixture
def background(gateway: GatewayUnderTest) -> Background:
    return Background(gateway)


def numbers(events: Events) -> list[int]:
    return [event["sequence_number"] for event in events]


@asynccontextmanager
async def opened(gateway: GatewayUnderTest, path: str = "/v1/responses", **body: Any) -> AsyncIterator[aiohttp.StreamReader]:
    """A stream that is read piece by piece. The connection is closed at the end."""
    async with aiohttp.ClientSession() as client:
        request = client.post(gateway.url + path, json=body) if body else client.get(gateway.url + path)
        async with request as answer:
            assert answer.status == 200
            yield answer.content


async def next_event(content: aiohttp.StreamReader) -> dict[str, Any]:
    while (frame := await content.readuntil(b"\n\n")) == STILL_HERE:
        pass
    return parse(frame, done=False)[0]


async def test_a_streamed_background_response_is_followed_at_once(gateway: GatewayUnderTest, background: Background) -> None:
    events = await gateway.stream("Hi", background=True)
    assert [event["type"] for event in events[:3]] == BEGINNING
    assert [event["response"]["status"] for event in events[:3]] == ["queued", "queued", "in_progress"]
    final = events[-1]["response"]
    assert final["output"][0]["content"][0]["text"] == "Hello world"
    assert await background.get(final["id"]) == final
    assert await background.follow(final["id"]) == events


@pytest.mark.parametrize("beyond", [0, 1, 1000, 10**15])
async def test_after_the_last_event_the_stream_ends_at_once(background: Background, beyond: int) -> None:
    response = await background.made()
    events = await background.follow(response["id"])
    assert await background.follow(response["id"], after=events[-1]["sequence_number"] + beyond) == []


@pytest.mark.parametrize("after", [2, 1000])
async def test_after_the_end_of_a_response_that_was_never_begun_the_stream_ends_at_once(engine: MockEngine, after: int) -> None:
    async with running_gateway(engine, background_workers=0) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        await background.cancel(id)
        assert numbers(await background.follow(id, after=1)) == [2]
        assert await background.follow(id, after=after) == []


async def test_a_follower_of_events_that_will_never_come_waits_for_the_end(background: Background, engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]
    await engine.asked.wait()
    following = asyncio.create_task(background.follow(id, after=1000))
    await background.seen(id, "in_progress")
    assert not following.done()
    go_on.set()
    assert await following == []


async def test_a_follower_of_a_queued_response_gets_its_status(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=0) as gateway:
        async with opened(gateway, input="Hi", background=True, stream=True) as content:
            first = [await next_event(content), await next_event(content)]
        assert [(event["type"], event["sequence_number"]) for event in first] == [
            ("response.created", 0),
            ("response.queued", 1),
        ]
        assert {event["response"]["status"] for event in first} == {"queued"}


async def test_a_client_that_reconnects_gets_the_events_that_it_missed(
    gateway: GatewayUnderTest, background: Background, engine: MockEngine
) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with opened(gateway, input="Hi", background=True, stream=True) as content:
        seen = [await next_event(content)]
        while seen[-1]["type"] != "response.output_text.delta":
            seen.append(await next_event(content))
    go_on.set()
    rest = await background.follow(seen[0]["response"]["id"], seen[-1]["sequence_number"])
    assert check_stream(seen + rest)["status"] == "completed"
    assert not engine.cancelled.is_set()


async def test_a_response_can_be_followed_from_any_event_on(background: Background) -> None:
    id = (await background.made())["id"]
    events = await background.follow(id)
    check_stream(events)
    for after in numbers(events):
        assert await background.follow(id, after) == events[after + 1 :]


async def test_all_followers_get_the_same_events(background: Background, engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]
    early = [asyncio.create_task(background.follow(id)) for _ in range(3)]
    await engine.asked.wait()
    late = [asyncio.create_task(background.follow(id, after)) for after in (0, 1, 4)]
    go_on.set()
    events, *others = await asyncio.gather(*early, *late)
    check_stream(events)
    assert others == [events, events, events[1:], events[2:], events[5:]]
    assert len(engine.requests) == 1


async def test_a_long_answer_is_followed_completely(background: Background, engine: MockEngine) -> None:
    pieces = [f"{number} " * 50 for number in range(3000)]
    engine.will(text(*pieces))
    response = check_stream(await background.gateway.stream("Count", background=True))
    assert response["output"][0]["content"][0]["text"] == "".join(pieces)


@pytest.mark.parametrize("streams", [True, False])
async def test_followers_get_the_text_as_it_comes_whether_or_not_the_request_streams(
    gateway: GatewayUnderTest, background: Background, engine: MockEngine, streams: bool
) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    if streams:
        path, body = "/v1/responses", {"input": "Hi", "background": True, "stream": True}
    else:
        path, body = f"/v1/responses/{(await background.create())['id']}?stream=true", {}
    async with opened(gateway, path, **body) as content:
        seen = [await next_event(content)]
        while seen[-1]["type"] != "response.output_text.delta":
            seen.append(await next_event(content))
        assert seen[-1]["delta"] == "Hel"
        go_on.set()
        seen += parse(await content.read())
    assert check_stream(seen)["output"][0]["content"][0]["text"] == "Hello"


async def test_followers_of_a_silent_engine_get_heartbeats_that_are_not_stored(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with (
        running_gateway(engine, heartbeat=0.05, poll=0.02) as gateway,
        opened(gateway, input="Hi", background=True, stream=True) as content,
    ):
        frames = [await content.readuntil(b"\n\n")]
        while frames.count(STILL_HERE) < 3:
            frames.append(await content.readuntil(b"\n\n"))
        go_on.set()
        seen = [parse(frame, done=False)[0] for frame in frames if frame != STILL_HERE]
        while seen[-1]["type"] != "response.completed":
            seen.append(await next_event(content))
        check_stream(seen)
        assert [event["type"] for event in seen].count("response.in_progress") == 1


async def test_followers_of_a_queued_response_get_heartbeats(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=0, heartbeat=0.05, poll=0.02) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        async with opened(gateway, f"/v1/responses/{id}?stream=true&starting_after=1") as content:
            assert await content.readuntil(b"\n\n") == STILL_HERE


# ---- a store that fails on the way -----------------------------------------------------------------------------------


async def until_first_word(client: RawClient, path: str, version: str = "1.1") -> bytes:
    """The head of the answer, and the first events."""
    await client.send(f"GET {path} HTTP/{version}\r\nHost: localhost\r\n\r\n".encode())
    return await client.reader.readuntil(b'"delta":"Hel"')


@pytest.mark.usefixtures("both_transports")
async def test_a_store_that_fails_ends_the_connection_and_the_client_can_come_back(
    background: Background, engine: MockEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    id = (await background.create())["id"]

    async def fail(*_: object) -> None:
        raise StoreUnavailable

    async with dialled(background.gateway) as client:
        seen = await until_first_word(client, f"/v1/responses/{id}?stream=true")
        with monkeypatch.context() as broken:
            broken.setattr(background.gateway.gateway.store, "events", fail)
            go_on.set()
            seen += await client.rest()
    # One answer, whose body has no end.
    assert seen.count(b"HTTP/1.1") == 1
    assert not seen.endswith(b"0\r\n\r\n")
    assert b"store_unavailable" not in seen
    assert "bug" not in caplog.text
    await background.ended(id)
    events = await background.follow(id)
    last = next(event["sequence_number"] for event in events if event["type"] == "response.output_text.delta")
    assert await background.follow(id, after=last) == events[last + 1 :]
    check_stream(events)


async def test_without_chunks_a_stream_that_fails_is_reset(engine: MockEngine) -> None:
    """Of such a body the close would be the end, and half of it would be taken for all."""
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    store, interference = interposed()

    async def fail(*_: object) -> None:
        raise StoreUnavailable

    async with running_gateway(engine, shares=store) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        async with dialled(gateway) as client:
            await until_first_word(client, f"/v1/responses/{id}?stream=true", version="1.0")
            interference.instead["events"] = fail
            go_on.set()
            with pytest.raises(ConnectionResetError):
                await client.rest()
        interference.instead.clear()
        await background.ended(id)


# ---- what cannot be followed -----------------------------------------------------------------------------------------


async def test_only_a_background_response_can_be_followed(gateway: GatewayUnderTest) -> None:
    id = (await gateway.create("Hi"))["id"]
    status, body = await gateway.get(f"/v1/responses/{id}?stream=true")
    assert (status, body["error"]["param"]) == (400, "stream")


@pytest.mark.parametrize("after", ["-1", "many", "1.5", "99999999999999999999", str(2**53 + 1), str(10**30)])
async def test_an_invalid_starting_after_is_rejected(background: Background, after: str) -> None:
    id = (await background.made())["id"]
    status, body = await background.gateway.get(f"/v1/responses/{id}?stream=true&starting_after={after}")
    assert (status, body["error"]["param"]) == (400, "starting_after")


async def test_another_owner_gets_a_404(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    ada, bob = ({"headers": {"Authorization": f"Bearer {key}"}} for key in ("ada", "bob"))
    async with running_gateway(engine, api_key=("ada", "bob")) as gateway:
        background = Background(gateway, **ada)
        id = (await background.create())["id"]
        await engine.asked.wait()
        for method, path in [("GET", ""), ("GET", "?stream=true"), ("DELETE", ""), ("POST", "/cancel")]:
            status, _ = await gateway.get(f"/v1/responses/{id}{path}", method=method, **bob)
            assert status == 404
        go_on.set()
        assert (await background.ended(id))["status"] == "completed"
        check_stream(await background.follow(id))


# ---- another attempt -------------------------------------------------------------------------------------------------

LAST = 39


@asynccontextmanager
async def taken_over(engine: MockEngine) -> AsyncIterator[tuple[Background, str, Events]]:
    """A response, and the events of its follower, which had those up to LAST of a first attempt whose worker died."""
    async with running_gateway(engine, background_workers=0) as idle:
        store = idle.gateway.store
        async with opened(idle, input="Hi", background=True, stream=True) as content:
            seen = [await next_event(content), await next_event(content)]
            id = seen[0]["response"]["id"]
            job = await store.claim("dead", 0, 9)
            assert job is not None
            sent = [Event(at, b'event: x\ndata: {"type":"x","sequence_number":%d}\n\n' % at) for at in range(LAST + 1)]
            assert await store.append_events(id, "dead", job.attempt, sent)
            seen += [await next_event(content) for _ in sent[2:]]
            # Another gateway takes it over.
            async with running_gateway(engine, shares=store):
                seen += parse(await content.read())
        background = Background(idle)
        yield background, id, seen


async def test_a_follower_that_is_ahead_of_the_new_attempt_gets_its_terminal_event_with_the_next_number(
    engine: MockEngine,
) -> None:
    async with taken_over(engine) as (background, id, seen):
        assert numbers(seen) == list(range(LAST + 2))
        assert [event["type"] for event in seen if event["type"] != "x"] == [*BEGINNING[:2], "response.completed"]
        assert seen[-1]["response"] == await background.get(id)
        check_stream(whole := await background.follow(id))
        # It is unknown whether a client that comes back has seen the end of the last attempt.
        for after in (len(whole) - 1, LAST, LAST + 1):
            again = await background.follow(id, after)
            assert [(event["type"], event["sequence_number"]) for event in again] == [("response.completed", after + 1)]


async def test_a_follower_that_is_behind_the_new_attempt_continues_with_its_events(engine: MockEngine) -> None:
    engine.will(text(*"abcdefghij" * 10))
    async with taken_over(engine) as (background, id, seen):
        check_stream(whole := await background.follow(id))
        assert len(whole) > LAST + 20
        assert seen[LAST + 1 :] == whole[LAST + 1 :]


async def test_a_follower_of_a_later_attempt_gets_one_end_though_its_events_fill_a_page(
    engine: MockEngine, tmp_path: Path
) -> None:
    kept = f"sqlite:{tmp_path / 'responses.db'}"
    async with running_gateway(engine, store=kept, background_workers=0) as gateway:
        background, store = Background(gateway), gateway.gateway.store
        id = (await background.create())["id"]
        assert await store.claim("dead", 0, 9) is not None
        job = await store.claim("worker", 60, 9)
        assert job is not None
        frame = b'event: %s\ndata: {"type":"%s","sequence_number":%d}\n\n'
        for number in range(PAGE_ROWS - 1):
            assert await store.append_events(id, "worker", job.attempt, [Event(number, frame % (b"x", b"x", number))])
        last = Event(PAGE_ROWS - 1, frame % (b"response.completed", b"response.completed", PAGE_ROWS - 1))
        assert await store.finish(structs.replace(job.record, status="completed"), "worker", job.attempt, [last])
        assert numbers(await background.follow(id)) == list(range(PAGE_ROWS))
