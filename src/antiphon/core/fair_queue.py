"""A number of places, and a bounded queue for them that is fair between owners.

    queue.enter(ticket, owner, now)     → it has a place, or waits. Raises QueueFull.
    queue.runs(ticket)                  → whether it has a place
    queue.leave(ticket, now)            → the tickets that have got a place by this. It may be called at any time, and twice.

Owners take turns; the tickets of one owner are served in the order in which they came. If the queue is full, an owner that has
more tickets in it gives way to one that has fewer, so that nobody can fill it alone. A patient ticket waits for as long as it
takes: it is never refused, and takes no room in the queue.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

# How much the newest time that a place was used for counts in the average.
NEWEST = 0.2


class QueueFull(Exception):
    """`seconds`: about how long it takes until there is room again."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class FairQueue(Generic[T]):
    def __init__(self, places: int | None, most_waiting: int) -> None:
        """`places`: None for any number."""
        self._places = places
        self._most_waiting = most_waiting
        # Since when each one has its place.
        self._running: dict[T, float] = {}
        # By owner, in the order of their turns: its tickets, and whether each is patient.
        self._waiting: OrderedDict[str, dict[T, bool]] = OrderedDict()
        self._owners: dict[T, str] = {}
        # For how long a place is used, on average.
        self._use: float | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Without those that are patient."""
        return sum(map(_impatient, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        """The next one would have to wait, or be refused."""
        return self._places is not None and len(self._running) >= self._places

    def runs(self, ticket: T) -> bool:
        return ticket in self._running

    def seconds_to_wait(self) -> float:
        """An estimate of when the next place becomes free, from the time that places are used for. Those that are patient have
        been waiting for it before."""
        patient = sum(map(len, self._waiting.values())) - self.waiting
        return (self._use or 0.0) * (1 + patient) / max(1, len(self._running))

    def enter(self, ticket: T, owner: str, now: float, *, patient: bool = False) -> T | None:
        """Returns the ticket that has lost its place in the queue to this one, if any. One that is in it stays where it is."""
        if ticket in self._running or ticket in self._owners:
            return None
        if not self.is_full:
            self._running[ticket] = now
            return None
        displaced = None if patient or self.waiting < self._most_waiting else self._make_room(owner)
        self._waiting.setdefault(owner, {})[ticket] = patient
        self._owners[ticket] = owner
        return displaced

    def _make_room(self, owner: str) -> T:
        own = _impatient(self._waiting.get(owner, {}))
        greediest = max(self._waiting, key=lambda other: _impatient(self._waiting[other]), default=None)
        # One more than its own would only turn the two around.
        if greediest is None or _impatient(self._waiting[greediest]) < own + 2:
            raise QueueFull(self.seconds_to_wait())
        newest = next(ticket for ticket, patient in reversed(self._waiting[greediest].items()) if not patient)
        self._stop_waiting(newest)
        return newest

    def leave(self, ticket: T, now: float) -> list[T]:
        self._stop_waiting(ticket)
        began = self._running.pop(ticket, None)
        if began is None:
            return []
        self._use = now - began if self._use is None else (1 - NEWEST) * self._use + NEWEST * (now - began)
        return self._fill(now)

    def resize(self, places: int | None, most_waiting: int, now: float) -> list[T]:
        """From now on. Nobody who has a place loses it. Returns the tickets that have got one by this."""
        self._places, self._most_waiting = places, most_waiting
        return self._fill(now)

    def _fill(self, now: float) -> list[T]:
        begun: list[T] = []
        while self._waiting and not self.is_full:
            owner, tickets = next(iter(self._waiting.items()))
            ticket = next(iter(tickets))
            self._stop_waiting(ticket)
            if owner in self._waiting:
                self._waiting.move_to_end(owner)
            self._running[ticket] = now
            begun.append(ticket)
        return begun

    def _stop_waiting(self, ticket: T) -> None:
        owner = self._owners.pop(ticket, None)
        if owner is None:
            return
        del self._waiting[owner][ticket]
        if not self._waiting[owner]:
            del self._waiting[owner]


def _impatient(tickets: dict[T, bool]) -> int:
    return sum(not patient for patient in tickets.values())
