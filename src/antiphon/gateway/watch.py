"""Watches an engine that answers: a silent one gets its client a sign of life, and is given up after a while."""

import asyncio
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Timeouts:
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


class EngineWatch:
    """`start()` it, `stop()` it. Pieces are counted where they are read: none has to look at the clock, or to visit this."""

    __slots__ = ("_loop", "_reads_before_answer", "_timeouts", "_timer")

    def __init__(self, timeouts: Timeouts) -> None:
        self._reads_before_answer = 0
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin_answer(self, reads: int) -> None:
        """`reads`: how many pieces came before it."""
        self._reads_before_answer = reads

    def start(self, watched: Watched, silent: float = 0.0) -> None:
        """`silent`: for how long the engine has sent nothing."""
        limit = self._timeouts.idle if watched.reads > self._reads_before_answer else self._timeouts.first_byte
        pause = min(self._timeouts.heartbeat, limit - silent)
        # Only the timer refers to what is watched: nothing is left of it when that is cancelled.
        self._timer = self._loop.call_later(pause, self._look, watched, watched.reads, silent + pause, limit)

    def restart(self, watched: Watched) -> None:
        """Another engine is asked: the silence of the one before it does not count."""
        self.stop()
        self.begin_answer(watched.reads)
        self.start(watched)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, watched: Watched, reads: int, silent: float, limit: float) -> None:
        watched.when_looked()
        quiet = reads == watched.reads and not watched.is_paused
        if not quiet or not watched.is_asking:
            silent = 0.0
        if silent >= limit:
            watched.when_stalled()
            return
        if quiet:
            watched.when_quiet()
        self.start(watched, silent)
