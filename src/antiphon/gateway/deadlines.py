"""The time that a response may take in all, from its beginning to its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from antiphon.errors import ApiError, OutOfTime

TOO_LONG = "The response took longer than {most:g} s, which is the limit here (`response_timeout`)."


class Ends(Protocol):
    def abort(self, error: ApiError) -> None: ...


class Deadlines:
    """Of the responses of a gateway: `start()` one, and `cancel()` it in any case.

    All of them may take the same time, so the first to begin is the first whose time is over, and one timer is enough. A timer
    for each took 690 bytes.
    """

    __slots__ = ("_ends", "_loop", "_most", "_timer")

    def __init__(self, most: float | None) -> None:
        """In seconds. None: any time."""
        self._most = most
        self._loop = asyncio.get_running_loop()
        # By the loop's clock, the earliest first.
        self._ends: dict[Ends, float] = {}
        # Of the first; or of an earlier one, which has ended by itself.
        self._timer: asyncio.TimerHandle | None = None

    def start(self, response: Ends) -> float | None:
        """When it has to end, by the loop's clock. None: at any time."""
        if self._most is None:
            return None
        end = self._ends[response] = self._loop.time() + self._most
        if self._timer is None:
            self._timer = self._loop.call_at(end, self._look)
        return end

    def cancel(self, response: Ends) -> None:
        self._ends.pop(response, None)

    def _look(self) -> None:
        assert self._most is not None
        now, self._timer = self._loop.time(), None
        for response, end in list(self._ends.items()):
            if end > now:
                self._timer = self._loop.call_at(end, self._look)
                return
            del self._ends[response]
            # By itself: what goes wrong with it concerns no other.
            self._loop.call_soon(response.abort, _out_of_time(self._most))


@asynccontextmanager
async def in_time(most: float | None, began: float) -> AsyncIterator[None]:
    """Ends what is done here when it has taken so many seconds. `began`: by the loop's clock."""
    try:
        async with asyncio.timeout_at(began + most if most is not None else None) as limit:
            yield
    except TimeoutError:
        if most is None or not limit.expired():
            raise
        raise _out_of_time(most) from None


def _out_of_time(most: float) -> OutOfTime:
    return OutOfTime(TOO_LONG.format(most=most))
