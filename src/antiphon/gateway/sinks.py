"""Where the events of a response go, and when they are written."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from antiphon.core.fast_path import AnyEvent
from antiphon.core.sse import Encoder


class Sink(Protocol):
    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        """At least one event. `last`: the terminal event is among them. True: more has been written than the client reads,
        and the engine should pause until `drain()` returns.
        """

    async def drain(self) -> None: ...


class NoSink:
    """For an answer that is not streamed: only the response counts, and no event is encoded."""

    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        return False

    async def drain(self) -> None: ...


class ByteStream(Protocol):
    """The client's side of a connection, as the transport offers it."""

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool: ...
    def write_event(self, event: bytes) -> bool: ...
    async def drain(self) -> None: ...


class EncodedSink:
    """Events to a client, encoded as its protocol has them."""

    __slots__ = ("_encoder", "_stream")

    def __init__(self, stream: ByteStream, encoder: Encoder) -> None:
        self._stream = stream
        self._encoder = encoder

    def write(self, events: Sequence[AnyEvent], *, last: bool = False) -> bool:
        if len(events) == 1 and not last:
            data = self._encoder.encode(events[0])
            return self._stream.write_event(data) if data else False
        # A protocol need not have a form for every event.
        encode = self._encoder.encode
        encoded = [data for event in events if (data := encode(event))]
        if last:
            encoded += self._encoder.end
        return self._stream.write(encoded, last=last) if encoded else False

    async def drain(self) -> None:
        await self._stream.drain()


class Writer(Protocol):
    def flush(self) -> None: ...


class WriteBatch:
    """The runs that have something to write. They write together, once every socket that was ready has been read.

    A write wakes the process that reads it, which costs more than the write itself. Writes that follow one another at once
    wake it once, and several reads of one run become one write.
    """

    __slots__ = ("_loop", "_writers")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._writers: list[Writer] = []

    def add(self, writer: Writer) -> None:
        if not self._writers:
            self._loop.call_soon(self._flush)
        self._writers.append(writer)

    def _flush(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.flush()
