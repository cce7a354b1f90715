"""The connections of aiohttp's client: those that are kept, and those that serve one request."""

from typing import Any

import aiohttp

# For an engine that announces to keep a connection, and closes it after each stream: the next request would run into that.
CLOSE_CONNECTION = {"Connection": "close"}


class EngineConnector(aiohttp.TCPConnector):
    """A request with `Connection: close` gets a connection of its own, and no other request is sent on it (RFC 9112, section
    9.6). aiohttp alone would keep it, if the engine does not announce that it closes it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._unkept = aiohttp.TCPConnector(limit=self.limit, force_close=True)

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> aiohttp.connector.Connection:
        if req.headers.get("Connection") == "close":
            return await self._unkept.connect(req, traces, timeout)
        return await super().connect(req, traces, timeout)

    async def close(self, *, abort_ssl: bool = False) -> None:
        await self._unkept.close(abort_ssl=abort_ssl)
        await super().close(abort_ssl=abort_ssl)
