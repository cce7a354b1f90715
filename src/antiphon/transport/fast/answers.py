"""HTTP/1.1 answers without I/O: bytes in, the head and the content of the body out, however the bytes are split.

The limits are strict and the rest is lenient: a line may end without its carriage return, as aiohttp allows it, too.
"""

import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

from msgspec import Struct
from multidict import CIMultiDict, CIMultiDictProxy

from antiphon.transport.interfaces import NotHttp

# In bytes: all lines of a head; the size of a chunk with its extensions; the lines after the last chunk.
LONGEST_HEAD = 64 * 1024
LONGEST_SIZE_LINE = 4 * 1024
LONGEST_TRAILERS = 64 * 1024

_BEGIN = b"HTTP/1."

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*?)[ \t]*")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_LENGTH = re.compile("[0-9]{1,18}")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")

# Of so many short lines.
MOST_SIZES, LONGEST_KNOWN = 4096, 4


class _Sizes(dict[bytes, int]):
    """The size of a chunk, by its line. The same ones come again and again, and to read one takes twice as long as to find it.
    0: it is the last chunk, or nothing of this kind."""

    def __missing__(self, line: bytes) -> int:
        found = _SIZE_LINE.fullmatch(line + b"\r\n")
        size = int(found[1], 16) if found is not None else 0
        if len(line) <= LONGEST_KNOWN and len(self) < MOST_SIZES:
            self[line] = size
        return size


_SIZES = _Sizes()

NO_BODY = frozenset({204, 304})
SWITCHING_PROTOCOLS = 101
# Those that are decompressed. Any other one is passed on as it comes.
COMPRESSIONS = frozenset({"gzip", "deflate", "br", "zstd"})


class Framing(Protocol):
    """How a body is sent. After `ended` or an `error`, nothing more is fed."""

    # The end of the connection is the end of the body, and not a cut.
    ends_with_connection: ClassVar[bool]

    @property
    def ended(self) -> bool: ...
    @property
    def error(self) -> NotHttp | None: ...

    @property
    def rest(self) -> bytes:
        """What came after the end of the body."""

    @property
    def between_chunks(self) -> bool:
        """What comes next is the size of a chunk, and nothing of it has come yet."""

    def feed(self, data: bytes) -> bytes:
        """The content of these bytes."""


class Head(NamedTuple):
    status: int
    headers: Mapping[str, str]
    # Of the body. None: it is chunked, or ends with the connection.
    length: int | None
    chunked: bool
    # The engine does not close the connection after this answer.
    keeps_alive: bool
    compression: str | None
    # No other answer to the same request follows it.
    is_final: bool

    def framing(self) -> Framing:
        if self.chunked:
            return ChunkedBody()
        return OpenBody() if self.length is None else SizedBody(self.length)


def find_head_end(data: bytes, start: int = 0) -> int | None:
    """Where the first head in these bytes ends, searched from `start` on. None: not in them. Raises NotHttp for what cannot
    become a head."""
    if not data.startswith(_BEGIN[: len(data)]):
        raise NotHttp
    # A line may end without a carriage return. A pattern for both takes 15,000 instructions.
    usual = data.find(b"\n\r\n", start)
    bare = data.find(b"\n\n", start) if usual < 0 else data.find(b"\n\n", start, usual)
    end = bare + 2 if bare >= 0 else usual + 3 if usual >= 0 else None
    if len(data) > LONGEST_HEAD and (end is None or end > LONGEST_HEAD):
        raise NotHttp
    return end


# An engine sends the same head again and again, but for its date: under load, nearly all are found here.
@lru_cache(maxsize=32)
def read_head(head: bytes) -> Head:
    """Raises NotHttp."""
    status_line, *lines = _FOLD.sub(b" ", head).split(b"\n")
    started = _STATUS_LINE.fullmatch(status_line.removesuffix(b"\r"))
    if started is None:
        raise NotHttp
    headers = _read_headers(lines)
    status = int(started[2])
    connection = _words(headers, "Connection")
    keeps_alive = "close" not in connection if started[1] == b"1" else "keep-alive" in connection
    chunked = _words(headers, "Transfer-Encoding")[-1:] == ["chunked"]
    length = _length(headers)
    has_body = status >= 200 and status not in NO_BODY
    if not has_body:
        chunked, length = False, 0
    compression = headers.get("Content-Encoding", "").lower()
    return Head(
        status,
        CIMultiDictProxy(headers),
        length,
        chunked,
        keeps_alive and (chunked or length is not None) and status != SWITCHING_PROTOCOLS,
        compression if compression in COMPRESSIONS and has_body else None,
        status >= 200 or status == SWITCHING_PROTOCOLS,
    )


def _read_headers(lines: list[bytes]) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        line = line.removesuffix(b"\r")
        if not line:
            continue
        header = _HEADER.fullmatch(line)
        if header is None:
            raise NotHttp
        headers.add(header[1].decode(), header[2].decode(errors="surrogateescape"))
    return headers


def _words(headers: CIMultiDict[str], name: str) -> list[str]:
    return [word.strip().lower() for value in headers.getall(name, ()) for word in value.split(",")]


def _length(headers: CIMultiDict[str]) -> int | None:
    lengths = set(headers.getall("Content-Length", ()))
    if not lengths:
        return None
    length = lengths.pop()
    # Beside a transfer encoding, a length would contradict it.
    if lengths or "Transfer-Encoding" in headers or not _LENGTH.fullmatch(length):
        raise NotHttp
    return int(length)


class SizedBody:
    """Its head has announced its length."""

    __slots__ = ("_left", "ended", "rest")

    error: NotHttp | None = None
    between_chunks = False
    ends_with_connection: ClassVar[bool] = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        left = self._left = self._left - len(data)
        if left > 0:
            return data
        self.ended = True
        if left == 0:
            return data
        self.rest = data[left:]
        return data[:left]


class OpenBody:
    """Everything until the end of the connection."""

    __slots__ = ()

    ended = False
    error: NotHttp | None = None
    rest = b""
    between_chunks = False
    ends_with_connection: ClassVar[bool] = True

    def feed(self, data: bytes) -> bytes:
        return data


class Part(Enum):
    """Of a chunked body: what comes next."""

    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()


# To look up a member of an enumeration takes several times as long as a name.
SIZE, DATA, DATA_END, TRAILER = Part

# With no lines after it.
LAST_CHUNK = b"0\r\n\r\n"


class ChunkedBody(Struct, eq=False):
    ends_with_connection: ClassVar[bool] = False

    ended: bool = False
    error: NotHttp | None = None
    rest: bytes = b""
    _part: Part = SIZE
    # Of the data of this chunk.
    _left: int = 0
    # The beginning of a line.
    _kept: bytes = b""
    # The bytes of the lines after the last chunk.
    _trailers: int = 0

    @property
    def between_chunks(self) -> bool:
        return self._part is SIZE and not self._kept

    def feed(self, data: bytes) -> bytes:
        if self._kept:
            data, self._kept = self._kept + data, b""
        content: list[bytes] = []
        at: int | None = 0
        if self._part is SIZE:
            at = self._read_whole_chunks(data, content)
        while at is not None and at < len(data) and not self.ended:
            if self._part is DATA:
                piece = data[at : at + self._left]
                content.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._part = DATA_END
            elif self._part is SIZE:
                if data.startswith(LAST_CHUNK, at):
                    # As nearly every body ends.
                    self.ended, self.rest = True, data[at + len(LAST_CHUNK) :]
                    break
                at = self._read_size(data, at)
            elif self._part is DATA_END:
                at = self._read_data_end(data, at)
            else:
                at = self._read_trailer(data, at)
        return content[0] if len(content) == 1 else b"".join(content)

    def _read_whole_chunks(self, data: bytes, content: list[bytes]) -> int:
        """Those at the beginning that are complete, which nearly all are. Returns where the rest begins."""
        at = 0
        while (line_end := data.find(b"\r\n", at)) >= 0 and (size := _SIZES[data[at:line_end]]):
            start = line_end + 2
            end = start + size
            if data[end : end + 2] != b"\r\n":
                break
            content.append(data[start:end])
            at = end + 2
        return at

    # Each of these returns where the next part begins; None: not in these bytes.

    def _read_size(self, data: bytes, at: int) -> int | None:
        line = _SIZE_LINE.match(data, at)
        if line is None:
            self._keep(data[at:], LONGEST_SIZE_LINE)
            return None
        self._left = int(line[1], 16)
        self._part = DATA if self._left else TRAILER
        return line.end()

    def _read_data_end(self, data: bytes, at: int) -> int | None:
        self._part = SIZE
        if data.startswith(b"\r\n", at):
            return at + 2
        if data.startswith(b"\n", at):
            return at + 1
        self._part = DATA_END
        self._keep(data[at:], 1)
        return None

    def _read_trailer(self, data: bytes, at: int) -> int | None:
        end = data.find(b"\n", at)
        if end < 0:
            self._keep(data[at:], LONGEST_TRAILERS)
            return None
        self._trailers += end - at
        if data[at:end] in (b"", b"\r"):
            self.ended = True
            self.rest = data[end + 1 :]
        elif self._trailers > LONGEST_TRAILERS:
            self.error = NotHttp()
            return None
        return end + 1

    def _keep(self, line: bytes, most: int) -> None:
        """Of a line, the end has not come. One that has an end, or is too long, is not what should be there."""
        if b"\n" in line or len(line) > most:
            self.error = NotHttp()
        else:
            self._kept = line
