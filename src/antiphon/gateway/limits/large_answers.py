"""Large pieces of an engine's answer, which would keep the event loop from everything else: they are read in a thread."""

from antiphon.core.events.plain_deltas import AnyEvent

# More bytes than that are not read at once on the event loop. The slowest texts, which are full of what looks like a call,
# take a few hundredths of a second for them.
LARGE_PIECE = 16 * 1024


class Backlog:
    """Stands in for the reader of an answer while a thread uses that: what the engine sends meanwhile waits here."""

    # As the reader has them: there is nothing to do for what waits.
    needs_caller = False
    reading = True
    is_behind = False
    continuation = None

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def receive_other(self, data: bytes) -> list[AnyEvent]:
        self._pieces.append(data)
        return []

    def take(self) -> list[bytes]:
        pieces, self._pieces = self._pieces, []
        return pieces
