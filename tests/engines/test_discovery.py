"""Engines that appear and disappear at run time: behind a name, and with new settings."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec import structs
from support.engine import MockEngine, Writer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, started

from antiphon.app.lifetime import BESIDE
from antiphon.engines.discovery import addresses_of
from antiphon.settings.settings import Settings


class Names:
    """What a name stands for, in place of DNS."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] | OSError = addresses
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if isinstance(self.addresses, OSError):
            raise self.addresses
        return self.addresses


@asynccontextmanager
async def three_addresses() -> AsyncIterator[list[MockEngine]]:
    """One port of three addresses."""
    mocks = [MockEngine() for _ in range(3)]
    await mocks[0].start()
    port = int(mocks[0].url.rpartition(":")[2])
    await mocks[1].start(port, "127.0.0.2")
    await mocks[2].start(port, "127.0.0.3")
    try:
        yield mocks
    finally:
        for mock in mocks:
            await mock.stop()


@asynccontextmanager
async def behind_a_name(mocks: list[MockEngine], names: Names) -> AsyncIterator[GatewayUnderTest]:
    port = mocks[0].url.rpartition(":")[2]
    async with running_gateway(f"dns+http://localhost:{port}") as gateway:
        discovery = gateway.app[BESIDE].discovery
        await gateway.gateway.pool.ready_event.wait()
        discovery._resolve = names
        await discovery.look()
        yield gateway


def roots(gateway: GatewayUnderTest) -> list[str]:
    return [engine.root for engine in gateway.gateway.pool.engines]


async def test_a_name_is_one_engine_for_each_of_its_addresses() -> None:
    async with three_addresses() as mocks:
        port = mocks[0].url.rpartition(":")[2]
        async with behind_a_name(mocks, names := Names("127.0.0.1", "127.0.0.2")) as gateway:
            assert names.asked == [("localhost", int(port))]
            assert roots(gateway) == [mocks[0].url, mocks[1].url]
            for at in range(20):
                await gateway.create(f"Question {at}")
    assert mocks[0].requests
    assert mocks[1].requests
    assert not mocks[2].requests
    assert {headers["Host"] for mock in mocks for headers in mock.headers} == {f"localhost:{port}"}


async def test_addresses_come_and_go() -> None:
    async with three_addresses() as mocks, behind_a_name(mocks, names := Names("127.0.0.1", "127.0.0.2")) as gateway:
        kept = gateway.gateway.pool.engines[1]
        names.addresses = ["127.0.0.2", "127.0.0.3"]
        await gateway.app[BESIDE].discovery.look()
        assert roots(gateway) == [mocks[1].url, mocks[2].url]
        assert gateway.gateway.pool.engines[0] is kept, "it keeps what is known of it"
        assert all(engine.ready for engine in gateway.gateway.pool.engines)


async def test_an_engine_that_goes_finishes_what_it_answers() -> None:
    goes_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await goes_on.wait()
        await write(text(" two"))

    async with three_addresses() as mocks, behind_a_name(mocks, names := Names("127.0.0.2")) as gateway:
        mocks[1].will(slow)
        asking = asyncio.create_task(gateway.create())
        await mocks[1].asked.wait()
        names.addresses = ["127.0.0.3"]
        await gateway.app[BESIDE].discovery.look()
        assert roots(gateway) == [mocks[2].url]
        goes_on.set()
        assert (await asking)["output_text"] == "one two"
        await gateway.create()
        assert len(mocks[2].requests) == 1


async def test_a_name_that_is_not_known_for_the_moment_changes_nothing() -> None:
    async with three_addresses() as mocks, behind_a_name(mocks, names := Names("127.0.0.1")) as gateway:
        names.addresses = socket.gaierror("Temporary failure in name resolution")
        await gateway.app[BESIDE].discovery.look()
        assert roots(gateway) == [mocks[0].url]
        names.addresses = []
        await gateway.app[BESIDE].discovery.look()
        status, body = await gateway.post({"model": "mock", "input": "Hi"})
        assert (status, body["error"]["message"]) == (503, "No engine is known yet.")
        names.addresses = ["127.0.0.2"]
        await gateway.app[BESIDE].discovery.look()
        await gateway.create()


async def test_new_settings_add_and_remove_engines(engine: MockEngine) -> None:
    async with three_addresses() as mocks, behind_a_name(mocks, Names("127.0.0.1", "127.0.0.2")) as gateway:
        kept = gateway.gateway.pool.engines[0]
        port = mocks[0].url.rpartition(":")[2]
        settings = structs.replace(gateway._reloader._current, upstream=(engine.url, f"dns+http://localhost:{port}"))
        await gateway.reload(settings)
        assert roots(gateway) == [engine.url, mocks[0].url, mocks[1].url]
        assert kept in gateway.gateway.pool.engines
        await gateway.reload(structs.replace(settings, upstream=(engine.url,)))
        assert roots(gateway) == [engine.url]
        await gateway.create()
        await gateway.reload(structs.replace(settings, upstream=(engine.url,), upstream_key="new"))
        await gateway.create()
        assert engine.headers[-1]["Authorization"] == "Bearer new"


async def test_new_settings_change_how_engines_are_chosen(engine: MockEngine) -> None:
    async with started(MockEngine()) as other, running_gateway(engine, other) as gateway:
        await gateway.gateway.pool.identify()
        current: Settings = gateway._reloader._current
        await gateway.reload(structs.replace(current, affinity=False, routing_headers=False, health_interval=0))
        for _ in range(4):
            await gateway.create(prompt_cache_key="the same")
        assert [len(mock.requests) for mock in (engine, other)] == [2, 2]
        assert "x-session-id" not in engine.headers[0]
        assert gateway.gateway.pool.health.interval == 0


async def test_credentials_and_a_path_stay_with_each_address() -> None:
    async with running_gateway("dns+https://ada:secret@localhost:1/api/v1", health_interval=0) as gateway:
        discovery = gateway.app[BESIDE].discovery
        discovery._resolve = Names("::1", "10.0.0.1")
        found = await discovery._engines_of("dns+https://ada:secret@localhost:1/api/v1", [])
        assert [engine.root for engine in found] == ["https://[::1]:1/api", "https://10.0.0.1:1/api"]
        assert {engine.host for engine in found} == {"localhost:1"}
        assert {engine.server_name for engine in found} == {"localhost"}
        assert all(engine.authorization is not None for engine in found)


async def test_localhost_is_resolved() -> None:
    assert await addresses_of("localhost", 80) in (["127.0.0.1"], ["::1"])
    with pytest.raises(OSError, match=r".+"):
        await addresses_of("no-such-name.invalid", 80)
