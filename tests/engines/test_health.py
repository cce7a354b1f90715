"""Engines are asked how they are, so that no request has to find out."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.engine import MockEngine, Refusal
from support.gateway import running_gateway, started

from antiphon import logs
from antiphon.engines.health import HealthChecks
from antiphon.engines.requests import EngineOptions
from antiphon.engines.upstream import Engine
from antiphon.transport import make_session


@asynccontextmanager
async def found(mock: MockEngine, dialect: str = "vllm") -> AsyncIterator[Engine]:
    async with started(mock), make_session() as session:
        engine = Engine(mock.url, session, EngineOptions(dialect=dialect))
        await engine.identify()
        assert engine.ready
        yield engine
        await engine.close()


Line = tuple[str, dict[str, Any]]


class LineHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), vars(record)["members"]))


@pytest.fixture
def logged() -> list[Line]:
    """The messages of the log since the test began."""
    handler = LineHandler()
    logs.logger.addHandler(handler)
    logs.logger.setLevel(logging.INFO)
    return handler.lines


async def test_an_engine_that_refuses_is_out_after_two_checks_and_back_after_one(logged: list[Line]) -> None:
    mock, checks = MockEngine(paths={"/health": Refusal(503)}), HealthChecks()
    async with found(mock) as engine:
        await checks.check(engine)
        assert engine.up
        await checks.check(engine)
        await checks.check(engine)
        assert not engine.up
        assert engine.ready, "it is asked last"
        mock.paths["/health"] = {}
        await checks.check(engine)
        assert engine.up
        about = {"engine": engine.root}
        assert logged == [("engine is not healthy", about | {"reason": "HTTP 503"}), ("engine is healthy again", about)]


async def test_one_failure_among_successes_changes_nothing() -> None:
    mock, checks = MockEngine(paths={"/health": Refusal(503)}), HealthChecks()
    async with found(mock) as engine:
        for _ in range(3):
            mock.paths["/health"] = Refusal(503)
            await checks.check(engine)
            mock.paths["/health"] = {}
            await checks.check(engine)
            assert engine.up


async def test_an_engine_that_hangs_is_asked_last(logged: list[Line]) -> None:
    answers = asyncio.Event()
    mock, checks = MockEngine(paths={"/health": answers}), HealthChecks(timeout=0.05)
    async with found(mock) as engine:
        await checks.check(engine)
        await checks.check(engine)
        assert not engine.up
        assert engine.ready, "it may only be busy"
        answers.set()
        await HealthChecks().check(engine)
        assert engine.up
    assert logged[0][1]["reason"] == "no answer in time"


async def test_an_engine_that_is_gone_is_not_asked_until_it_is_found_again() -> None:
    mock, checks = MockEngine(), HealthChecks()
    async with found(mock) as engine:
        port = int(mock.url.rpartition(":")[2])
        await mock.stop()
        await checks.check(engine)
        await checks.check(engine)
        assert not engine.ready
        await mock.start(port)
        await engine.identify()
        assert engine.up


@pytest.mark.parametrize("status", [401, 404, 405, 429, 500, 501])
async def test_any_answer_of_its_own_shows_that_it_is_there(status: int) -> None:
    mock, checks = MockEngine(paths={"/health": Refusal(status)}), HealthChecks()
    async with found(mock) as engine:
        await checks.check(engine)
        await checks.check(engine)
        assert engine.up


async def test_an_engine_of_no_known_kind_is_asked_for_a_head() -> None:
    mock, checks = MockEngine(), HealthChecks()
    async with found(mock, dialect="plain") as engine:
        mock.list_answer = Refusal(503)
        await checks.check(engine)
        await checks.check(engine)
        assert not engine.up
        mock.list_answer = None
        await checks.check(engine)
        assert engine.up


async def test_a_gateway_checks_its_engines() -> None:
    """It finds out by itself: no request is sent."""
    mock = MockEngine(owned_by="vllm", paths={"/health": Refusal(503)})
    async with started(mock), running_gateway(mock, health_interval=0.01) as gateway:
        (engine,) = gateway.gateway.pool.engines
        await gateway.gateway.pool.ready_event.wait()
        async with asyncio.timeout(20):
            while engine.unhealthy is None:
                await gateway.get("/health")
        _, seen = await gateway.get("/inspector/engines")
        assert seen["engines"][0]["unhealthy"] == "HTTP 503"
        # It is the only one: it is asked all the same.
        assert (await gateway.create())["status"] == "completed"
