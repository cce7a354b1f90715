"""The bodies of engines' answers that are read as a whole, or as far as they are wanted. None of them can fill the memory."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import aiohttp

from antiphon.errors import EngineDisagrees, counted
from antiphon.transport import Answer, Receiver

# Of an error, only the beginning is shown. An engine that does not send it in time has said enough by its status.
LARGEST_ERROR = 64 * 1024
ERROR_TIMEOUT = 5.0
# Lists of models, templates, and the tokens of a long prompt, in bytes.
LARGEST_DOCUMENT = 32 * 1024 * 1024
# What a compressed answer may become, in bytes: a few kilobytes may become gigabytes. Antiphon does not ask for compression;
# some proxies compress all the same.
LARGEST_DECOMPRESSED = 64 * 1024 * 1024


class TooLarge(aiohttp.ClientPayloadError):
    """A compressed body has become too large."""


async def read_error(answer: aiohttp.ClientResponse, within: float = ERROR_TIMEOUT) -> bytes:
    """As much of it as is wanted, and comes within so many seconds. The connection is closed."""
    body = bytearray()
    try:
        with suppress(aiohttp.ClientError, OSError):
            async with asyncio.timeout(within):
                while len(body) < LARGEST_ERROR and (piece := await answer.content.readany()):
                    body += piece
    finally:
        answer.close()
    return bytes(body[:LARGEST_ERROR])


async def read_refusal(answer: Answer, within: float = ERROR_TIMEOUT) -> bytes:
    """The same, of an answer that is pushed."""
    beginning = Beginning(LARGEST_ERROR)
    answer.push(beginning)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await beginning.complete
    finally:
        answer.close()
    return bytes(beginning.data[:LARGEST_ERROR])


class Beginning:
    """Receives as much of a body as is wanted."""

    def __init__(self, wanted: int) -> None:
        self.data = bytearray()
        self.complete = asyncio.get_running_loop().create_future()
        self._wanted = wanted

    def receive(self, data: bytes) -> None:
        if len(self.data) < self._wanted:
            self.data += data
        if len(self.data) >= self._wanted:
            self.ended(None)

    def ended(self, error: BaseException | None) -> None:
        if not self.complete.done():
            self.complete.set_result(None)


async def read_document(answer: aiohttp.ClientResponse, largest: int = LARGEST_DOCUMENT) -> bytes:
    """All of it, which may arrive in many pieces."""
    body = bytearray()
    try:
        while piece := await answer.content.readany():
            body += piece
            if len(body) > largest:
                raise EngineDisagrees(f"The engine's answer is larger than {counted(largest, 'byte')}.", may_pass=False)
    except BaseException:
        answer.close()
        raise
    return bytes(body)


class LimitedReceiver:
    """Passes on what a compressed body becomes, up to a limit. Beyond it, the body has ended with an error, and `stop` is
    called: no more is to be decompressed."""

    def __init__(self, receiver: Receiver, stop: Callable[[], None], most: int = LARGEST_DECOMPRESSED) -> None:
        self._receiver = receiver
        self._stop = stop
        self._left = most

    def receive(self, data: bytes) -> None:
        if self._left < 0:
            return
        self._left -= len(data)
        if self._left < 0:
            self._stop()
            self._receiver.ended(TooLarge("The body is too large."))
        else:
            self._receiver.receive(data)

    def ended(self, error: BaseException | None) -> None:
        if self._left >= 0:
            self._receiver.ended(error)
