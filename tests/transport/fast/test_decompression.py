"""A body that was compressed on the way: passed on as it was, and no more of it than the receiver wants."""

import gzip
import zlib
from collections.abc import Callable

import pytest

from antiphon.transport.fast.decompression import Decompression

TEXT = b"data: hello\n\n" * 1000


class Received:
    """`most`: after so many bytes the receiver pauses what it receives from."""

    def __init__(self, most: int | None = None) -> None:
        self.data = b""
        self.ends: list[BaseException | None] = []
        self.source: Decompression | None = None
        self._most = most

    def receive(self, data: bytes) -> None:
        self.data += data
        if self._most is not None and len(self.data) >= self._most and self.source is not None:
            self.source.pause()

    def ended(self, error: BaseException | None) -> None:
        self.ends.append(error)


@pytest.mark.parametrize(("compression", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_is_passed_on_as_it_was_in_any_pieces(compression: str, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(TEXT)
    for size in (len(packed), 7, 1):
        received = Received()
        body = Decompression(received, compression)
        for at in range(0, len(packed), size):
            body.receive(packed[at : at + size])
        body.ended(None)
        assert (received.data, received.ends) == (TEXT, [None]), size


def test_while_it_is_paused_what_has_arrived_stays_compressed() -> None:
    bomb = b"x" * 4_000_000
    received = Received(most=1)
    body = received.source = Decompression(received, "gzip")
    body.receive(gzip.compress(bomb))
    body.ended(None)
    first = len(received.data)
    assert 0 < first < 1_000_000
    assert received.ends == [], "it has not ended while a part of it waits"
    while not received.ends:
        before = len(received.data)
        body.resume()
        added = len(received.data) - before
        assert added < 1_000_000
    assert received.ends == [None]
    assert received.data == bomb


def test_what_cannot_be_decompressed_ends_once_with_an_error() -> None:
    received = Received()
    body = Decompression(received, "gzip")
    body.receive(b"this is not gzip")
    body.receive(b"neither is this")
    body.ended(None)
    (error,) = received.ends
    assert "cannot be decompressed" in str(error)


def test_a_connection_that_is_lost_ends_the_body_with_its_error() -> None:
    received, lost = Received(), ConnectionResetError()
    body = Decompression(received, "gzip")
    body.receive(gzip.compress(TEXT)[:20])
    body.ended(lost)
    assert received.ends == [lost]
