"""An engine's body pushed to whoever takes it, instead of pulled by a task that sleeps and wakes for every piece.

At a thousand streams the waking is most of what a delta costs. aiohttp has no public way to push a client's body, but its
parser only knows the reader's `feed_data`: a reader of this class, put in place of its own, hands each piece on at once.
"""

from typing import Any, Protocol

from aiohttp import StreamReader


class Receiver(Protocol):
    def receive(self, data: bytes) -> None: ...
    def ended(self, error: BaseException | None) -> None:
        """The body is at its end, or the connection is lost."""


class PushedBody(StreamReader):
    __slots__ = ()

    # The layout must stay StreamReader's, so there is no slot of our own; this one is only read by `readchunk()`.
    @property
    def receiver(self) -> Any:
        return self._http_chunk_splits

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        self._http_chunk_splits.receive(data)  # type: ignore[union-attr]
        return False

    # Where HTTP chunks begin and end means nothing here, but is told for every delta: the cheapest call that does nothing.
    begin_http_chunk_receiving = end_http_chunk_receiving = bool  # type: ignore[assignment]

    def feed_eof(self) -> None:
        super().feed_eof()
        self.receiver.ended(None)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        self.receiver.ended(exc)


def push(body: StreamReader, receiver: Receiver) -> None:
    """From here on the body goes to the receiver, beginning with what has arrived already."""
    error = body.exception()
    arrived = b"" if error is not None or body.at_eof() else body.read_nowait(-1)
    # An answer without a body has a reader that all such answers share.
    pushed = type(body) is StreamReader and not body.is_eof() and error is None
    if pushed:
        body._http_chunk_splits = receiver  # type: ignore[assignment]
        body.__class__ = PushedBody
    if arrived:
        receiver.receive(arrived)
    if not pushed:
        receiver.ended(error)
