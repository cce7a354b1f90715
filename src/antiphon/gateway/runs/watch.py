"""Watches an engine that answers: a silent one gets its client a sign of life, and is given up after a while."""

import asyncio
from typing import Protocol

from msgspec import Struct

from antiphon.gateway.runs.timers import SharedTimer


class Timeouts(Struct, frozen=True):
    """In seconds."""

    # After this much silence a waiting client gets a sign of life.
    heartbeat: float
    # An engine that is silent for longer is given up: before its first byte, when it reads the prompt, and after it.
    first_byte: float
    idle: float
    # A response that takes longer in all is ended. None: it may take any time.
    total: float | None = None


class Watched(Protocol):
    @property
    def reads(self) -> int:
        """How many pieces the engines have sent."""

    @property
    def is_asking(self) -> bool:
        """An engine has something to send."""

    @property
    def is_paused(self) -> bool:
        """The engine may not send: its client, or the gateway itself, has to read first."""

    def when_looked(self) -> None:
        """Now and then, however much the engine sends."""

    def when_quiet(self) -> None: ...
    def when_stalled(self) -> None: ...


class EngineWatches(SharedTimer["EngineWatch"]):
    """Of the runs of a gateway: most of them look at their engines after the same time."""

    def __init__(self, timeouts: Timeouts) -> None:
        super().__init__(timeouts.heartbeat)
        self.timeouts = timeouts

    def when_due(self, waiting: "EngineWatch", due: float) -> None:
        if waiting.due == due:
            waiting.look()


class EngineWatch:
    """`start()` it, `stop()` it. Pieces are counted where they are read: none has to look at the clock, or to visit this."""

    __slots__ = (
        "_limit",
        "_reads_before",
        "_reads_before_answer",
        "_silent",
        "_timer",
        "_watched",
        "_watches",
        "due",
    )

    def __init__(self, watches: EngineWatches) -> None:
        self._reads_before_answer = 0
        self._watches = watches
        # While it is started: whom it is about, the reads so far, how long the engine will have been silent at the next look
        # if it sends nothing, and for how long it may be.
        self._watched: Watched | None = None
        self._reads_before = 0
        self._silent = 0.0
        self._limit = 0.0
        # When it looks next; or a timer of its own, if that is earlier than all others do.
        self.due: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin_answer(self, reads: int) -> None:
        """`reads`: how many pieces came before it."""
        self._reads_before_answer = reads

    def start(self, watched: Watched, silent: float = 0.0) -> None:
        """`silent`: for how long the engine has sent nothing."""
        watches, reads = self._watches, watched.reads
        timeouts = watches.timeouts
        limit = timeouts.idle if reads > self._reads_before_answer else timeouts.first_byte
        self._watched, self._reads_before, self._limit = watched, reads, limit
        if limit - silent >= timeouts.heartbeat:
            self._silent = silent + timeouts.heartbeat
            self.due = watches.start(self)
        else:
            self._silent = limit
            self._timer = asyncio.get_running_loop().call_later(limit - silent, self.look)

    def restart(self) -> None:
        """If it is started. Another engine is asked: the silence of the one before it does not count."""
        watched = self._watched
        if watched is not None:
            self.stop()
            self.begin_answer(watched.reads)
            self.start(watched)

    def stop(self) -> None:
        # Nothing is left that refers to what is watched.
        self._watched = None
        if self.due is not None:
            self.due = None
            self._watches.cancel(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        watched, self.due, self._timer = self._watched, None, None
        assert watched is not None
        watched.when_looked()
        quiet = self._reads_before == watched.reads and not watched.is_paused
        silent = self._silent if quiet and watched.is_asking else 0.0
        if silent >= self._limit:
            watched.when_stalled()
            return
        if quiet:
            watched.when_quiet()
        self.start(watched, silent)
