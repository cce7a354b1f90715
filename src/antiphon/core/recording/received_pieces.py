"""The pieces of an engine's answers, as they came.

Most of them repeat the one before them but for a text in their middle. That text is all that is kept of such a piece, and what
is around it once for all of them: a recording takes a quarter of the memory.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, overload


class Around(NamedTuple):
    head: bytes
    tail: bytes


NOTHING = Around(b"", b"")
# Bytes. With fewer in common, a piece is kept whole.
WORTHWHILE = 64
# So often it is looked for what pieces have in common, which takes longer than to keep one; and never in longer ones.
MOST_LOOKS = 64
LONGEST_COMPARED = 4096


class ReceivedPieces:
    __slots__ = ("_around", "_looks", "_middles", "_shared")

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        # Of each piece: what is its own, and what is around that.
        self._middles: list[bytes] = []
        self._around: list[Around] = []
        # What the next piece has, too, if it is like the last ones.
        self._shared = NOTHING
        self._looks = 0
        for piece in pieces:
            self.append(piece)

    def append(self, piece: bytes) -> None:
        head, tail = shared = self._shared
        # In a piece that is shorter than both, they would overlap.
        if head and piece.startswith(head) and piece.endswith(tail) and len(piece) >= len(head) + len(tail):
            self._middles.append(piece[len(head) : len(piece) - len(tail)])
            self._around.append(shared)
        else:
            self._append_whole(piece)

    def _append_whole(self, piece: bytes) -> None:
        if self._middles and self._looks < MOST_LOOKS and max(len(piece), len(self._middles[-1])) <= LONGEST_COMPARED:
            self._looks += 1
            shared = _in_common(self._shared, piece)
            self._shared = shared if shared is not NOTHING else _in_common(Around(self[-1], self[-1]), piece)
        self._middles.append(piece)
        self._around.append(NOTHING)

    def kept(self, start: int) -> int:
        """How many bytes are kept of the pieces from there on."""
        return sum(map(len, self._middles[start:]))

    def copy(self) -> "ReceivedPieces":
        made = ReceivedPieces()
        made._middles, made._around = self._middles[:], self._around[:]
        return made

    def __len__(self) -> int:
        return len(self._middles)

    def __iter__(self) -> Iterator[bytes]:
        return map(_whole, self._around, self._middles)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [*map(_whole, self._around[at], self._middles[at])]
        return _whole(self._around[at], self._middles[at])

    def __delitem__(self, at: slice) -> None:
        del self._middles[at], self._around[at]


def _whole(around: Around, middle: bytes) -> bytes:
    return around.head + middle + around.tail if around is not NOTHING else middle


def _in_common(around: Around, piece: bytes) -> Around:
    """What a piece begins and ends with, of what others do."""
    head = _shared_start(around.head, piece)
    tail = _shared_start(around.tail[::-1], piece[len(head) :][::-1])[::-1]
    return Around(head, tail) if len(head) + len(tail) >= WORTHWHILE else NOTHING


def _shared_start(one: bytes, other: bytes) -> bytes:
    known, most = 0, min(len(one), len(other))
    while known < most:
        tried = (known + most + 1) // 2
        if one[:tried] == other[:tried]:
            known = tried
        else:
            most = tried - 1
    return one[:known]
