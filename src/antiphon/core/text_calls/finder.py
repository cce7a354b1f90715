"""What a finder of calls is to those who give it the text."""

from typing import Protocol

from antiphon.core.deltas import Delta


class CallFinder(Protocol):
    """Turns visible text into deltas, of which some are calls. Each finder counts its calls from 0."""

    def passes(self, text: str) -> bool:
        """The piece is certainly nothing but text and need not be received. Asking twice is the same as asking once."""

    def receive(self, text: str) -> list[Delta]: ...

    def release(self) -> list[Delta]:
        """Something else begins, a native call or an answer after its thought: what is held back is text after all."""

    def close(self) -> list[Delta]:
        """The text has ended: what is held back is decided."""
