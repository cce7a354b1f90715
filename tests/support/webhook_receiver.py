"""An endpoint of webhooks: what it got, verified by the openai SDK, and how it answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import openai
from aiohttp import web

SECRET = "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cw=="
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def accept(request: web.Request) -> web.StreamResponse:
    return web.Response()


class Receiver:
    def __init__(self, url: str) -> None:
        self.url = url
        self.answer: Answer = accept
        self.events: list[Any] = []
        self._came = asyncio.Condition()

    async def receive(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        # Raises for a wrong signature.
        event = openai.OpenAI(api_key="none").webhooks.unwrap(body, dict(request.headers), secret=SECRET)
        async with self._came:
            self.events.append(event)
            self._came.notify_all()
        return await self.answer(request)

    async def got(self, count: int) -> list[Any]:
        async with self._came:
            await self._came.wait_for(lambda: len(self.events) >= count)
        return self.events


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver("")
    app = web.Application()
    app.add_routes([web.post("/hook", receiver.receive)])
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()
