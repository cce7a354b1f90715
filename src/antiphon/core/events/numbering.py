"""Sequence numbers. This is the only place that numbers events, but for those of the fast path."""

from collections.abc import Callable, Iterable

from antiphon.wire.events import Event


class Numbering:
    """Numbers events from `first`, by one."""

    __slots__ = ("next",)

    def __init__(self, first: int = 0) -> None:
        self.next = first

    def number(self, event: Event) -> Event:
        event.sequence_number = self.next
        self.next += 1
        return event

    def number_all(self, made: Iterable[Event], add: Callable[[Event], None]) -> None:
        """Numbers the events. `add` gets each of them."""
        for event in made:
            event.sequence_number = self.next
            self.next += 1
            add(event)

    def take_back(self, event: Event) -> None:
        """The last event is not sent: the next one gets its number."""
        self.next = event.sequence_number
