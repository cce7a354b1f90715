"""Server-sent events: the engine's bytes → frames, our events → bytes."""

import re
from typing import ClassVar, Protocol

import msgspec
from msgspec import structs

from antiphon.core.events.json_pieces import JsonPieces, long_json
from antiphon.core.events.plain_deltas import AnyEvent, DeltaTemplate, PlainDelta
from antiphon.errors import EngineDisagrees
from antiphon.wire.events import Event

# No engine sends a chunk of this size. A server that never ends its line must not fill the memory.
LARGEST_FRAME = 32 * 1024 * 1024

DONE = b"data: [DONE]\n\n"
# What nearly all frames begin with.
FRAME_START = b"data: "

# A line that an event stream may have and a chat stream does not need: a comment, white space, or a field of any other name.
_NOT_NEEDED = re.compile(rb":|\s*\Z|[A-Za-z0-9_-]+(:|\Z)")


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
        if b"\r" in data:
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


_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))+")


def frame_ends(data: bytes) -> list[int]:
    """Where the frames of a whole stream end. An answer that is no stream is one frame."""
    if data.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
        return [len(data)]
    ends = [found.end() for found in _BLANK_LINE.finditer(data)]
    return ends if ends and ends[-1] == len(data) else [*ends, len(data)]


class Encoder(Protocol):
    """Events → bytes, for one stream. `end` follows the last event."""

    end: ClassVar[tuple[bytes, ...]]

    def encode(self, event: AnyEvent) -> bytes: ...


# Stands for the text in a template; no JSON encoder leaves it as it is, so it is found again by its encoded form.
MARK = "\x00mark\x00"
ENCODED_MARK = b'"\\u0000mark\\u0000"'
to_json = msgspec.json.Encoder().encode


class _Heads(dict[type[Event], bytes]):
    """The first line of a frame, by the type of its event."""

    def __missing__(self, kind: type[Event]) -> bytes:
        head = self[kind] = f"event: {kind.__struct_config__.tag}\ndata: ".encode()
        return head


_HEADS = _Heads()


def event_to_frame(event: Event) -> bytes:
    """One event as it is sent and stored. Joined in one go: the last event of a stream may be twice as large as its answer."""
    return b"".join((_HEADS[type(event)], to_json(event), b"\n\n"))


def long_frame(event: Event) -> JsonPieces | None:
    """The same bytes in pieces. None: the event has no long text."""
    return long_json(event, _HEADS[type(event)], b"\n\n")


def to_frame(name: str, data: bytes) -> bytes:
    """Any JSON as an event of this name."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


class MessageEncoder:
    """For a WebSocket, where a message has its own beginning and end."""

    __slots__ = ("head", "tail", "template")

    end: ClassVar[tuple[bytes, ...]] = ()
    # One event as bytes. Assigned, and not called by a method: that would be one call more for every event.
    _frame = staticmethod(to_json)

    def __init__(self) -> None:
        # The template of the last delta, and its encoded form: the text goes between the two, the number into the tail. Parts
        # follow one another and never interleave, so no earlier one is needed again.
        self.template: DeltaTemplate | None = None
        self.head = self.tail = b""

    def encode(self, event: AnyEvent) -> bytes:
        if type(event) is not PlainDelta:
            return self._frame(event)
        template = event.template
        if template is not self.template:
            self._encode_template(template)
        return self.head + to_json(event.delta) + self.tail % event.sequence_number

    def _encode_template(self, template: DeltaTemplate) -> None:
        """The number is the last member of every event."""
        encoded = self._frame(structs.replace(template.event, delta=MARK, sequence_number=-1))
        self.head, _, tail = encoded.partition(ENCODED_MARK)
        self.tail = tail.replace(b"%", b"%%").replace(b"-1", b"%d")
        self.template = template


class SseEncoder(MessageEncoder):
    """Server-sent events: the type of an event in its own line, and `[DONE]` at the end."""

    __slots__ = ()

    end: ClassVar[tuple[bytes, ...]] = (DONE,)
    _frame = staticmethod(event_to_frame)
