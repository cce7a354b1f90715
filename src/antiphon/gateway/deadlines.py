"""The time that a response may take in all, from its beginning to its end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from antiphon.errors import ApiError, OutOfTime

TOO_LONG = "The response took longer than {most:g} s, which is the limit here (`response_timeout`)."


class Deadline:
    """`start()` it, and `cancel()` it in any case."""

    def __init__(self, most: float | None) -> None:
        """In seconds. None: any time."""
        self._most = most
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at(self) -> float | None:
        """By the loop's clock. None: there is none, or it has not been started."""
        return self._timer.when() if self._timer is not None else None

    def start(self, when_over: Callable[[ApiError], None]) -> None:
        if (most := self._most) is not None:
            # The error is made only if it is needed.
            self._timer = asyncio.get_running_loop().call_later(most, lambda: when_over(_out_of_time(most)))

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


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
