"""What every connection of a client watches: one deadline for what is awaited, and whether the client reads."""

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING

# How often it is looked whether a client reads, in the time that it has.
LOOKS = 8


class Watched:
    """For a protocol. One timer is enough: a connection waits for one thing at a time. Another one runs while the client does
    not read."""

    if not TYPE_CHECKING:
        # Each protocol has these attributes among its own slots: no two classes with slots can be bases of one.
        __slots__ = ()

    _loop: asyncio.AbstractEventLoop
    # When what is awaited is too late. 0: nothing is awaited.
    _deadline: float
    # It may end before the deadline, and is set again then.
    _timer: asyncio.TimerHandle | None
    _timer_ends: float
    # Runs while the client does not read.
    _unread: asyncio.TimerHandle | None

    def _begin_watch(self) -> None:
        self._deadline = self._timer_ends = 0.0
        self._timer = self._unread = None

    def _end_watch(self) -> None:
        self._await_nothing()
        self._stop_timer()
        self._is_read()

    @abstractmethod
    def _too_late(self) -> None:
        """At the deadline."""

    # ---- the deadline ------------------------------------------------------------------------------------------------

    def _await(self, seconds: float) -> None:
        """A timer that runs already is left alone if it ends before the deadline: to make one for each request and cancel it
        cost 3 % of HTTP."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer_ends > self._deadline:
            self._set_timer()

    def _await_nothing(self) -> None:
        self._deadline = 0.0

    def _set_timer(self) -> None:
        self._stop_timer()
        self._timer_ends = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._timer_ended)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _timer_ended(self) -> None:
        self._timer = None
        if self._deadline > self._loop.time():
            self._set_timer()
        elif self._deadline:
            self._deadline = 0.0
            self._too_late()

    # ---- clients that do not read ------------------------------------------------------------------------------------

    def _await_reader(self, transport: asyncio.Transport, within: float) -> None:
        self._look_again(transport, within, transport.get_write_buffer_size(), LOOKS)

    def _look_again(self, transport: asyncio.Transport, within: float, waiting: int, looks: int) -> None:
        look_at = self._loop.time() + within / LOOKS
        self._unread = self._loop.call_at(look_at, self._look, transport, within, waiting, looks)

    def _look(self, transport: asyncio.Transport, within: float, waiting: int, looks: int) -> None:
        """A client that reads slowly gets all of a large answer. `waiting`: the bytes that were buffered at the last look; the
        end of an answer may have been added since. `looks`: how many are left until it counts as one that does not read."""
        buffered = transport.get_write_buffer_size()
        looks = LOOKS if buffered < waiting else looks - 1
        if looks:
            self._look_again(transport, within, buffered, looks)
        else:
            # A transport that is only closed waits for its buffer to be read, however long that takes.
            transport.abort()

    def _is_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
