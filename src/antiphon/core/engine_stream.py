"""An engine's bytes → deltas: the frames, the chunks in them, and a short cut past both.

Nearly every chunk of a stream is the one before it with another text. So the bytes around the last text are kept as a mould; a
read that fits it is decoded by taking the text out, and means exactly what the long way would have made of it.
"""

from typing import NamedTuple

from antiphon.core.deltas import CallDelta, Delta, ReasoningDelta, TextDelta
from antiphon.core.dialect import ChunkReader
from antiphon.core.sse import FrameReader
from antiphon.core.text_calls import CallFinder
from antiphon.core.think_tags import Start
from antiphon.core.translator import Translator

DONE = b"[DONE]"


class Mould(NamedTuple):
    head: bytes
    tail: bytes
    kind: type[Delta]
    # The index of the call whose arguments stand in it.
    call: int | None = None


# The members of a delta whose text a mould may stand around.
MEMBERS: dict[bytes, type[Delta]] = {
    b'"content":': TextDelta,
    b'"reasoning_content":': ReasoningDelta,
    b'"reasoning":': ReasoningDelta,
    b'"arguments":': CallDelta,
}


class EngineStream:
    """`receive()` bytes, then `close()`. `ended` is true once the engine has said that nothing more will come."""

    __slots__ = ("_frames", "_mould", "_reader", "ended")

    def __init__(self, start: Start = Start.UNKNOWN, finder: CallFinder | None = None) -> None:
        self._frames = FrameReader()
        self._reader = ChunkReader(start, finder)
        self._mould: Mould | None = None
        self.ended = False

    @property
    def template_opens_thought(self) -> bool:
        return self._reader.template_opens_thought

    def pass_on(self, data: bytes, translator: Translator) -> None:
        """Has the translator receive what the bytes mean."""
        mould = self._mould
        if mould is not None and data.startswith(mould.head) and data.endswith(mould.tail):
            raw = data[len(mould.head) : len(data) - len(mould.tail)]
            if raw.isascii() and b'"' not in raw and b"\\" not in raw:
                text = raw.decode("ascii")
                # A control character would not be JSON: the long way says so.
                plain = text.isprintable() and text != ""
                if plain and self._reader.goes_on(mould.kind, text) and translator.goes_on(mould.kind, text, mould.call):
                    return
        for delta in self.receive(data):
            translator.receive(delta)

    def receive(self, data: bytes) -> list[Delta]:
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
        index = None
        if isinstance(delta, CallDelta):
            text, index = delta.arguments, delta.index
        elif isinstance(delta, TextDelta | ReasoningDelta):
            text = delta.text
        else:
            return None
        literal = b'"%b"' % text.encode("utf-8", "replace")
        at = data.find(literal)
        if not text or at < 0 or data.find(literal, at + 1) >= 0 or data.count(b"\n") != 2:
            return None
        member = data[:at].rstrip(b" ")
        kind = next((kind for name, kind in MEMBERS.items() if member.endswith(name)), None)
        opens = isinstance(delta, CallDelta) and (delta.id is not None or delta.name is not None)
        return None if kind is None or opens else Mould(data[: at + 1], data[at + len(literal) - 1 :], kind, index)
