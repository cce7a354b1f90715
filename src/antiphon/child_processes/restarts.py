"""When a child process that has died is started again."""

import time
from collections.abc import Callable

from msgspec import Struct


class RestartPauses(Struct, frozen=True):
    """Seconds before a dead process is restarted. The pause doubles with every death, and starts over once a process has run
    for `stable_after` seconds."""

    first: float = 0.5
    longest: float = 30.0
    stable_after: float = 60.0


class Restarts:
    """Of one process: `begin()` when it runs, and ask for the `pause()` when it has died."""

    def __init__(self, pauses: RestartPauses, now: Callable[[], float] = time.monotonic) -> None:
        self._pauses = pauses
        self._now = now
        self._began = 0.0
        self._next = pauses.first
        # The last one had run for so long that its death is no sign of the next one's.
        self.was_stable = False

    def begin(self) -> None:
        self._began = self._now()

    def pause(self) -> float:
        """In seconds."""
        pauses = self._pauses
        self.was_stable = self._now() - self._began >= pauses.stable_after
        pause = pauses.first if self.was_stable else self._next
        self._next = min(2 * pause, pauses.longest)
        return pause
