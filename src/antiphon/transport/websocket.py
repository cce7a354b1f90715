"""A server's WebSocket that lets the gateway say something before it closes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSCloseCode, web


async def _nothing() -> None: ...


class Socket(web.WebSocketResponse[Any]):
    """aiohttp's own closes by itself when a message is too large: here the client gets an error message first."""

    refuse_large: Callable[[], None]

    def __init__(self, *, farewell: float, **options: Any) -> None:
        """`farewell`: how long the client may take to answer the closing frame, in seconds."""
        super().__init__(timeout=farewell, **options)
        self._farewell = farewell
        # Sends what is still buffered; set by a stream that buffers.
        self.before_close: Callable[[], Awaitable[None]] = _nothing

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        if code == WSCloseCode.MESSAGE_TOO_BIG and not self.closed:
            self.refuse_large()
            # A client that is still sending does not read yet. What it sends is thrown away; a connection closed on it would
            # be reset, and the error lost.
            await asyncio.sleep(self._farewell)
        if drain and not self.closed:
            await self.before_close()
        return await super().close(code=code, message=message, drain=drain)
