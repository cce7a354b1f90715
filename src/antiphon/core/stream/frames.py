"""The engine's bytes → the data of its frames, however the bytes are split."""

from antiphon.errors import EngineDisagrees
from antiphon.patterns import late_pattern

# No engine sends a chunk of this size. A server that never ends its line must not fill the memory.
LARGEST_FRAME = 32 * 1024 * 1024
# A byte is looked for as a number: as bytes, Python takes five times as long to find that there is none.
CARRIAGE_RETURN = ord("\r")
# What nearly all frames begin with.
FRAME_START = b"data: "

# A line that an event stream may have and a chat stream does not need: a comment, white space, or a field of any other name.
_NOT_NEEDED = late_pattern(rb":|\s*\Z|[A-Za-z0-9_-]+(:|\Z)")


class FrameReader:
    """Cuts a byte stream into the `data` of its frames, however the bytes are split.

    An answer that begins with `{` is not a stream at all but one JSON document: it becomes one frame, at the end.
    """

    __slots__ = ("_after_cr", "_buffered", "_data", "_document", "_rest", "_started")

    def __init__(self) -> None:
        # The pieces of a line that has not ended yet.
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._after_cr = False
        self._document: list[bytes] | None = None
        self._started = False
        self._buffered = 0

    @property
    def empty(self) -> bool:
        """The bytes so far end with a frame."""
        return not self._rest and not self._data and self._document is None

    @property
    def pending(self) -> int:
        """How many bytes are buffered of a frame that has not ended."""
        return self._buffered

    @property
    def document_size(self) -> int:
        """Of the JSON document that becomes a frame at the end, so far."""
        return 0 if self._document is None else self._buffered

    def receive(self, data: bytes) -> list[bytes]:
        if not self._started:
            size = len(data)
            data = data.lstrip(b"\xef\xbb\xbf \r\n\t")
            if not data:
                self._limit(size)
                return []
            self._started = True
            if data.startswith(b"{"):
                self._document = []
        if self._document is not None:
            self._limit(len(data))
            self._document.append(data)
            return []
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        if CARRIAGE_RETURN in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._rest and not self._data and (plain := _plain_frames(data)):
            self._buffered = 0
            return plain
        frames: list[bytes] = []
        lines = data.split(b"\n")
        if len(lines) > 1:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if last := lines.pop():
            self._rest.append(last)
        read = self._data
        for line in lines:
            # Most are a line of data, or end one. All else is left to `_line()`, as is what is at the end of the stream.
            if line.startswith(b"data: "):
                read.append(line[6:])
            elif not line and len(read) == 1 and read[0]:
                frames.append(read.pop())
            else:
                self._line(line, frames)
        if not frames:
            self._limit(len(data))
        else:
            self._buffered = len(last)
        return frames

    def close(self) -> list[bytes]:
        """What the stream ended on: a last frame may lack its blank line."""
        if self._document is not None:
            return [b"".join(self._document)]
        frames: list[bytes] = []
        self._line(b"".join(self._rest), frames)
        self._line(b"", frames)
        self._rest.clear()
        return frames

    def _line(self, line: bytes, frames: list[bytes]) -> None:
        if not line:
            if self._data:
                # A frame without data is a sign of life.
                if frame := self._data[0] if len(self._data) == 1 else b"\n".join(self._data):
                    frames.append(frame)
                self._data.clear()
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line.startswith(b"error:"):
            # Older llama.cpp servers have a field for errors.
            self._data.append(line[6:])
        elif line.startswith(b"{"):
            # A server that fails in the middle may forget that it streams.
            self._data.append(line)
        elif not _NOT_NEEDED.match(line):
            # A page, a trace or plain garbage: what reads the frames reports it, and does not wait for more.
            frames.append(line)

    def _limit(self, size: int) -> None:
        self._buffered += size
        if self._buffered > LARGEST_FRAME:
            raise EngineDisagrees("The engine sent a frame that does not end.")


def _plain_frames(data: bytes) -> list[bytes]:
    """Nearly all that engines send: whole frames, each of one line of data. Nothing if there is anything else."""
    *parts, rest = data.split(b"\n\n")
    if rest or data.count(b"\n") != 2 * len(parts):
        return []
    frames = [part[6:] for part in parts if part.startswith(FRAME_START) and part != FRAME_START]
    return frames if len(frames) == len(parts) else []


_BLANK_LINE = late_pattern(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))+")


def frame_ends(data: bytes) -> list[int]:
    """Where the frames of a whole stream end. An answer that is no stream is one frame."""
    if data.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
        return [len(data)]
    ends = [found.end() for found in _BLANK_LINE.finditer(data)]
    return ends if ends and ends[-1] == len(data) else [*ends, len(data)]
