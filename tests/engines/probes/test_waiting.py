"""An engine that does not answer is named in the log: once, and again when the reason is another one."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from support.engine import MockEngine
from support.gateway import running_gateway, started

from antiphon.app.options import Intervals
from antiphon.engines.detection import silence_to_words
from bench.processes import free_port

SOMEWHERE = ConnectionKey("somewhere", 1, False, True, None, None, None, None)
OFTEN = Intervals(engine_retry=0.01)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon")


def waited_for(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    members = [record.members for record in caplog.records if record.message == "waiting for engine"]  # type: ignore[attr-defined]
    return [(line["engine"], line["reason"]) for line in members]


@asynccontextmanager
async def hanging_up(port: int) -> AsyncIterator[asyncio.Event]:
    """A server that closes each connection without an answer, and says when it has."""
    met = asyncio.Event()

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        met.set()

    async with await asyncio.start_server(hang_up, "127.0.0.1", port):
        yield met


async def test_the_reason_is_logged_once_and_another_one_again(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with running_gateway(url, intervals=OFTEN) as gateway:
        pool = gateway.gateway.pool
        for _ in range(3):
            await pool.identify()
        assert waited_for(caplog) == [(url, "connection refused")]
        async with hanging_up(port) as met:
            await met.wait()
            await pool.identify()
        assert waited_for(caplog)[1] == (url, "it closed the connection without an answer")
        async with started(MockEngine(), port):
            await pool.ready_event.wait()
        assert (await gateway.post({"input": "Hi"}))[0] == 503
        await pool.identify()
        # It was there, and is gone again.
        assert waited_for(caplog)[-1] == (url, "connection refused")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_refused_connection_is_named_by_any_name_of_the_host(host: str, caplog: pytest.LogCaptureFixture) -> None:
    url = f"http://{host}:{free_port()}"
    async with running_gateway(url) as gateway:
        await gateway.gateway.pool.identify()
        assert waited_for(caplog) == [(url, "connection refused")]


async def test_a_server_that_is_no_engine_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with running_gateway() as other, running_gateway(other.url + "/nothing/here") as gateway:
        await gateway.gateway.pool.identify()
        assert waited_for(caplog) == []


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (aiohttp.ClientConnectorDNSError(SOMEWHERE, OSError(-2, "Name not known")), "the name of the host is not known"),
        (aiohttp.ClientConnectorSSLError(SOMEWHERE, OSError(1, "wrong version")), "it does not speak TLS: try http://"),
        (TimeoutError(), "no answer in time"),
        (aiohttp.ConnectionTimeoutError(), "no answer in time"),
        (aiohttp.ClientPayloadError(), "its answer was cut off"),
        (OSError(113, "No route to host"), "no route to host"),
        (ValueError("x"), "it does not answer as an engine does"),
    ],
)
def test_every_reason_has_words(reason: Exception, words: str) -> None:
    assert silence_to_words(reason) == words
