"""A WebSocket to the gateway: messages out, events back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from support.engine import DONE, USAGE, Writer, chunk
from support.gateway import GatewayUnderTest
from support.streams import TERMINAL, check_stream

Event = dict[str, Any]


class Socket:
    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self.connection = connection

    async def send(self, input: Any = "Hi", **fields: Any) -> None:
        body = {"type": "response.create", "model": "mock", "input": input, **fields}
        await self.connection.send_str(msgspec.json.encode(body).decode())

    async def event(self) -> Event:
        """The next frame, which is exactly one event."""
        message = await self.connection.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        event: Event = msgspec.json.decode(message.data)
        return event

    async def turn(self) -> list[Event]:
        """All events of the next response, every invariant checked."""
        events = [await self.event()]
        while events[-1]["type"] not in TERMINAL:
            events.append(await self.event())
        check_stream(events)
        return events

    async def create(self, input: Any = "Hi", **fields: Any) -> dict[str, Any]:
        """The response at the end of its run."""
        await self.send(input, **fields)
        response: dict[str, Any] = (await self.turn())[-1]["response"]
        return response

    async def refused(self, input: Any = "Hi", **fields: Any) -> Event:
        """The error that answers a request."""
        await self.send(input, **fields)
        error = await self.event()
        assert error["type"] == "error", error
        return error

    async def closed(self) -> int | None:
        """The code with which the gateway has closed the connection."""
        message = await self.connection.receive()
        assert message.type is aiohttp.WSMsgType.CLOSE, message
        return self.connection.close_code


@asynccontextmanager
async def connected(gateway: GatewayUnderTest, **options: Any) -> AsyncIterator[Socket]:
    async with gateway.client.ws_connect(gateway.url + "/v1/responses", **options) as connection:
        yield Socket(connection)


def paused() -> tuple[asyncio.Event, Any]:
    """An answer that stops after its first word until the event is set."""
    go_on = asyncio.Event()

    async def script(write: Writer) -> None:
        await write(chunk({"content": "one"}))
        await go_on.wait()
        await write(chunk({"content": " two"}) + chunk(finish="stop") + USAGE + DONE)

    return go_on, script


async def until_first_word(socket: Socket) -> list[dict[str, Any]]:
    """The events up to the first word."""
    events = [await socket.event()]
    while events[-1]["type"] != "response.output_text.delta":
        events.append(await socket.event())
    return events


async def to_the_end(socket: Socket, events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response of a run that has begun with these events."""
    while events[-1]["type"] not in TERMINAL:
        events.append(await socket.event())
    return check_stream(events)
