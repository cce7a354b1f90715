"""A server of /v1/embeddings, as strict as a real one: it takes texts up to a length, and few of them at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from support.embedders import meaning


class EmbeddingEngine:
    def __init__(self) -> None:
        self.url = ""
        self.model = "embedder"
        self.longest = 2000
        self.status = 200
        # In place of an answer.
        self.body: bytes | None = None
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        # How many requests there were at once, at most.
        self.at_once = 0
        self._now = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        await self.may_answer.wait()
        self._now -= 1
        if self.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=self.status)
        if self.body is not None:
            return web.Response(body=self.body)
        if any(len(text) > self.longest for text in body["input"]):
            return web.json_response({"error": {"message": "input is too large"}}, status=500)
        rows = [{"object": "embedding", "index": at, "embedding": meaning(text)} for at, text in enumerate(body["input"])]
        # The index says which text a row is for, not its place.
        return web.json_response({"object": "list", "model": self.model, "data": rows[::-1]})

    async def list_models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.model, "object": "model", "owned_by": "mock"}]})


@asynccontextmanager
async def running_embeddings() -> AsyncIterator[EmbeddingEngine]:
    engine = EmbeddingEngine()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.add_routes([web.post("/v1/embeddings", engine.embed), web.get("/v1/models", engine.list_models)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield engine
    finally:
        await runner.cleanup()
