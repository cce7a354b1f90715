"""A small proxy in front of a subject: it passes everything on, and notes the calls, their results, and the last words."""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

LARGEST_BODY = 64 * 1024 * 1024
RESPONSES = "/v1/responses"
EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) *(-?\d+)", re.MULTILINE)
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
    # The items of the last request, and the words of the last answer.
    items: list[dict[str, Any]] = field(default_factory=list)
    words: str = ""

    def see_request(self, body: bytes) -> None:
        self.responses += 1
        given = msgspec.json.decode(body).get("input")
        self.items = given if isinstance(given, list) else []
        self.words = ""

    def see_frame(self, frame: bytes) -> None:
        # Most frames are deltas, which nobody has to decode.
        if b"response.output_item.done" not in frame:
            return
        item = item_of(frame)
        if item.get("type") == "message":
            self.words += "".join(part.get("text", "") for part in item.get("content", ()))
        elif self.first_action is None and str(item.get("type", "")).endswith("_call"):
            self.first_action = time.monotonic() - self.began

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The calls, each with what it reported."""
        outputs = {item.get("call_id"): text_of(item.get("output")) for item in self.items if is_output(item)}
        calls = [item for item in self.items if "call_id" in item and not is_output(item)]
        return [(f"{item.get('name')} {written_in(item)}", outputs.get(item["call_id"], "")) for item in calls]

    @property
    def repeated(self) -> list[str]:
        """The calls that were made again although they had succeeded, with nothing between. Who polls, makes the same call."""
        steps = self.steps
        again = (call for (call, output), (next, _) in pairwise(steps) if call == next and has_succeeded(output))
        return [call for call in again if not call.startswith("write_stdin ")]


def item_of(frame: bytes) -> dict[str, Any]:
    for line in frame.splitlines():
        if line.startswith(b"data:"):
            item = msgspec.json.decode(line.removeprefix(b"data:")).get("item")
            return item if isinstance(item, dict) else {}
    return {}


def is_output(item: dict[str, Any]) -> bool:
    return str(item.get("type", "")).endswith("_output")


def written_in(item: dict[str, Any]) -> str:
    return next((str(item[name]) for name in ("arguments", "input", "operation", "action") if name in item), "")


def text_of(output: Any) -> str:
    return output if isinstance(output, str) else msgspec.json.encode(output).decode()


def has_succeeded(output: str) -> bool:
    """As Codex reports it."""
    code = EXIT_CODE.search(output)
    return code is not None and code[1] == "0"


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
            self.seen.see_request(body)
            self.when_asked(body)
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            if makes_response:
                return await self._watch(request, answer)
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    async def _watch(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        seen = self.seen
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
