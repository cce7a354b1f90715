"""Every fault of an engine, in every way to ask: one end, the right one, nothing left of it, and the next request is served."""

import asyncio
import gc
import os
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from faults.engine import FaultyEngine, faulty_engine
from faults.rows import ROWS, Row
from faults.ways import WAYS, Outcome
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import Socket, connected

from antiphon.app.options import Intervals

# One further attempt, so that it shows which faults get one.
# Without health checks, which would have a connection of their own.
SETTINGS: dict[str, Any] = {"retries": 1, "health_interval": 0, "background_patience": 5}
INTERVALS = Intervals(engine_retry=600, background_retry=0.01)
COMPLETED = Outcome("completed")
# Turns of the event loop in which nothing may change before the gateway counts as idle.
QUIET_TURNS = 20
EVERY_WAY = tuple(WAYS)
# The other transport reads the same bytes by other means: what is made of them is the same.
ON_PLAIN = ("stream", "whole")


def ways_for(row: Row, kind: str) -> tuple[str, ...]:
    """Of the sample, a third: three rows that follow each other have all."""
    at = ROWS.index(row)
    return {"fast": EVERY_WAY[at % 3 :: 3], "fast, every way": EVERY_WAY, "plain": ON_PLAIN}[kind]


@pytest.fixture(scope="module", autouse=True)
def _cheap_collections() -> None:
    """What exists before these tests is not looked at each time that garbage is collected."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True)
class Census:
    """What exists while nothing is being asked."""

    tasks: int
    descriptors: int
    engine_connections: int


class Cell:
    """A gateway in front of an engine that can misbehave, and everything of it that may leak."""

    def __init__(self, gateway: GatewayUnderTest, engine: FaultyEngine, socket: Socket) -> None:
        self.gateway, self.engine, self.socket = gateway, engine, socket
        self._runs: list[weakref.ref[Any]] = []
        prepare = gateway.gateway.prepare

        async def remembered(*arguments: Any, **options: Any) -> Any:
            run = await prepare(*arguments, **options)
            self._runs.append(weakref.ref(run))
            return run

        gateway.gateway.prepare = remembered  # type: ignore[method-assign]

    async def ask(self, way: str) -> Outcome:
        return await WAYS[way](self.gateway, self.socket)

    def census(self) -> Census:
        return Census(len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), self.engine.connections)

    async def idle(self) -> Census:
        """Once nothing changes any more."""
        seen: list[Census] = []
        while len(seen) < QUIET_TURNS or len(set(seen[-QUIET_TURNS:])) > 1 or self.gateway.gateway.in_flight.runs:
            seen.append(self.census())
            await asyncio.sleep(0)
        return seen[-1]

    async def returns_to(self, before: Census) -> None:
        """The connection of an engine that is slow to end may be open for a moment."""
        async with asyncio.timeout(10):
            while await self.idle() != before:
                pass

    def runs_left(self) -> int:
        """Garbage is only looked for where anything is left."""
        if sum(run() is not None for run in self._runs) > 1:
            gc.collect()
        return sum(run() is not None for run in self._runs)


@asynccontextmanager
async def cell(**settings: Any) -> AsyncIterator[Cell]:
    async with (
        faulty_engine() as engine,
        running_gateway(engine.url, intervals=INTERVALS, **SETTINGS | settings) as gateway,
        connected(gateway) as socket,
    ):
        yield Cell(gateway, engine, socket)


@pytest.mark.parametrize(
    "kind", ["fast", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("fast, every way", "plain"))]
)
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
async def test_a_fault_ends_once_as_it_should_and_leaves_nothing(row: Row, kind: str) -> None:
    ways = ways_for(row, kind)
    async with cell(transport=kind.partition(",")[0], **row.settings) as running:
        engine = running.engine
        assert [await running.ask(way) for way in ways] == [COMPLETED] * len(ways)
        before = await running.idle()
        outcomes: dict[str, Outcome] = {}
        for way in ways:
            await engine.misbehave(row.sends)
            outcomes[way] = await running.ask(way)
            assert engine.chats == 2 if row.tried_again else engine.chats <= 1
            assert engine.redirected == 0
            await engine.behave()
            assert await running.ask(way) == COMPLETED
            await running.returns_to(before)
        assert outcomes == {way: row.expected.outcome(way) for way in ways}
        assert running.runs_left() <= 1, "the last one may still be referred to by its handler"
