"""Requests to engines and answers to clients are written together, and never too late."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from support.engine import MockEngine
from support.gateway import running_gateway
from support.raw_client import dialled, get, post
from support.raw_server import sized

from antiphon.transport import EndpointOptions
from antiphon.transport.fast import direct
from antiphon.transport.fast.client import FastEndpoint
from antiphon.transport.fast.connection import EngineConnection
from antiphon.transport.interfaces import WriteBatch

pytestmark = pytest.mark.timeout(60)

PLAIN = post(b'{"model": "mock", "input": "Hi"}')


class HeldBatch(WriteBatch):
    """Writes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self._added = asyncio.Event()

    def begin(self) -> None: ...

    def add(self, writer: Any) -> None:
        super().add(writer)
        self._added.set()

    async def until(self, count: int) -> None:
        while len(self.writers) < count:
            self._added.clear()
            await self._added.wait()

    def release(self) -> None:
        self._flush()


class Noted:
    def __init__(self, name: str, notes: list[str], then: Callable[[], None] = lambda: None) -> None:
        self._name, self._notes, self._then = name, notes, then

    def flush(self) -> None:
        self._notes.append(self._name)
        self._then()


async def test_all_of_a_turn_are_written_after_it_in_order() -> None:
    batch, notes = WriteBatch(), list[str]()
    later = Noted("later", notes)
    batch.add(Noted("first", notes, lambda: batch.add(later)))
    asyncio.get_running_loop().call_soon(notes.append, "what was waiting")
    batch.add(Noted("second", notes))
    assert notes == []
    await asyncio.sleep(0)
    assert notes == ["first", "second", "what was waiting"]
    await asyncio.sleep(0)
    assert notes[3:] == ["later"]


# ---- answers to clients ----------------------------------------------------------------------------------------------


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[HeldBatch]:
    """Of each server."""
    made: list[HeldBatch] = []

    def make() -> HeldBatch:
        made.append(HeldBatch())
        return made[-1]

    monkeypatch.setattr(direct, "WriteBatch", make)
    return made


async def test_answers_to_several_clients_are_written_together(engine: MockEngine, answers: list[HeldBatch]) -> None:
    async with (
        running_gateway(engine, transport="fast") as gateway,
        dialled(gateway) as first,
        dialled(gateway) as second,
    ):
        (batch,) = answers
        for client in (first, second):
            await client.send(PLAIN)
        await batch.until(2)
        batch.release()
        assert [(await client.answer()).status for client in (first, second)] == [200, 200]


@pytest.mark.parametrize("next_request", [PLAIN, get(b"/health")], ids=["a plain one", "one for aiohttp"])
async def test_an_answer_is_written_before_the_next_request_is_begun(
    engine: MockEngine, answers: list[HeldBatch], next_request: bytes
) -> None:
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        (batch,) = answers
        await client.send(PLAIN + next_request)
        assert (await client.answer()).json["status"] == "completed"
        if next_request is PLAIN:
            await batch.until(2)
            batch.release()
        assert (await client.answer()).status == 200


async def test_an_answer_is_written_before_its_connection_is_closed(engine: MockEngine, answers: list[HeldBatch]) -> None:
    async with AsyncExitStack() as stack:
        async with running_gateway(engine, transport="fast") as gateway:
            client = await stack.enter_async_context(dialled(gateway))
            await client.send(PLAIN)
            await answers[0].until(1)
        assert (await client.answer()).json["status"] == "completed"
        assert await client.rest() == b""


async def test_a_client_that_leaves_before_its_answer_is_written_is_forgotten(
    engine: MockEngine, answers: list[HeldBatch]
) -> None:
    async with running_gateway(engine, transport="fast") as gateway:
        (batch,) = answers
        async with dialled(gateway) as client:
            await client.send(PLAIN)
            await batch.until(1)
            (connection,) = batch.writers
            assert isinstance(connection, direct.DirectConnection)
        while connection.transport is not None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        batch.release()
        assert connection._unsent == b""


async def test_a_long_answer_is_not_held_back(engine: MockEngine, answers: list[HeldBatch]) -> None:
    """Its client may be slow to read it."""
    asked = post(b'{"model": "mock", "input": "Hi", "instructions": "%b"}' % (b"x" * direct.LONG_ANSWER))
    async with running_gateway(engine, transport="fast") as gateway, dialled(gateway) as client:
        await client.send(asked)
        assert (await client.answer()).json["status"] == "completed"
        assert answers[0].writers == []


# ---- requests to engines ---------------------------------------------------------------------------------------------


class Wire(asyncio.Transport):
    """What a connection writes to its engine."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def writelines(self, pieces: Any) -> None:
        self.written += b"".join(pieces)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def resume_reading(self) -> None: ...


REQUEST: Sequence[bytes] = (b"POST / HTTP/1.1\r\n\r\n", b"{}")


def connected() -> tuple[FastEndpoint, HeldBatch, EngineConnection, Wire]:
    batch, wire = HeldBatch(), Wire()
    endpoint = FastEndpoint(EndpointOptions("http://engine/", {}, 5, 5), batch)
    connection = EngineConnection(endpoint)
    connection.connection_made(wire)
    return endpoint, batch, connection, wire


async def test_a_request_is_written_with_the_others_of_its_turn() -> None:
    endpoint, batch, connection, wire = connected()
    answer = connection.ask(REQUEST, 5, keep=True)
    assert (wire.written, batch.writers) == (b"", [connection])
    batch.release()
    assert wire.written == b"".join(REQUEST)
    connection.data_received(sized(b"{}"))
    assert (await answer).status == 200
    assert endpoint._take_idle() is connection


async def test_a_connection_whose_request_was_answered_before_it_was_written_is_not_used_again() -> None:
    endpoint, batch, connection, wire = connected()
    answer = connection.ask(REQUEST, 5, keep=True)
    connection.data_received(sized(b"{}"))
    assert (await answer).status == 200
    assert wire.closed
    assert endpoint._take_idle() is None
    batch.release()
    assert wire.written == b""


async def test_a_request_that_is_given_up_is_not_written() -> None:
    _, batch, connection, wire = connected()
    answer = connection.ask(REQUEST, 5, keep=True)
    answer.cancel()
    connection.give_up(answer)
    batch.release()
    assert (wire.written, wire.closed) == (b"", True)
