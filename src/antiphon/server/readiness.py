"""Whether the gateway may get requests, and what is open when it stops: a shutdown waits for that, or ends it."""

import asyncio
from types import TracebackType
from typing import NamedTuple, Protocol

from aiohttp import WSCloseCode
from msgspec import Struct, field

from antiphon.errors import ApiError, ShuttingDown, StoreUnavailable
from antiphon.store.protocol import Store

# Seconds that the store may take, and seconds for which its answer counts: probes of a large cluster come often.
DEADLINE = 2.0
LIFETIME = 1.0
# An id that no response has.
NO_RESPONSE = "resp_none"
SILENT = "The store of responses did not answer within {seconds:g} s."


class Readiness:
    def __init__(self, store: Store, deadline: float = DEADLINE, lifetime: float = LIFETIME) -> None:
        self._store = store
        self._deadline, self._lifetime = deadline, lifetime
        self._stopping = False
        # What the last answer complained about, and when it came.
        self._complaint: str | None = None
        self._asked_at: float | None = None
        self._asking: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """From now on, no new request should come here."""
        self._stopping = True

    async def check(self) -> None:
        """Raises EngineUnavailable or StoreUnavailable."""
        if self._stopping:
            raise ShuttingDown()
        if not await self.store_answers():
            raise StoreUnavailable(self._complaint or "")

    async def store_answers(self) -> bool:
        """Who asks meanwhile waits for the same answer. What is known of the store without asking it counts at once."""
        try:
            await self._store.check()
        except StoreUnavailable as lost:
            self._complaint, self._asked_at = lost.message, None
            return False
        if self._asking is None and not self._is_known():
            self._asking = asyncio.create_task(self._ask())
        if self._asking is not None:
            await asyncio.shield(self._asking)
        return self._complaint is None

    def _is_known(self) -> bool:
        return self._asked_at is not None and asyncio.get_running_loop().time() - self._asked_at < self._lifetime

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(self._deadline):
                await self._store.get("", NO_RESPONSE)
            self._complaint = None
        except StoreUnavailable as away:
            self._complaint = away.message
        except TimeoutError:
            self._complaint = SILENT.format(seconds=self._deadline)
        finally:
            self._asked_at = asyncio.get_running_loop().time()
            self._asking = None

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})


# ---- what is open ----------------------------------------------------------------------------------------------------


class OpenAnswers:
    """The answers that are being passed through. A shutdown waits for them."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()
        self._none_open = asyncio.Event()
        self._none_open.set()
        # On the clock of the event loop.
        self._deadline: float | None = None

    @property
    def count(self) -> int:
        return len(self._open)

    def opened(self) -> "OpenAnswer":
        return OpenAnswer(self, asyncio.timeout_at(self._deadline))

    def begin(self, timeout: asyncio.Timeout) -> None:
        self._open.add(timeout)
        self._none_open.clear()

    def end(self, timeout: asyncio.Timeout) -> None:
        self._open.discard(timeout)
        if not self._open:
            self._none_open.set()

    async def drain(self, within: float) -> None:
        """Lets them finish for so many seconds, and ends the others."""
        self._deadline = asyncio.get_running_loop().time() + within
        for timeout in self._open:
            timeout.reschedule(self._deadline)
        await self._none_open.wait()


class OpenAnswer:
    """Ends its block with an error when the time for a shutdown is over."""

    __slots__ = ("_answers", "_timeout")

    def __init__(self, answers: OpenAnswers, timeout: asyncio.Timeout) -> None:
        self._answers = answers
        self._timeout = timeout

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._answers.begin(self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.end(self._timeout)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise ShuttingDown() from None


class Leave(NamedTuple):
    """Why the gateway closes a connection."""

    code: WSCloseCode
    error: ApiError | None = None


GOING_AWAY = Leave(WSCloseCode.GOING_AWAY)


class OpenConnection(Protocol):
    """A WebSocket."""

    def leave(self, why: Leave) -> None:
        """Closes it once the current response has ended."""


class OpenWork(Struct, frozen=True):
    readiness: Readiness
    answers: OpenAnswers = field(default_factory=OpenAnswers)
    connections: set[OpenConnection] = field(default_factory=set)
