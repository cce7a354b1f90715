"""The body of an engine's answer, piece by piece, and the timer that watches the waits."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from antiphon.transport import NotHttp, PieceReader


class Body(aiohttp.StreamReader):
    """What an answer has of its body, on a connection that may be closed."""

    def __init__(self) -> None:
        self.connection = SimpleNamespace(closed=False)
        protocol = SimpleNamespace(connected=True, _reading_paused=False, resume_reading=lambda **how: None)
        super().__init__(cast(Any, protocol), 2**16, loop=asyncio.get_running_loop())

    def reader(self) -> PieceReader:
        return PieceReader(cast(Any, SimpleNamespace(content=self, connection=self.connection, close=self.close)))

    def close(self) -> None:
        """As aiohttp closes an answer that somebody reads."""
        self.set_exception(aiohttp.ClientConnectionError("Connection closed"))


class Timers:
    """Those of the event loop are started by hand, at the time that a test says it is."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.made: list[tuple[float, Callable[[], None]]] = []
        loop = asyncio.get_running_loop()
        patch.setattr(loop, "time", lambda: self.now)
        patch.setattr(loop, "call_later", self._call_later)

    def _call_later(self, seconds: float, look: Callable[[], None]) -> Any:
        self.made.append((self.now + seconds, look))
        return SimpleNamespace(cancel=lambda: None)

    def pass_until(self, now: float) -> None:
        while self.made and self.made[-1][0] <= now:
            self.now, look = self.made.pop()
            look()
        self.now = now


async def begun(reader: PieceReader, within: float) -> asyncio.Task[bytes]:
    """It waits for the next piece."""
    reading = asyncio.ensure_future(reader.next(within))
    await asyncio.sleep(0)
    return reading


async def test_one_timer_watches_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    body, timers = Body(), Timers(monkeypatch)
    with body.reader() as reader:
        for piece in (b"a", b"b", b"c"):
            reading = await begun(reader, 60)
            body.feed_data(piece)
            assert await reading == piece
        assert len(timers.made) == 1
        body.feed_eof()
        assert await reader.next() == b""


async def test_a_wait_has_its_time_from_its_own_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    body, timers = Body(), Timers(monkeypatch)
    with body.reader() as reader:
        reading = await begun(reader, 0.75)
        timers.pass_until(0.4)
        body.feed_data(b"a")
        assert await reading == b"a"
        reading = await begun(reader, 0.75)
        timers.pass_until(1.1)
        assert not reading.done()
        timers.pass_until(1.2)
        with pytest.raises(TimeoutError):
            await reading


async def test_a_reader_that_nobody_waits_for_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    body, timers = Body(), Timers(monkeypatch)
    with body.reader() as reader:
        body.feed_data(b"a")
        assert await reader.next(1) == b"a"
        timers.pass_until(60)
        reading = await begun(reader, 1)
        timers.pass_until(60.9)
        body.feed_data(b"b")
        assert await reading == b"b"


async def test_a_connection_that_stays_closed_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    body, timers = Body(), Timers(monkeypatch)
    with body.reader() as reader:
        reading = await begun(reader, 60)
        body.connection.closed = True
        timers.pass_until(0.9)
        assert not reading.done()
        timers.pass_until(1.1)
        with pytest.raises(NotHttp):
            await reading
