"""Two gateways in two processes on one Postgres: a response of one is followed, cancelled and continued through the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from support.background import held_back
from support.commands import served
from support.engine import MockEngine, text
from support.postgres import PostgresServer
from support.streams import TERMINAL, check_stream, parse

from bench.processes import free_port

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True)
class Gateway:
    process: asyncio.subprocess.Process
    url: str
    session: aiohttp.ClientSession

    async def post(self, path: str = "", **body: Any) -> tuple[int, dict[str, Any]]:
        async with self.session.post(self.url + path, json=body) as answer:
            return answer.status, await answer.json()

    async def get(self, id: str) -> dict[str, Any]:
        async with self.session.get(f"{self.url}/{id}") as answer:
            assert answer.status == 200, await answer.text()
            response: dict[str, Any] = await answer.json()
            return response

    async def follow(self, id: str) -> list[dict[str, Any]]:
        async with self.session.get(f"{self.url}/{id}", params={"stream": "true"}) as answer:
            assert answer.status == 200, await answer.text()
            return parse(await answer.read())


@asynccontextmanager
async def gateway(engine: MockEngine, store: str, session: aiohttp.ClientSession) -> AsyncIterator[Gateway]:
    port = free_port()
    arguments = ["serve", "--port", str(port), "--upstream", engine.url, "--store", store]
    async with served(*arguments, ANTIPHON_BACKGROUND_LEASE="1") as (process, line):
        assert line.startswith("Antiphon is ready")
        yield Gateway(process, f"http://127.0.0.1:{port}/v1/responses", session)


@asynccontextmanager
async def two_gateways(engine: MockEngine, postgres: PostgresServer) -> AsyncIterator[tuple[Gateway, Gateway]]:
    store = postgres.new_database()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        both = [await stack.enter_async_context(gateway(engine, store, session)) for _ in range(2)]
        yield both[0], both[1]


async def test_a_response_of_one_gateway_is_followed_and_continued_through_the_other(
    engine: MockEngine, postgres: PostgresServer
) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script, text("Again."))
    async with two_gateways(engine, postgres) as (one, other):
        _, response = await one.post(input="Hi", background=True)
        await engine.asked.wait()
        following = asyncio.create_task(other.follow(response["id"]))
        while not (so_far := await other.get(response["id"]))["output"]:
            await asyncio.wait({following}, timeout=0.02)
        assert (so_far["status"], so_far["output"][0]["status"]) == ("in_progress", "in_progress")
        assert so_far["output"][0]["content"][0]["text"] == "Hel"
        go_on.set()
        final = check_stream(await following)
        assert final["output"][0]["content"][0]["text"] == "Hello"
        assert (await one.get(response["id"]))["status"] == "completed"
        status, _ = await other.post(input="Again", previous_response_id=response["id"])
        assert status == 200
        assert [message["content"] for message in engine.last["messages"]] == ["Hi", "Hello", "Again"]


async def test_a_response_of_one_gateway_is_cancelled_through_the_other(engine: MockEngine, postgres: PostgresServer) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    async with two_gateways(engine, postgres) as (one, other):
        _, response = await one.post(input="Hi", background=True)
        await engine.asked.wait()
        status, _ = await other.post(f"/{response['id']}/cancel")
        assert status == 200
        await engine.cancelled.wait()
        events = await one.follow(response["id"])
        assert [event["type"] in TERMINAL for event in events].count(True) == 1
        assert (await one.get(response["id"]))["status"] == "cancelled"


async def test_a_response_of_a_killed_gateway_is_run_by_the_other(engine: MockEngine, postgres: PostgresServer) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(text("Kept."), script, text("Hello", " again"))
    store = postgres.new_database()
    async with aiohttp.ClientSession() as session, gateway(engine, store, session) as one:
        _, kept = await one.post(input="Keep this")
        engine.asked.clear()
        _, response = await one.post(input="Hi", background=True)
        # There is no other gateway yet, so this one runs it.
        await engine.asked.wait()
        async with gateway(engine, store, session) as other:
            following = asyncio.create_task(other.follow(response["id"]))
            one.process.kill()
            events = await following
            assert [event["type"] in TERMINAL for event in events].count(True) == 1
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello again"
            assert (await other.get(kept["id"]))["status"] == "completed"


async def test_a_restart_of_postgres_loses_nothing_that_was_acknowledged(engine: MockEngine, postgres: PostgresServer) -> None:
    acknowledged: list[str] = []
    rejected = 0

    async def ask(which: Gateway, over: asyncio.Event) -> None:
        nonlocal rejected
        while not over.is_set():
            status, response = await which.post(input="Hi")
            if status == 200:
                acknowledged.append(response["id"])
            else:
                assert status in (502, 503), response
                rejected += 1

    async with two_gateways(engine, postgres) as (one, other):
        over = asyncio.Event()
        asking = [asyncio.create_task(ask(which, over)) for which in (one, other) for _ in range(4)]
        while len(acknowledged) < 20:
            await asyncio.wait(asking, timeout=0.02)
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)
        before = len(acknowledged)
        while len(acknowledged) < before + 20:
            await asyncio.wait(asking, timeout=0.02)
        over.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*asking)
        assert rejected > 0, "the restart was noticed"
        for id in acknowledged:
            assert (await other.get(id))["status"] == "completed"
