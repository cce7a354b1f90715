"""An engine without a model: it answers what was asked for before, and records what was not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from bench.search.answers import Recorded, key_of, request_line

# As llama-server names its model, and what that model can read.
MODEL = {"id": "default", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32_768}}


class RecordedEngine:
    """`missed` is how many requests it had no answer to. `record`: a new file that gets these, each once."""

    def __init__(self, answers: dict[str, Recorded], record: Path | None) -> None:
        self._answers = answers
        self._record = record
        if record is not None:
            record.write_text("", encoding="utf-8")
        self._written: set[str] = set()
        self.missed = 0
        self.url = ""

    async def chat(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        found = self._answers.get(key_of(body))
        if found is None:
            return self._miss(body)
        content_type = "text/event-stream" if body.get("stream") else "application/json"
        return web.Response(text=found.text, status=found.status, content_type=content_type)

    def _miss(self, body: dict[str, Any]) -> web.Response:
        self.missed += 1
        key = key_of(body)
        if self._record is not None and key not in self._written:
            with self._record.open("a", encoding="utf-8") as file:
                file.write(request_line(body) + "\n")
        self._written.add(key)
        return web.json_response({"error": {"message": f"There is no answer to {key}.", "code": 400}}, status=400)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [MODEL]})


@asynccontextmanager
async def recorded_engine(answers: dict[str, Recorded], record: Path | None) -> AsyncIterator[RecordedEngine]:
    engine = RecordedEngine(answers, record)
    # As much as the gateway may send.
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.add_routes([web.get("/v1/models", engine.models), web.post("/v1/chat/completions", engine.chat)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield engine
    finally:
        await runner.cleanup()
