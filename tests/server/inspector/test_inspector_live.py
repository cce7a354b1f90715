"""Rows are shown as they change."""

import asyncio
from typing import Any

import aiohttp
import msgspec
import pytest
from support.background import held_back
from support.engine import MockEngine
from support.gateway import running_gateway
from support.inspector import KEYS, bearing, settings_of


class Watching:
    """Reads the rows of a live stream."""

    def __init__(self, answered: aiohttp.ClientResponse) -> None:
        self._answered = answered

    async def next(self) -> dict[str, Any]:
        while True:
            frame = await self._answered.content.readuntil(b"\n\n")
            if frame.startswith(b"event: row\ndata: "):
                row: dict[str, Any] = msgspec.json.decode(frame.partition(b"data: ")[2])
                return row

    async def until(self, status: str) -> dict[str, Any]:
        while (row := await self.next())["status"] != status:
            pass
        return row


async def test_rows_are_shown_live_to_their_end(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine) as gateway, gateway.client.get(f"{gateway.url}/inspector/live") as answered:
        assert answered.content_type == "text/event-stream"
        viewer = Watching(answered)
        asking = asyncio.create_task(gateway.create("Hi"))
        row = await viewer.next()
        assert (row["number"], row["status"]) == (1, "running")
        go_on.set()
        response = await asking
        row = await viewer.until("completed")
        assert (row["id"], row["output_tokens"]) == (response["id"], 5)


async def test_a_viewer_sees_only_what_its_key_may_see(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, **KEYS) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live", **bearing("ann")) as answered,
    ):
        viewer = Watching(answered)
        for name in ("bob", "ann"):
            await gateway.post({"model": "mock", "input": "Hi"}, **bearing(name))
        assert (await viewer.until("completed"))["owner"] == "ann"


@pytest.mark.parametrize("name", ["ann", "admin"])
async def test_a_key_that_was_removed_watches_no_longer(engine: MockEngine, name: str) -> None:
    async with (
        running_gateway(engine, **KEYS) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live", **bearing(name)) as answered,
        asyncio.timeout(10),
    ):
        await answered.content.readuntil(b"\n\n")
        left = {"keys": {"ann": ("another-key",), "bob": ("key-of-bob", "key-of-ann-now")}, "admin_key": ("another-admin-key",)}
        await gateway.reload(settings_of(engine, **left))
        for key in ("another-key", "key-of-bob"):
            await gateway.post({"model": "mock", "input": "Hi"}, headers={"Authorization": f"Bearer {key}"})
        rest = await answered.content.read()
    assert b"event: row" not in rest


async def test_who_watches_without_a_key_stops_when_keys_are_set(engine: MockEngine) -> None:
    async with (
        running_gateway(engine) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live") as answered,
        asyncio.timeout(10),
    ):
        await answered.content.readuntil(b"\n\n")
        await gateway.reload(settings_of(engine, **KEYS))
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ann"))
        rest = await answered.content.read()
    assert b"event: row" not in rest


async def test_a_key_that_gets_a_name_goes_on_watching(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, api_key=("key-of-ann",)) as gateway,
        gateway.client.get(f"{gateway.url}/inspector/live", **bearing("ann")) as answered,
        asyncio.timeout(10),
    ):
        await answered.content.readuntil(b"\n\n")
        await gateway.reload(settings_of(engine, keys={"ann": ("key-of-ann",)}))
        await gateway.post({"model": "mock", "input": "Hi"}, **bearing("ann"))
        assert (await Watching(answered).until("completed"))["owner"] == "ann"


async def test_a_shutdown_does_not_wait_for_viewers(engine: MockEngine) -> None:
    async with asyncio.timeout(10):
        async with running_gateway(engine, shutdown_timeout=60) as gateway:
            answered = await gateway.client.get(f"{gateway.url}/inspector/live")
            await answered.content.readuntil(b"\n\n")
        assert await answered.content.read() == b""
