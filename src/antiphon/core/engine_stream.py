"""An engine's bytes → deltas: the frames, the chunks in them, and a short cut past both.

Nearly every chunk of a stream is the one before it with another text. So the bytes around the last text are kept as a mould; a
read that fits it is decoded by taking the text out, and means exactly what the long way would have made of it.
"""

from collections.abc import Callable
from typing import NamedTuple

from antiphon.core.deltas import CallDelta, Delta, ReasoningDelta, TextDelta
from antiphon.core.dialect import ChunkReader
from antiphon.core.sse import FrameReader
from antiphon.core.think_tags import Start

DONE = b"[DONE]"


class Mould(NamedTuple):
    head: bytes
    tail: bytes
    read: Callable[[str], list[Delta]]


# The members of a delta whose text a mould may stand around.
MEMBERS = (b'"content":', b'"reasoning_content":', b'"reasoning":', b'"arguments":')


class EngineStream:
    """`receive()` bytes, then `close()`. `ended` is true once the engine has said that nothing more will come."""

    __slots__ = ("_frames", "_mould", "_reader", "ended")

    def __init__(self, start: Start = Start.UNKNOWN) -> None:
        self._frames = FrameReader()
        self._reader = ChunkReader(start)
        self._mould: Mould | None = None
        self.ended = False

    @property
    def template_opens_thought(self) -> bool:
        return self._reader.template_opens_thought

    def receive(self, data: bytes) -> list[Delta]:
        mould = self._mould
        if mould is not None and data.startswith(mould.head) and data.endswith(mould.tail):
            text = data[len(mould.head) : len(data) - len(mould.tail)]
            if text and text.isascii() and b'"' not in text and b"\\" not in text:
                return mould.read(text.decode("ascii"))
        deltas = self._read(self._frames.receive(data))
        self._mould = self._cast(data, deltas[0]) if len(deltas) == 1 and self._frames.empty else None
        return deltas

    def close(self) -> list[Delta]:
        return self._read(self._frames.close()) + self._reader.close()

    def _read(self, frames: list[bytes]) -> list[Delta]:
        deltas: list[Delta] = []
        for frame in frames:
            if frame.strip() == DONE:
                self.ended = True
            elif not self.ended:
                deltas += self._reader.receive(frame)
        return deltas

    def _cast(self, data: bytes, delta: Delta) -> Mould | None:
        """A mould of this read, if it is one frame whose text stands in it once, and as it is."""
        if isinstance(delta, CallDelta):
            text, read = delta.arguments, self._arguments_of(delta)
        elif isinstance(delta, TextDelta | ReasoningDelta):
            text, read = delta.text, None
        else:
            return None
        literal = b'"%b"' % text.encode("utf-8", "replace")
        at = data.find(literal)
        if not text or at < 0 or data.find(literal, at + 1) >= 0 or data.count(b"\n") != 2:
            return None
        member = next((name for name in MEMBERS if data[:at].rstrip(b" ").endswith(name)), None)
        if member is None:
            return None
        reads = {b'"content":': self._reader.receive_text, b'"arguments":': read}
        chosen = reads.get(member, self._reader.receive_thought)
        return None if chosen is None else Mould(data[: at + 1], data[at + len(literal) - 1 :], chosen)

    def _arguments_of(self, opened: CallDelta) -> Callable[[str], list[Delta]] | None:
        if opened.id is not None or opened.name is not None:
            return None
        index = opened.index
        return lambda arguments: [CallDelta(index, None, None, arguments)]
