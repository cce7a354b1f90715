"""A gateway on SQLite that is killed again and again: what it has acknowledged is there after every restart."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.commands import served
from support.engine import MockEngine
from support.streams import TERMINAL, parse

from antiphon.store.records import UNFINISHED
from bench.processes import free_port

SAMPLE = pytest.param(8, id="sample")
ALL = pytest.param(50, id="all", marks=pytest.mark.slow)
pytestmark = pytest.mark.timeout(900)


class Client:
    """Sends requests until its gateway dies, and remembers the responses that were acknowledged."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.stored: set[str] = set()
        self.queued: set[str] = set()

    async def ask_until_killed(self) -> None:
        with suppress(aiohttp.ClientError):
            for number in range(1000):
                in_background = number % 3 == 0
                async with self._session.post(self._url, json={"input": "Hi", "background": in_background}) as answer:
                    response = await answer.json()
                    assert answer.status == 200, response
                (self.queued if in_background else self.stored).add(response["id"])

    async def status(self, id: str) -> str:
        async with self._session.get(f"{self._url}/{id}") as answer:
            assert answer.status == 200, f"{id} was acknowledged, and is gone"
            response: dict[str, Any] = await answer.json()
            return str(response["status"])

    async def check(self) -> None:
        """Everything that was acknowledged is there, and queued responses end."""
        for id in self.stored:
            assert await self.status(id) == "completed"
        for id in self.queued:
            # The end may come only after the lease of the killed gateway has expired.
            async with self._session.get(f"{self._url}/{id}", params={"stream": "true"}) as answer:
                events = parse(await answer.read())
            assert [event["type"] in TERMINAL for event in events].count(True) == 1
            assert await self.status(id) not in UNFINISHED
        self.stored.clear()
        self.queued.clear()


@pytest.mark.parametrize("kills", [SAMPLE, ALL])
async def test_nothing_that_was_acknowledged_is_lost(engine: MockEngine, tmp_path: Path, kills: int) -> None:
    chance = random.Random(7)
    port = free_port()
    arguments = ["serve", "--port", str(port), "--upstream", engine.url, "--store", f"sqlite:{tmp_path / 'responses.db'}"]
    settings = {"ANTIPHON_BACKGROUND_LEASE": "0.5", "ANTIPHON_BACKGROUND_ATTEMPTS": "10", "ANTIPHON_LOG_LEVEL": "error"}
    acknowledged = 0
    async with aiohttp.ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{port}/v1/responses")
        for _ in range(kills):
            async with served(*arguments, **settings) as (process, line):
                assert line.startswith("Antiphon is ready")
                await client.check()
                asking = asyncio.create_task(client.ask_until_killed())
                await asyncio.wait({asking}, timeout=chance.uniform(0, 0.3))
                process.kill()
                await asking
            acknowledged += len(client.stored) + len(client.queued)
        async with served(*arguments, **settings):
            await client.check()
    assert acknowledged > kills
