"""A body that was compressed on the way, although nobody asked for that."""

from collections import deque

import aiohttp

from antiphon.transport.interfaces import NO_RECEIVER, NotHttp, Receiver
from antiphon.transport.internals import DeflateBuffer


class Decompression:
    """Receives a compressed body, and passes on what it was. A few bytes may become many: while it is paused, what has arrived
    stays compressed."""

    # It is the reader that aiohttp's decompressor feeds: at most so many bytes at once.
    _low_water = 64 * 1024
    total_compressed_bytes = 0

    def __init__(self, receiver: Receiver, compression: str) -> None:
        """Raises NotHttp if nothing is installed for it."""
        self.receiver = receiver
        self._arrived: deque[bytes] = deque()
        # The decompressor has not passed on all that it was fed.
        self._has_more = False
        self._paused = False
        self._running = False
        # What ended the compressed body. None: it has not ended.
        self._end: tuple[BaseException | None] | None = None
        try:
            self._buffer = DeflateBuffer(self, compression)  # type: ignore[arg-type]
        except Exception as unknown:
            raise NotHttp from unknown

    def receive(self, data: bytes) -> None:
        self._arrived.append(data)
        self._run()

    def ended(self, error: BaseException | None) -> None:
        self._end = (error,)
        self._run()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._run()

    def close(self, error: BaseException) -> None:
        """What has not been decompressed yet is dropped."""
        self._arrived.clear()
        self._has_more = False
        self._report(error)

    def _run(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while not self._paused and (self._has_more or self._arrived):
                data = b"" if self._has_more else self._arrived.popleft()
                self._has_more = self._buffer.feed_data(data, len(data))
            if self._end is not None and not self._has_more and not self._arrived:
                if self._end[0] is None:
                    self._buffer.feed_eof()
                self._report(self._end[0])
        except Exception as bad:
            error = aiohttp.ClientPayloadError("The body cannot be decompressed.")
            error.__cause__ = bad
            self.close(error)
        finally:
            self._running = False

    def _report(self, error: BaseException | None) -> None:
        receiver, self.receiver = self.receiver, NO_RECEIVER
        receiver.ended(error)

    # ---- what the decompressor calls ---------------------------------------------------------------------------------

    def feed_data(self, data: bytes, size: int) -> None:
        self.receiver.receive(data)

    def feed_eof(self) -> None: ...
