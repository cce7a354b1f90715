"""Server-sent events: the engine's bytes → frames, our events → bytes."""

from typing import NamedTuple

import msgspec

from antiphon.core.event_style import Encode
from antiphon.errors import EngineDisagrees
from antiphon.wire import events
from antiphon.wire.events import Event

# No chunk of any engine comes near; a server that never ends its line must not fill the memory.
LARGEST_FRAME = 32 * 1024 * 1024

DONE = b"data: [DONE]\n\n"


class FrameReader:
    """Cuts a byte stream into the `data` of its frames, however the bytes are split.

    An answer that begins with `{` is not a stream at all but one JSON document: it becomes one frame, at the end.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False
        self._document: list[bytes] | None = None
        self._started = False
        self._held = 0

    @property
    def empty(self) -> bool:
        """The bytes so far end with a frame."""
        return not self._rest and not self._data and self._document is None

    def receive(self, data: bytes) -> list[bytes]:
        if not self._started:
            data = (self._rest + data).lstrip(b"\xef\xbb\xbf \r\n\t")
            self._rest = b""
            if not data:
                return []
            self._started = True
            if data.startswith(b"{"):
                self._document = []
        if self._document is not None:
            self._hold(len(data))
            self._document.append(data)
            return []
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        frames: list[bytes] = []
        for line in lines:
            self._line(line, frames)
        if not frames:
            self._hold(len(data))
        else:
            self._held = 0
        return frames

    def close(self) -> list[bytes]:
        """What the stream ended on: a last frame may lack its blank line."""
        if self._document is not None:
            return [b"".join(self._document)]
        frames: list[bytes] = []
        self._line(self._rest, frames)
        self._line(b"", frames)
        self._rest = b""
        return frames

    def _line(self, line: bytes, frames: list[bytes]) -> None:
        if not line:
            if self._data:
                frames.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        # Any other field, and comments (":"), say nothing that a chat stream needs.

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > LARGEST_FRAME:
            raise EngineDisagrees("The engine sent a frame without an end.")


def _tag(kind: type[Event]) -> str:
    return str(kind.__struct_config__.tag)


_HEADS: dict[type[Event], bytes] = {
    kind: f"event: {_tag(kind)}\ndata: ".encode()
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind.__struct_config__.tag
}
_encode = msgspec.json.Encoder().encode


def event_to_frame(event: Event) -> bytes:
    return _HEADS[type(event)] + _encode(event) + b"\n\n"


class Framing(NamedTuple):
    """The form of each event on its way to the client, and what follows the last one."""

    encode: Encode
    end: tuple[bytes, ...]


FRAMES = Framing(event_to_frame, (DONE,))
# Over a WebSocket, where a message has its own beginning and end.
MESSAGES = Framing(_encode, ())
