"""A small proxy in front of a subject: it passes everything on, and notes when responses come and when calls are in them."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import msgspec
from aiohttp import web

LARGEST_BODY = 64 * 1024 * 1024
RESPONSES = "/v1/responses"
HOP_BY_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length", "keep-alive", "authorization"})


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    key: str = "none"


@dataclass(slots=True)
class Seen:
    """What one task made of the subject."""

    began: float = field(default_factory=time.monotonic)
    responses: int = 0
    # The first answer that was no stream: the subject did not take the request.
    rejected: str = ""
    # Seconds until the first call was there, so that Codex could act; None: there was no call.
    first_action: float | None = None

    def see_frame(self, frame: bytes) -> None:
        # Most frames are deltas, which nobody has to decode.
        if self.first_action is None and b"response.output_item.done" in frame and is_call(frame):
            self.first_action = time.monotonic() - self.began


def is_call(frame: bytes) -> bool:
    for line in frame.splitlines():
        if line.startswith(b"data:"):
            item = msgspec.json.decode(line.removeprefix(b"data:")).get("item", {})
            return bool(str(item.get("type", "")).endswith("_call"))
    return False


class Watcher:
    """`responses` makes the responses; everything else, such as the list of models, comes from `others`."""

    def __init__(self, responses: Target, others: Target, session: aiohttp.ClientSession) -> None:
        self.port = 0
        self.seen = Seen()
        # Called with the body of each request for a response.
        self.when_asked: Callable[[bytes], None] = lambda body: None
        self._responses = responses
        self._others = others
        self._session = session

    def begin(self) -> None:
        self.seen = Seen()

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        makes_response = request.method == "POST" and request.path == RESPONSES
        target = self._responses if makes_response else self._others
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers["Authorization"] = f"Bearer {target.key}"
        url, body = target.url + request.path_qs, await request.read()
        if makes_response:
            self.when_asked(body)
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            if makes_response:
                return await self._watch(request, answer)
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    async def _watch(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        seen = self.seen
        seen.responses += 1
        if answer.status != 200:
            body = await answer.read()
            seen.rejected = seen.rejected or f"{answer.status}: {body.decode(errors='replace')[:200]}"
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)
        passed = web.StreamResponse(headers={"Content-Type": answer.headers.get("Content-Type", "text/event-stream")})
        await passed.prepare(request)
        rest = b""
        async for piece in answer.content.iter_any():
            await passed.write(piece)
            *frames, rest = (rest + piece).split(b"\n\n")
            for frame in frames:
                seen.see_frame(frame)
        await passed.write_eof()
        return passed


def long_session() -> aiohttp.ClientSession:
    """For answers that take long. llama.cpp closes the connection after each, whatever it has announced."""
    connector = aiohttp.TCPConnector(force_close=True)
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), connector=connector)


@asynccontextmanager
async def watching(responses: Target, others: Target) -> AsyncIterator[Watcher]:
    async with long_session() as session:
        watcher = Watcher(responses, others, session)
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", watcher.pass_on)
        # Codex that is stopped ends the answer too, so that the model has time for the next task.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        watcher.port = runner.addresses[0][1]
        try:
            yield watcher
        finally:
            await runner.cleanup()
