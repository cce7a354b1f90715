"""A gateway in front of test engines, on a real socket, and the requests that tests send to it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import aiohttp.web
import msgspec
from conformance.watchers import recorded

from antiphon.app.app import make_app, make_runner
from antiphon.app.lifetime import BESIDE
from antiphon.app.options import DEFAULT_INTERVALS, Intervals
from antiphon.app.parts import Extensions, WorkerPart
from antiphon.app.processes.listening import bind_private
from antiphon.app.reload import Reloader
from antiphon.core.protocols.client_protocol import ClientProtocol
from antiphon.core.protocols.responses.protocol import RESPONSES
from antiphon.engines.embedded.process import EngineProcess, SharedEngineProcess
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.runs.gateway import ReceivedRequest
from antiphon.gateway.runs.observers import arrive
from antiphon.server.parts import APP
from antiphon.server.routes.websocket import Connection
from antiphon.settings.settings import Settings
from antiphon.settings.tables import ContainerSettings
from antiphon.store import Store, open_store
from antiphon.store.wakeups import POLL_SECONDS
from antiphon.transport import make_session
from support.commands import DATA
from support.engine import OWN_FIELDS, Answer, MockEngine
from support.streams import check_response, check_stream, parse

# The settings of every gateway under test, unless the test sets others. Fixtures may change them.
DEFAULTS: dict[str, Any] = {
    "seal_key": "for the tests",
    "probe": False,
    # To find out whether the sandbox works takes time.
    "containers": ContainerSettings(enabled=False),
    # There is nothing: a model that the user has pulled must not change a test.
    "cache_dir": os.path.join(DATA, "cache"),
}
# One for all gateways under test: a new process would take half a second for each.
CHECKER = Checker(deadline=30)


class GatewayUnderTest:
    def __init__(self, url: str, app: aiohttp.web.Application, client: aiohttp.ClientSession, reloader: Reloader) -> None:
        self.url = url
        self._reloader = reloader
        self.app = app
        self.gateway = app[APP].gateway
        self.examiner = app[BESIDE].examiner
        # WebSockets.
        self.connections = cast(set[Connection], app[APP].open.connections)
        self.client = client
        self.notice = ""

    async def post(self, body: Any, path: str = "/v1/responses", **options: Any) -> tuple[int, dict[str, Any]]:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        async with self.client.post(self.url + path, data=data, **options) as answer:
            self.notice = answer.headers.get("antiphon-notice", "")
            self.headers = answer.headers
            return answer.status, msgspec.json.decode(await answer.read())

    async def received(self, body: Any, protocol: ClientProtocol = RESPONSES) -> ReceivedRequest:
        """A request that came without HTTP."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.gateway.receive(arrive(data, "", protocol), protocol)

    async def get(self, path: str, *, method: str = "GET", **options: Any) -> tuple[int, dict[str, Any]]:
        """Any request without a body."""
        async with self.client.request(method, self.url + path, **options) as answer:
            self.headers = answer.headers
            return answer.status, msgspec.json.decode(await answer.read())

    async def create(self, input: Any = "Hi", **fields: Any) -> dict[str, Any]:
        """A response that is not streamed, checked."""
        status, response = await self.post({"model": "mock", "input": input, **fields})
        assert status == 200, response
        check_response(response)
        return response

    async def stream(self, input: Any = "Hi", **fields: Any) -> list[dict[str, Any]]:
        """The events of a streamed response, every invariant checked."""
        body = msgspec.json.encode({"model": "mock", "input": input, "stream": True, **fields})
        async with self.client.post(self.url + "/v1/responses", data=body) as answer:
            self.notice = answer.headers.get("antiphon-notice", "")
            self.headers = answer.headers
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            events = parse(await answer.read())
        check_stream(events)
        return events

    async def reload(self, settings: Settings) -> None:
        """As the signal does it."""
        await self._reloader.reload(lambda: settings)

    async def probed(self) -> None:
        """Waits until the engines have been found, and probed."""
        await self.gateway.pool.ready_event.wait()
        await self.examiner.wait()


@asynccontextmanager
async def running_gateway(
    *engines: MockEngine | str,
    embedded: EngineProcess | SharedEngineProcess | None = None,
    shares: Store | None = None,
    extensions: Extensions | None = None,
    intervals: Intervals = DEFAULT_INTERVALS,
    poll: float = POLL_SECONDS,
    part: WorkerPart | None = None,
    path: Path | None = None,
    **settings: Any,
) -> AsyncIterator[GatewayUnderTest]:
    """`shares` is the store of another gateway, beside which this one runs. `poll` is the poll interval of its own store.
    `part`, `path`: for one that is a worker process of several, and the Unix socket where the others reach it."""
    urls = tuple(engine if isinstance(engine, str) else engine.url for engine in engines)
    chosen = Settings(upstream=urls, port=0, **(DEFAULTS | settings))
    async with (
        make_session(chosen.transport) as session,
        aiohttp.ClientSession() as client,
        open_store(chosen.store or "memory:", poll=poll) as store,
    ):
        extensions = extensions or Extensions(checker=CHECKER, intervals=intervals)
        app = make_app(chosen, session, shares or store, embedded, extensions, part)
        app.middlewares.insert(0, recorded)
        runner = make_runner(app)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        if path is not None:
            await aiohttp.web.SockSite(runner, bind_private(path)).start()
        try:
            reloader = Reloader(app, chosen)
            yield GatewayUnderTest(f"http://127.0.0.1:{runner.addresses[0][1]}", app, client, reloader)
        finally:
            await runner.cleanup()
            # aiohttp keeps the applications of its last 1024 handlers, each with all that belongs to its gateway.
            aiohttp.web_app._cached_build_middleware.cache_clear()


@asynccontextmanager
async def started(mock: MockEngine, port: int = 0) -> AsyncIterator[MockEngine]:
    """The mock engine, until the end of the block."""
    await mock.start(port)
    try:
        yield mock
    finally:
        await mock.stop()


@asynccontextmanager
async def standing_before(
    owned_by: str, *answers: Answer, **settings: Any
) -> AsyncIterator[tuple[GatewayUnderTest, MockEngine]]:
    """A gateway in front of an engine of this kind, which gives these answers."""
    engine = MockEngine(owned_by=owned_by, own_fields=OWN_FIELDS.get(owned_by, ()))
    await engine.start()
    engine.will(*answers)
    try:
        async with running_gateway(engine, **settings) as gateway:
            yield gateway, engine
    finally:
        await engine.stop()
