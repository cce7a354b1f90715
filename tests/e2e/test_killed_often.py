"""A gateway on SQLite that is killed again and again: what it has acknowledged is there after every restart."""

import asyncio
import itertools
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from support.chat import WEATHER
from support.commands import served
from support.engine import MockEngine
from support.streams import TERMINAL, parse

from antiphon.store.records import UNFINISHED
from bench.processes import free_port

SAMPLE = pytest.param(8, id="sample")
ALL = pytest.param(50, id="all", marks=pytest.mark.slow)
pytestmark = pytest.mark.timeout(900)


# What is asked, one after another: each path with a body whose answer is stored before it is sent.
HI = [{"role": "user", "content": "Hi"}]
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/responses", {"input": "Hi"}),
    ("/messages", {"messages": HI, "max_tokens": 100}),
    ("/chat/completions", {"messages": HI, "tools": [WEATHER]}),
    ("/responses", {"input": "Hi", "background": True}),
]
# Of the id of a response, a message or a completion. The rest is that of the response.
BEGINNING = re.compile("^(resp_|msg_|chatcmpl-)")


class Client:
    """Sends requests until its gateway dies, and remembers the responses that were acknowledged."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url
        self.stored: set[str] = set()
        self.queued: set[str] = set()

    async def ask_until_killed(self) -> None:
        with suppress(aiohttp.ClientError):
            for path, body in itertools.cycle(ASKED):
                async with self._session.post(self._url + path, json=body) as answer:
                    answered = await answer.json()
                    assert answer.status == 200, answered
                (self.queued if "background" in body else self.stored).add(BEGINNING.sub("resp_", answered["id"]))

    async def status(self, id: str) -> str:
        async with self._session.get(f"{self._url}/responses/{id}") as answer:
            assert answer.status == 200, f"{id} was acknowledged, and is gone"
            response: dict[str, Any] = await answer.json()
            return str(response["status"])

    async def check(self) -> None:
        """Everything that was acknowledged is there, and queued responses end."""
        for id in self.stored:
            assert await self.status(id) == "completed"
        for id in self.queued:
            # The end may come only after the lease of the killed gateway has expired.
            async with self._session.get(f"{self._url}/responses/{id}", params={"stream": "true"}) as answer:
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
    settings = {
        "ANTIPHON_BACKGROUND_LEASE": "0.5",
        "ANTIPHON_BACKGROUND_ATTEMPTS": "10",
        "ANTIPHON_LOG_LEVEL": "error",
        "ANTIPHON_STORE_MESSAGES": "true",
    }
    acknowledged = 0
    async with aiohttp.ClientSession() as session:
        client = Client(session, f"http://127.0.0.1:{port}/v1")
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
