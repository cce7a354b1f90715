"""One connection between the supervisor and a worker process: whole messages in both directions, in their order, and the
questions that the worker asks over it.

It is a pair of sockets without a name, so nobody else can open it. When one side ends, however that happens, the other
side reads the end of the channel.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from antiphon.app.processes.messages import Answer, Ask, Note
from antiphon.errors import ShuttingDown

Received = TypeVar("Received")

# The length of a message, in front of it.
LENGTH = 4


class Channel(Generic[Received]):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder: msgspec.msgpack.Decoder[Received] = msgspec.msgpack.Decoder(received)
        self._encode = msgspec.msgpack.Encoder().encode

    @classmethod
    async def over(cls, end: socket.socket, received: Any) -> "Channel[Received]":
        """`received`: the type of the messages that are read here."""
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end), received)

    def send(self, message: msgspec.Struct) -> None:
        """At the end of the channel, nothing happens: who reads it finds out."""
        if not self._writer.is_closing():
            encoded = self._encode(message)
            self._writer.write(len(encoded).to_bytes(LENGTH) + encoded)

    async def receive(self) -> Received | None:
        """None: the other side has ended."""
        try:
            length = int.from_bytes(await self._reader.readexactly(LENGTH))
            return self._decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def receive_all(self, handle: Callable[[Received], Awaitable[None] | None]) -> None:
        """Until the other side has ended."""
        while (message := await self.receive()) is not None:
            if (handling := handle(message)) is not None:
                await handling

    async def flush(self) -> None:
        """What was sent last must leave before the process ends."""
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except ConnectionError:
            pass


class Questions:
    def __init__(self, channel: Channel[Any]) -> None:
        self._channel = channel
        self._number = 0
        self._closed = False
        self._open: dict[int, asyncio.Future[Any]] = {}

    def close(self) -> None:
        """The supervisor has ended, and so will this process: nobody waits any more."""
        self._closed = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(ShuttingDown())

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Raises EngineUnavailable if the supervisor has ended."""
        if self._closed:
            raise ShuttingDown()
        self._number += 1
        number = self._number
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        self._channel.send(Ask(number, name, arguments))
        try:
            return await answer
        finally:
            del self._open[number]

    def note(self, name: str, *arguments: Any) -> None:
        """Says something that needs no answer."""
        self._channel.send(Note(name, arguments))

    def answered(self, answer: Answer) -> None:
        # Nobody waits any more for the answer to a question that was given up.
        if (waiting := self._open.get(answer.number)) is not None and not waiting.done():
            waiting.set_result(answer.result)
