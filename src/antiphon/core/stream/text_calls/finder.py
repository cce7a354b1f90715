"""The interface of what finds calls in text."""

from collections.abc import Collection
from typing import Protocol

from antiphon.core.events.deltas import Delta


class CallFinder(Protocol):
    """Turns visible text into deltas, some of which are calls. Each finder numbers its calls from 0."""

    # The functions that may be called.
    names: Collection[str]

    @property
    def buffered(self) -> int:
        """How many characters are buffered because they may be a call."""

    def take_if_plain(self, text: str) -> bool:
        """True if the piece is certainly only text: it is then taken, and need not be received. Calling twice does no harm."""

    def receive(self, text: str) -> list[Delta]: ...

    def release(self) -> list[Delta]:
        """Something else begins, such as a native call, or the answer after a thought: what is buffered is only text."""

    def close(self) -> list[Delta]:
        """The text has ended: what is buffered becomes calls or text."""
