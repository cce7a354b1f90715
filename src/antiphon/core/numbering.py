"""Sequence numbers. This is the only place that numbers events."""

from collections.abc import Iterable

from antiphon.core.fast_path import AnyEvent, DeltaTemplate, PlainDelta
from antiphon.wire.events import Event


class Numbering:
    """From `first`, by one."""

    __slots__ = ("next",)

    def __init__(self, first: int = 0) -> None:
        self.next = first

    def number(self, event: Event) -> Event:
        event.sequence_number = self.next
        self.next += 1
        return event

    def number_all(self, made: Iterable[Event], numbered: list[AnyEvent]) -> None:
        """Adds each to those that are numbered."""
        for event in made:
            event.sequence_number = self.next
            self.next += 1
            numbered.append(event)

    def take_back(self, event: Event) -> None:
        """The last event is not sent: the next one gets its number."""
        self.next = event.sequence_number

    def delta(self, template: DeltaTemplate, text: str) -> PlainDelta:
        number = self.next
        self.next = number + 1
        return PlainDelta(template, text, number)
