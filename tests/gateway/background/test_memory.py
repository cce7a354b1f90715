"""A long answer takes a few times its own size, however many clients follow it, and however slowly they read."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.background import Background
from support.engine import DONE, USAGE, MockEngine, Script, Writer, chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.streams import parse

from antiphon.gateway.background.followers import PART_BYTES, follow
from antiphon.gateway.background.journal import LARGEST_WRITE
from antiphon.store.records import PAGE_BYTES, Progress

pytestmark = pytest.mark.timeout(120)

PIECE = "0123456789" * 10
PIECES = 20_000
ANSWER = len(PIECE) * PIECES
# The most memory that an answer takes, in times of its size, without that of the database: its text, and the pieces that it is
# joined from.
MOST = 5


def long_answer(pieces: int = PIECES) -> Script:
    async def script(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}))
        some = chunk({"content": PIECE}) * 100
        for _ in range(pieces // 100):
            await write(some)
        await write(chunk(finish="stop") + USAGE + DONE)

    return script


@contextmanager
def measured() -> Iterator[list[int]]:
    """Appends the most bytes that were in use at once in the block, beyond those before it."""
    peak: list[int] = []
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


async def test_a_long_background_answer_takes_a_few_times_its_size(engine: MockEngine, tmp_path: Path) -> None:
    # What the inspector keeps has a limit of its own.
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}", inspector=False) as gateway:
        background = Background(gateway)
        await background.made()
        engine.will(long_answer())
        with measured() as peak:
            id = (await background.create())["id"]
            await ended(gateway, id)
        assert peak[0] / ANSWER < MOST
        final = await background.get(id)
    assert final["output"][0]["content"][0]["text"] == PIECE * PIECES


async def ended(gateway: GatewayUnderTest, id: str) -> None:
    """Without reading the response."""
    store = gateway.gateway.store
    with store.follow(id) as wakeup:
        while (progress := await store.events("", id, 2**52)) is not None and progress.status in ("queued", "in_progress"):
            await wakeup.wait()


async def test_a_follower_that_does_not_read_keeps_one_page(engine: MockEngine, tmp_path: Path) -> None:
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}") as gateway:
        engine.will(long_answer())
        id = (await Background(gateway).create())["id"]
        await ended(gateway, id)
        record = await gateway.gateway.store.get("", id)
        assert record is not None
        with measured() as peak:
            followers = [follow(gateway.gateway.store, record, -1, 15) for _ in range(10)]
            first = [len(await anext(follower)) for follower in followers]
        assert all(size <= PAGE_BYTES + LARGEST_WRITE for size in first)
        assert peak[0] < 10 * 4 * PAGE_BYTES
        for follower in followers:
            await follower.aclose()


async def test_a_follower_that_stops_inside_a_long_event_keeps_a_part_of_it(engine: MockEngine, tmp_path: Path) -> None:
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}") as gateway:
        engine.will(long_answer())
        id = (await Background(gateway).create())["id"]
        await ended(gateway, id)
        record = await gateway.gateway.store.get("", id, output=False)
        assert record is not None
        with measured() as peak:
            followers = [follow(gateway.gateway.store, record, PIECES, 15) for _ in range(10)]
            for follower in followers:
                while len(part := await anext(follower)) < PART_BYTES:
                    pass
                assert part.startswith(b"event: response.output_text.done")
        # Each event at the end has all of the text.
        assert peak[0] < 10 * 2 * PART_BYTES < 10 * ANSWER
        for follower in followers:
            await follower.aclose()


async def test_a_client_that_reads_slowly_gets_every_event(engine: MockEngine, tmp_path: Path) -> None:
    async with running_gateway(engine, store=f"sqlite:{tmp_path / 'responses.db'}") as gateway:
        engine.will(long_answer(2000))
        id = (await Background(gateway).create())["id"]
        url = f"{gateway.url}/v1/responses/{id}?stream=true"
        async with aiohttp.ClientSession(read_bufsize=1024) as client, client.get(url) as answer:
            await ended(gateway, id)
            events = parse(await answer.read())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert "".join(event["delta"] for event in events if "delta" in event) == PIECE * 2000
    assert events[-1]["type"] == "response.completed"


class PagesOf:
    """A store that counts how much is read of it at once."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read: list[int] = []

    async def events(self, *place: Any, **options: Any) -> Progress | None:
        progress: Progress | None = await self._store.events(*place, **options)
        if progress is not None:
            self.read.append(sum(len(event.data) for event in progress.events))
        return progress

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_running_response_is_read_page_by_page(engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def script(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": PIECE}) * 10_000)
        await go_on.wait()
        await write(chunk(finish="stop") + USAGE + DONE)

    engine.will(script)
    async with running_gateway(engine) as gateway:
        background = Background(gateway)
        id = (await background.create())["id"]
        with gateway.gateway.store.follow(id) as wakeup:
            while len(text_of(await background.get(id))) < 10_000 * len(PIECE):
                await wakeup.wait()
        pages = PagesOf(gateway.gateway.store)
        gateway.gateway.store = pages
        assert text_of(await background.get(id)) == PIECE * 10_000
        assert len(pages.read) > 5
        assert max(pages.read) <= PAGE_BYTES
        gateway.gateway.store = pages._store
        go_on.set()
        await background.ended(id)


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])
