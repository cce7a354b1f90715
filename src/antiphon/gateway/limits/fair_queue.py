"""A number of places, and a bounded queue for them that is fair between owners.

    queue.enter(ticket, owner, now)     → the ticket itself if it has a place; else it waits. Raises QueueFull.
    queue.runs(ticket)                  → whether it has a place
    queue.leave(ticket, now)            → the tickets that have got a place by this. It may be called at any time, and twice.

Owners take turns; the tickets of one owner are served in the order in which they came. If the queue is full, an owner that has
more tickets in it gives way to one that has fewer, so that nobody can fill it alone. A patient ticket waits for as long as it
takes: it is never refused, and takes no room in the queue. One that returns had a place before, and has more to do: it waits
like a patient one, but comes before all others. `own_places` keeps the other places free for other owners.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

# How much the newest time that a place was used for counts in the average.
NEWEST = 0.2


class QueueFull(Exception):
    """`seconds`: about how long it takes until all that wait now have had their place, and there is one for the next."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class FairQueue(Generic[T]):
    def __init__(self, places: int | None, most_waiting: int, own_places: int | None = None) -> None:
        """`places`: None for any number. `own_places`: how many of them one owner may have at once, None for all of them."""
        self.places = places
        self._own_places = own_places
        self._most_waiting = most_waiting
        # Whose each one is that has a place, and since when it has it.
        self._running: dict[T, tuple[str, float]] = {}
        # How many places each owner has, where that is limited.
        self._running_of: dict[str, int] = {}
        # By owner, in the order in which they are served: its tickets, and whether each is patient.
        self._waiting: OrderedDict[str, dict[T, bool]] = OrderedDict()
        self._owners: dict[T, str] = {}
        # In the order in which they came back: whose each one is.
        self._returning: dict[T, str] = {}
        # For how long those that have left used their places, on average.
        self._use: float | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Without those that are patient, or return."""
        return sum(map(_impatient, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        """The next one would have to wait, or be refused."""
        return self.places is not None and len(self._running) >= self.places

    def runs(self, ticket: T) -> bool:
        return ticket in self._running

    def seconds_to_wait(self, now: float) -> float:
        """An estimate of when there is a place for one that comes now, after all that wait already: from their number, and the
        time that places are used for."""
        before = len(self._returning) + sum(map(len, self._waiting.values()))
        return self._expected_use(now) * (1 + before) / max(1, len(self._running))

    def _expected_use(self, now: float) -> float:
        """As long as it was, or as long as it is by now: of a use that has not ended, this is the least that it takes."""
        by_now = sum(now - since for _, since in self._running.values()) / max(1, len(self._running))
        return max(self._use or 0.0, by_now)

    def enter(self, ticket: T, owner: str, now: float, *, patient: bool = False, returns: bool = False) -> T | None:
        """Returns the ticket itself if it has a place. Otherwise it waits, and the one is returned that has lost its place in
        the queue to it, if any. One that is in it stays where it is."""
        running = self._running
        if ticket in running:
            return ticket
        if ticket in self._owners or ticket in self._returning:
            return None
        if self.places is None and self._own_places is None:
            # Mostly nothing is limited.
            running[ticket] = (owner, now)
            return ticket
        has_room = self.places is None or len(self._running) < self.places
        if has_room and self._may_run(owner):
            self._run(ticket, owner, now)
            return ticket
        if returns:
            self._returning[ticket] = owner
            return None
        displaced = None if patient or self.waiting < self._most_waiting else self._make_room(owner, now)
        self._waiting.setdefault(owner, {})[ticket] = patient
        self._owners[ticket] = owner
        return displaced

    def _may_run(self, owner: str) -> bool:
        return self._own_places is None or self._running_of.get(owner, 0) < self._own_places

    def _run(self, ticket: T, owner: str, now: float) -> None:
        self._running[ticket] = (owner, now)
        if self._own_places is not None:
            self._running_of[owner] = self._running_of.get(owner, 0) + 1

    def _make_room(self, owner: str, now: float) -> T:
        own = _impatient(self._waiting.get(owner, {}))
        greediest = max(self._waiting, key=lambda other: _impatient(self._waiting[other]), default=None)
        # One more than its own would only turn the two around.
        if greediest is None or _impatient(self._waiting[greediest]) < own + 2:
            raise QueueFull(self.seconds_to_wait(now))
        newest = next(ticket for ticket, patient in reversed(self._waiting[greediest].items()) if not patient)
        self._stop_waiting(newest)
        return newest

    def leave(self, ticket: T, now: float) -> list[T]:
        if self._owners or self._returning:
            self._stop_waiting(ticket)
        used = self._running.pop(ticket, None)
        if used is None:
            return []
        owner, began = used
        if self._own_places is not None:
            self._running_of[owner] -= 1
            if not self._running_of[owner]:
                del self._running_of[owner]
        self._use = now - began if self._use is None else (1 - NEWEST) * self._use + NEWEST * (now - began)
        return self._fill(now) if self._waiting or self._returning else []

    def resize(self, places: int | None, most_waiting: int, now: float) -> list[T]:
        """From now on. Nobody who has a place loses it. Returns the tickets that have got one by this."""
        self.places, self._most_waiting = places, most_waiting
        return self._fill(now)

    def _fill(self, now: float) -> list[T]:
        begun: list[T] = []
        while not self.is_full and (following := self._next_returning() or self._next_waiting()) is not None:
            ticket, owner = following
            self._stop_waiting(ticket)
            self._run(ticket, owner, now)
            begun.append(ticket)
        return begun

    def _next_returning(self) -> tuple[T, str] | None:
        return next(((ticket, owner) for ticket, owner in self._returning.items() if self._may_run(owner)), None)

    def _next_waiting(self) -> tuple[T, str] | None:
        """Of the owner that is served next. After it comes another."""
        owner = next(filter(self._may_run, self._waiting), None)
        if owner is None:
            return None
        self._waiting.move_to_end(owner)
        return next(iter(self._waiting[owner])), owner

    def _stop_waiting(self, ticket: T) -> None:
        self._returning.pop(ticket, None)
        owner = self._owners.pop(ticket, None)
        if owner is None:
            return
        del self._waiting[owner][ticket]
        if not self._waiting[owner]:
            del self._waiting[owner]


def _impatient(tickets: dict[T, bool]) -> int:
    return sum(not patient for patient in tickets.values())
