"""Connections that an engine closes without announcing it: which requests are sent on them, and what is lost with them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.engine import CUT, Body, MockEngine, Writer, text
from support.engine import Answer as Scripted
from support.gateway import DEFAULTS, running_gateway, started
from support.raw_server import CHUNKED, Answer, RawServer, chunked, raw_server, sized

from antiphon.engines.probes.findings import Finding, Verdict
from antiphon.engines.probes.prober import probe
from antiphon.engines.requests import EngineOptions
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session

pytestmark = pytest.mark.usefixtures("both_transports")

MODELS = sized(b'{"object": "list", "data": [{"id": "mock", "owned_by": "mock"}]}')
SHOWN = sized(b'{"prompt": "Say hello."}')
CHAT = "/v1/chat/completions"
HELLO = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


@asynccontextmanager
async def closing_engine() -> AsyncIterator[RawServer]:
    """It announces nothing, and reads no further request on a connection after one with `Connection: close`."""
    finished: set[asyncio.StreamWriter] = set()

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if writer in finished:
                writer.close()
                return
            if b"connection: close" in head.lower():
                finished.add(writer)
            is_chat = CHAT.encode() in head
            rendered = SHOWN if b"/apply-template" in head else MODELS
            writer.write(CHUNKED + chunked(text("Hello")) if is_chat else rendered)

        return write

    async with raw_server(answer) as server:
        yield server


@asynccontextmanager
async def found(url: str, dialect: str | None = None) -> AsyncIterator[Engine]:
    async with make_session(DEFAULTS["transport"]) as session:
        engine = Engine(url, session, EngineOptions(dialect=dialect))
        await engine.identify()
        yield engine


def unanswered(findings: list[Finding]) -> dict[str, str]:
    words = ("connection", "answering")
    return {each.capability: each.detail for each in findings if any(word in each.detail for word in words)}


@pytest.mark.parametrize("dialect", ["plain", "llamacpp"])
async def test_no_probe_is_lost_on_a_connection_that_was_to_be_closed(dialect: str) -> None:
    async with closing_engine() as server, found(server.url, dialect) as engine:
        findings = await probe(engine, "mock")
    assert unanswered(findings) == {}


async def test_no_request_that_is_passed_through_is_lost_on_a_connection_that_was_to_be_closed() -> None:
    async with closing_engine() as server, running_gateway(server.url, dialect="llamacpp", retries=0) as gateway:
        statuses = Counter[int]()
        for _ in range(40):
            async with gateway.client.post(gateway.url + CHAT, json=HELLO) as answer:
                statuses[answer.status] += 1
                await answer.read()
    assert statuses == {200: 40}


@asynccontextmanager
async def losing(*lost: int, beginning: bytes = b"") -> AsyncIterator[tuple[RawServer, list[bytes]]]:
    """An engine that keeps its connections, and closes them before its answers to these chats, or after so much of them."""
    chats: list[bytes] = []

    def answer(head: bytes) -> Answer:
        async def write(writer: asyncio.StreamWriter) -> None:
            if not head.startswith(b"POST"):
                writer.write(MODELS)
                return
            chats.append(head)
            if len(chats) - 1 in lost:
                writer.write(beginning)
                writer.close()
            else:
                writer.write(CHUNKED + chunked(text("Hello")))

        return write

    async with raw_server(answer) as server:
        yield server, chats


async def test_a_kept_connection_that_the_engine_has_closed_is_replaced_by_a_new_one() -> None:
    async with losing(1) as (server, chats), running_gateway(server.url, dialect="plain", retries=1) as gateway:
        for _ in range(2):
            async with gateway.client.post(gateway.url + CHAT, json=HELLO) as answer:
                assert answer.status == 200
                assert await answer.read() == text("Hello")
    assert len(chats) == 3
    assert b"connection: close" in chats[2].lower(), "it is a new connection, for this request alone"


@pytest.mark.parametrize(
    ("retries", "lost", "beginning", "tries"),
    [(2, (0, 1), b"", 2), (0, (0,), b"", 1), (2, (0,), b"HTTP/1.1 200 OK\r\nContent-", 1)],
    ids=["lost twice", "no retries are set", "an answer has begun"],
)
async def test_a_lost_request_that_is_passed_through_is_sent_at_most_twice_and_never_after_a_byte_of_its_answer(
    retries: int, lost: tuple[int, ...], beginning: bytes, tries: int
) -> None:
    async with (
        losing(*lost, beginning=beginning) as (server, chats),
        running_gateway(server.url, retries=retries) as gateway,
        gateway.client.post(gateway.url + CHAT, json=HELLO) as answer,
    ):
        assert answer.status in (502, 503)
    assert len(chats) == tries


async def test_lost_connections_end_only_the_probes_that_lost_them() -> None:
    mock = MockEngine()

    async def cut(write: Writer) -> None:
        await write(CUT)

    def answers(body: Body) -> Scripted:
        return cut if "tools" in body else text("Hello")

    mock.otherwise = answers
    async with started(mock), found(mock.url) as engine:
        findings = {finding.capability: finding for finding in await probe(engine, "mock")}
    assert "closed the connection" in findings["tools"].detail
    assert findings["required choice"].verdict is Verdict.UNKNOWN
    for capability in ("json_schema", "usage in streams", "logprobs", "images"):
        assert not findings[capability].may_pass, capability


async def test_an_engine_that_loses_every_connection_is_not_asked_for_ever() -> None:
    mock = MockEngine()

    async def cut(write: Writer) -> None:
        await write(CUT)

    mock.otherwise = lambda body: cut
    async with started(mock), found(mock.url) as engine:
        findings = await probe(engine, "mock")
    assert "the engine has stopped answering" in {finding.detail for finding in findings}
    assert len(mock.requests) == 6, "three requests, each of them twice"
