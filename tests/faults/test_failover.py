"""An engine that fails before it begins to answer gives way to the next one, whatever the fault and however it is asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from faults.engine import Act, FaultyEngine, faulty_engine
from faults.rows import ROWS, Row
from faults.ways import WAYS, Outcome
from support.engine import MockEngine, Writer, text
from support.gateway import GatewayUnderTest, running_gateway, started
from support.metrics import scrape
from support.raw_server import CHUNKED
from support.sockets import Socket, connected

from antiphon.app.options import Intervals

SETTINGS: dict[str, Any] = {"retries": 0, "health_interval": 0, "background_patience": 5}
COMPLETED = Outcome("completed")


def begins(row: Row) -> bool:
    """Something of an answer has come: what a client may have seen cannot be taken back."""
    sent = b"".join(step for step in row.sends if isinstance(step, bytes))
    return any(member in sent for member in (b'"content":', b'"reasoning_content":', b'"tool_calls":['))


def is_engines_own(row: Row) -> bool:
    """Not the fault of the request: the next engine would say the same of that."""
    return row.expected.ended == "failed" and row.expected.status != 400


ROWS_THAT_GIVE_WAY = [row for row in ROWS if is_engines_own(row) and not begins(row)]


@asynccontextmanager
async def two_engines(**settings: Any) -> AsyncIterator[tuple[GatewayUnderTest, FaultyEngine, FaultyEngine, Socket]]:
    """The first of them is always asked first."""
    async with (
        faulty_engine() as first,
        faulty_engine() as second,
        running_gateway(first.url, second.url, intervals=Intervals(engine_retry=600), **SETTINGS | settings) as gateway,
        connected(gateway) as socket,
    ):
        pool = gateway.gateway.pool
        await pool.identify()
        pool.engines[1].unhealthy = "it is to be asked last"
        yield gateway, first, second, socket


def test_the_rows_are_those_before_an_answer() -> None:
    names = {row.name for row in ROWS_THAT_GIVE_WAY}
    assert names >= {
        "the connection is refused",
        "reset before the headers",
        "headers only, then closed",
        "no byte at all",
        "silence after the headers",
        "an empty body",
        "an error object in a frame",
        "HTTP 500 with JSON",
        "HTTP 429 that says to wait a minute",
        "HTTP 401 with HTML",
        "a redirect, HTTP 307",
    }
    assert not names & {"HTTP 400 with JSON", "reset between two frames", "silence in mid-stream"}


def ways_for(row: Row) -> tuple[str, ...]:
    """A third of them: three rows that follow each other have all."""
    return tuple(WAYS)[ROWS_THAT_GIVE_WAY.index(row) % 3 :: 3]


@pytest.mark.parametrize("every_way", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some ways", "every way"])
@pytest.mark.parametrize("row", ROWS_THAT_GIVE_WAY, ids=[row.name for row in ROWS_THAT_GIVE_WAY])
async def test_the_next_engine_is_asked(row: Row, every_way: bool) -> None:
    ways = tuple(WAYS) if every_way else ways_for(row)
    async with two_engines(**row.settings) as (gateway, first, second, socket):
        for way in ways:
            gateway.gateway.pool.engines[0].ready = True
            second.chats = 0
            await first.misbehave(row.sends)
            assert await WAYS[way](gateway, socket) == COMPLETED, way
            assert second.chats == 1, way
            await first.behave()
        seen = await scrape(gateway)
    failed = seen.value("antiphon_engine_answers_total", engine=first.url)
    assert failed == seen.value("antiphon_asked_again_total", reason="next_engine") == len(ways)
    assert seen.value("antiphon_engine_answers_total", engine=second.url, outcome="ok") == len(ways)


@pytest.mark.parametrize("stall", [(Act.STALL,), (CHUNKED, Act.STALL)])
async def test_a_stream_that_has_had_signs_of_life_gets_its_answer_from_the_next(stall: tuple[Any, ...]) -> None:
    quick = {"first_byte_timeout": 0.3, "idle_timeout": 0.3, "heartbeat": 0.02}
    async with two_engines(**quick) as (gateway, first, _, _):
        await first.misbehave(stall)
        events = await gateway.stream()
    assert [event["type"] for event in events].count("response.in_progress") > 2
    assert events[-1]["type"] == "response.completed"


async def test_the_silence_of_one_engine_does_not_count_for_the_next() -> None:
    """The second one is silent for a while, too: its client gets signs of life, and then its answer."""
    goes_on, slow = asyncio.Event(), MockEngine()

    async def answer(write: Writer) -> None:
        await goes_on.wait()
        await write(text("Hello"))

    slow.will(answer)
    times = {"first_byte_timeout": 0.3, "idle_timeout": 0.3, "heartbeat": 0.05}
    async with faulty_engine() as first, started(slow), running_gateway(first.url, slow, **SETTINGS | times) as gateway:
        pool = gateway.gateway.pool
        await pool.identify()
        pool.engines[1].unhealthy = "it is to be asked last"
        await first.misbehave((CHUNKED, Act.STALL))
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body) as response:
            async for line in response.content:
                if slow.asked.is_set() and line.startswith(b"event: response.in_progress"):
                    goes_on.set()
                if line.startswith(b"event: response.failed"):
                    pytest.fail("it was given up")
    assert goes_on.is_set()


async def test_the_last_engine_has_the_last_word() -> None:
    async with two_engines() as (gateway, first, second, _):
        for engine in (first, second):
            await engine.misbehave((b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",))
        status, body = await gateway.post({"model": "mock", "input": "Hi"})
        assert (status, body["error"]["code"]) == (502, "engine_error")
        assert (first.chats, second.chats) == (1, 1)
