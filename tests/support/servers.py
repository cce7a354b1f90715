"""Servers of the tests, on a free port of this machine."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from aiohttp import web


@asynccontextmanager
async def running_app(app: web.Application) -> AsyncIterator[str]:
    """Its URL. A handler is cancelled when its client leaves."""
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class LocalServer:
    """Serves its routes as long as its context lasts."""

    def __init__(self) -> None:
        self.url = ""
        self._opened = AsyncExitStack()

    def routes(self) -> Sequence[web.AbstractRouteDef]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.add_routes(self.routes())
        self.url = await self._opened.enter_async_context(running_app(app))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()
