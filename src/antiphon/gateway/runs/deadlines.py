"""The time that a response may take in all, from its beginning to its end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from antiphon.errors import ApiError, OutOfTime
from antiphon.gateway.runs.shared_timer import SharedTimer

TOO_LONG = "The response took longer than {most:g} s, which is the limit here (`response_timeout`)."


class Ends(Protocol):
    def abort(self, error: ApiError) -> None: ...


class Deadlines(SharedTimer[Ends]):
    """Of the responses of a gateway: `start()` one, which says when it has to end, and `cancel()` it in any case."""

    def when_due(self, waiting: Ends, due: float) -> None:
        assert self.seconds is not None
        waiting.abort(_out_of_time(self.seconds))


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
