"""What every output item state has in common: one class per output item, each with its own events and its own final item."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypedDict

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.deltas import Delta
from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.events.plain_deltas import FastPath
from antiphon.core.toolbox.requirements import Check
from antiphon.wire.events import Event
from antiphon.wire.responses import OutputItem, Status


class ItemState(Protocol):
    """An output item from its first piece to its end. Before `open()` it only collects what it is fed."""

    # What its text must pass, and how it did; None where nothing is required, or where it was not checked yet.
    @property
    def check(self) -> Check | None: ...

    outcome: CheckOutcome | None

    # Where pieces go that only continue what is open.
    @property
    def fast_path(self) -> FastPath | None: ...

    def open(self, output_index: int) -> Iterable[Event]: ...

    def close(self, status: Status) -> Iterable[Event]: ...

    def finishable(self) -> bool:
        """It may be closed as soon as another item begins. Otherwise that one waits."""

    def ready(self) -> bool:
        """It may be opened, or checked if it must be checked first."""

    def waive(self) -> None:
        """Takes the check away: what was cut off, or turned out not to be the answer, is emitted as it is."""

    # All that the model wrote of it, and the part that is checked.
    @property
    def written(self) -> str: ...

    @property
    def checked_text(self) -> str: ...

    @property
    def item(self) -> OutputItem: ...


class ContentState(ItemState, Protocol):
    """An item that is made of deltas of certain types."""

    prefix: ClassVar[str]

    def __init__(self, item_id: str, style: EventOptions, check: Check | None) -> None: ...

    @classmethod
    def first(cls, delta: Any, *, follows_item: bool) -> Delta | None:
        """The delta with which an item begins; None: it is only white space between two items."""

    def receive(self, delta: Any) -> Iterable[Event]: ...


class PartPlace(TypedDict):
    item_id: str
    output_index: int
    content_index: int
