"""The ways in which a request comes to the gateway, each with a key, and the places that it takes there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from support.background import held_back
from support.chat import WEATHER
from support.engine import MockEngine, Script, Writer, text
from support.gateway import GatewayUnderTest
from support.sockets import connected

ADA = {"Authorization": "Bearer ada"}
BOB = {"Authorization": "Bearer bob"}
KEYS = ("ada", "bob")
CHAT = {"model": "mock", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
Answer = tuple[int, dict[str, Any], dict[str, str]]


async def posted(gateway: GatewayUnderTest, path: str, key: dict[str, str], **body: Any) -> Answer:
    async with gateway.client.post(gateway.url + path, json=body, headers=key) as answer:
        data = await answer.read()
        known = {name.lower(): value for name, value in answer.headers.items()}
        parsed = msgspec.json.decode(data) if answer.content_type == "application/json" else {}
        return answer.status, parsed, known


async def streamed(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses", key, model="mock", input="Hi", stream=True)


async def whole(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses", key, model="mock", input="Hi")


async def compacted(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses/compact", key, model="mock", input="Hi")


async def counted(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/responses/input_tokens", key, model="mock", input="Hi")


async def passed_through(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/chat/completions", key, **CHAT)


async def as_chat(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    """With tools, so that it is not passed through."""
    return await posted(gateway, "/v1/chat/completions", key, **CHAT, tools=[WEATHER])


async def as_message(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    return await posted(gateway, "/v1/messages", key, max_tokens=100, **CHAT)


async def by_websocket(gateway: GatewayUnderTest, key: dict[str, str]) -> Answer:
    async with connected(gateway, headers=key) as socket:
        await socket.send()
        event = await socket.event()
        while event["type"] not in ("error", "response.completed"):
            event = await socket.event()
        return event.get("status", 200), event, event.get("headers", {})


# Anthropic's status and type of an error → the status and code that all others get.
OF_MESSAGES = {(429, "rate_limit_error"): (429, "rate_limit_exceeded"), (529, "overloaded_error"): (503, "engine_busy")}


def refusal_of(status: int, body: dict[str, Any]) -> tuple[int, str]:
    """The status and the code of an error, in whichever protocol."""
    error = body["error"]
    return (status, error["code"]) if "code" in error else OF_MESSAGES[status, error["type"]]


WAYS_IN: dict[str, Callable[[GatewayUnderTest, dict[str, str]], Awaitable[Answer]]] = {
    "streamed": streamed,
    "whole": whole,
    "compacted": compacted,
    "counted": counted,
    "passed through": passed_through,
    "a message": as_message,
    "a chat": as_chat,
    "websocket": by_websocket,
}
every_way_in = pytest.mark.parametrize("way_in", WAYS_IN.values(), ids=WAYS_IN)


@asynccontextmanager
async def occupied(gateway: GatewayUnderTest, engine: MockEngine, key: dict[str, str]) -> AsyncIterator[asyncio.Event]:
    """While a response of this key runs, until the event is set or the client is gone."""
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with aiohttp.ClientSession() as client:
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with client.post(gateway.url + "/v1/responses", json=body, headers=key) as answer:
            assert answer.status == 200
            await answer.content.readuntil(b"response.output_text.delta")
            yield go_on
            if go_on.is_set():
                rest = await answer.content.read()
                assert b"response.completed" in rest


async def until(is_so: Callable[[], bool]) -> None:
    """Lets others run until something is so, and fails if it takes too long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 20
    while not is_so():
        assert loop.time() < until
        await asyncio.sleep(0.005)


async def left(gateway: GatewayUnderTest) -> None:
    """Waits until no place is taken."""
    admission = gateway.gateway.admission
    queues = [*admission.owners._queues.values(), *admission.engines._queues.values()]
    await until(lambda: not any(queue.running or queue.waiting for queue in queues))


class Turns:
    """Answers that end one by one, and how many of them there were at once."""

    def __init__(self, engine: MockEngine) -> None:
        self.now = self.most = 0
        self.go_on = asyncio.Semaphore(0)
        self.begun = asyncio.Semaphore(0)
        engine.otherwise = lambda body: self

    async def __call__(self, write: Writer) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.release()
        try:
            await self.go_on.acquire()
        finally:
            self.now -= 1
        await write(text("Hello"))


class Doors:
    """The engine answers when it is let: `open()` lets so many requests through."""

    def __init__(self, engine: MockEngine) -> None:
        self.waiting = 0
        self.most = 0
        self._free = asyncio.Semaphore(0)
        engine.otherwise = lambda body: self._script(text("done"))

    def _script(self, data: bytes) -> Script:
        async def answer(write: Writer) -> None:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            try:
                await self._free.acquire()
            finally:
                self.waiting -= 1
            await write(data)

        return answer

    def open(self, number: int = 1) -> None:
        for _ in range(number):
            self._free.release()
