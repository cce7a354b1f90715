"""A background response with long texts: whole to whoever reads it, in whichever way."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.background import Background
from support.engine import DONE, USAGE, MockEngine, Script, Writer, chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.postgres import PostgresServer
from support.streams import check_stream

from antiphon.errors import NotFound
from antiphon.gateway.background.followers import PART_BYTES, follow
from antiphon.store.records import LONGEST_EVENT

pytestmark = pytest.mark.timeout(60)

# Every event that has it is read in several parts.
TEXT = 'a "long" text: é漢😀\n' * (4 * LONGEST_EVENT // 23)
THOUGHT = "Let me think. " * (2 * LONGEST_EVENT // 14)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database()
    return f"sqlite:{tmp_path / 'responses.db'}" if request.param == "sqlite" else "memory:"


def in_pieces(member: str, text: str) -> bytes:
    return b"".join(chunk({member: text[start : start + 10_000]}) for start in range(0, len(text), 10_000))


def long_answer(go_on: asyncio.Event | None = None) -> Script:
    async def script(write: Writer) -> None:
        await write(in_pieces("reasoning_content", THOUGHT) + chunk({"content": "Well: "}))
        if go_on is not None:
            await go_on.wait()
        await write(in_pieces("content", TEXT) + chunk(finish="stop") + USAGE + DONE)

    return script


def texts(response: dict[str, Any]) -> list[str]:
    return [part["text"] for item in response["output"] for part in item["content"]]


async def test_a_long_answer_is_followed_and_fetched(engine: MockEngine, store: str) -> None:
    engine.will(long_answer())
    async with running_gateway(engine, store=store) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        events = await background.follow(id)
        check_stream(events)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert texts(events[-1]["response"]) == [THOUGHT, "Well: " + TEXT]
        assert await background.get(id) == events[-1]["response"]
        # From any event on, also between the long ones.
        assert await background.follow(id, after=events[-3]["sequence_number"]) == events[-2:]


async def test_a_running_response_shows_what_is_long_so_far(engine: MockEngine, store: str) -> None:
    go_on = asyncio.Event()
    engine.will(long_answer(go_on))
    async with running_gateway(engine, store=store) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        with gateway.gateway.store.follow(id) as wakeup:
            while len(texts(response := await background.get(id))) < 2 or not texts(response)[1]:
                await wakeup.wait()
        assert texts(response) == [THOUGHT, "Well: "]
        assert response["status"] == "in_progress"
        go_on.set()
        assert texts(await background.ended(id)) == [THOUGHT, "Well: " + TEXT]


async def test_a_long_answer_has_the_length_of_its_body(engine: MockEngine, gateway: GatewayUnderTest) -> None:
    engine.will(long_answer())
    response = await gateway.create()
    assert texts(response) == [THOUGHT, "Well: " + TEXT]
    status, fetched = await gateway.get(f"/v1/responses/{response['id']}")
    assert (status, fetched) == (200, response)
    assert gateway.headers["Content-Type"] == "application/json"
    assert int(gateway.headers["Content-Length"]) > 2 * len(TEXT)


async def test_the_reasoning_in_long_events_is_sealed_if_that_is_asked_for(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(long_answer())
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}") as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        await background.ended(id)
        sealing = Background(gateway, params={"stream": "true", "include[]": "reasoning.encrypted_content"})
        url = f"{gateway.url}/v1/responses/{id}"
        async with gateway.client.get(url, **sealing._options) as answer:
            body = await answer.read()
    assert body.count(b'"encrypted_content":') == 2


async def test_an_event_that_is_deleted_while_it_is_sent_ends_the_stream(engine: MockEngine, tmp_path: Path) -> None:
    """Half of it is of no use, and nothing else may follow it."""
    engine.will(long_answer())
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}") as gateway:
        store = gateway.gateway.store
        id = (await Background(gateway).made())["id"]
        record = await store.get("", id)
        assert record is not None
        frames = follow(store, record, -1, 15)
        while len(await anext(frames)) < PART_BYTES:
            pass
        assert await store.delete("", id)
        with pytest.raises(NotFound):
            await anext(frames)
