"""The heads of requests that have nothing unusual, read in a few calls. Every other head is left to aiohttp.

So this is stricter than HTTP: what a parser could understand in two ways is never read here.
"""

import re
from typing import Generic, TypeVar

from msgspec import Struct
from multidict import CIMultiDict, CIMultiDictProxy

# In bytes. aiohttp takes a head with more, but no longer line.
LONGEST_HEAD = 8190
MOST_HEADERS = 100
HEAD_END = b"\r\n\r\n"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Nothing but visible ASCII, with spaces inside: no line that goes on in the next one, no letters that need a charset.
_VALUE = r"[!-~]+(?:[ \t]+[!-~]+)*"
_HEADERS = re.compile(rf"(?:{_TOKEN}:[ \t]*{_VALUE}[ \t]*\r\n)+".encode())
_LENGTH = re.compile("[0-9]{1,15}")

# Each must be there.
NEEDED = frozenset({"host", "content-length"})
# What says how a body is sent, or that the connection is to be used in another way. Old WebSockets are an error of aiohttp's.
UNUSUAL = frozenset(
    "transfer-encoding content-encoding expect upgrade te trailer proxy-connection http2-settings sec-websocket-key1".split()
)
# By which a client says that it keeps the connection, which needs no saying.
KEPT = frozenset({"keep-alive", "Keep-Alive"})


def read_head(data: bytes, start: int) -> tuple[CIMultiDictProxy[str], int, int] | None:
    """The headers, the length of the body, and where it begins. `start`: where the headers begin, behind the request line.
    None: they are not complete, or not plain."""
    end = data.find(HEAD_END, start, LONGEST_HEAD) + 2
    if end < 2 or _HEADERS.fullmatch(data, start, end) is None:
        return None
    # Every line is plain by now, so it need not be searched by a pattern once more.
    lines = [line.partition(":") for line in data[start : end - 2].decode("ascii").split("\r\n")]
    found = {name.lower() for name, _, _ in lines}
    if len(found) != len(lines) or len(lines) > MOST_HEADERS or not found >= NEEDED or not UNUSUAL.isdisjoint(found):
        return None
    headers = CIMultiDict([(name, value.strip(" \t")) for name, _, value in lines])
    length = headers["Content-Length"]
    if not _LENGTH.fullmatch(length) or ("Connection" in headers and headers["Connection"] not in KEPT):
        return None
    return CIMultiDictProxy(headers), int(length), end + 2


# ---- The same head again: a client that keeps its connection sends it with each request, but for the length of the body ----

R = TypeVar("R")
LONGEST_LENGTH = 15
# In a head that was read, so there is one.
_LENGTH_LINE = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)


class KnownHead(Struct, Generic[R], frozen=True):
    """To read a head takes 2 % of a small request; to see that it is the one before takes a tenth of that."""

    # What stands before the digits of the length and behind them, with the request line and the empty line.
    before: bytes
    after: bytes
    length: bytes
    headers: CIMultiDictProxy[str]
    route: R

    def read_again(self, data: bytes) -> tuple[CIMultiDictProxy[str], int, int] | None:
        """As `read_head` would return it. None: it is another head, or not complete."""
        begins = len(self.before)
        ends = data.find(b"\r", begins, begins + LONGEST_LENGTH + 1)
        body = ends + len(self.after)
        if data[:begins] != self.before or data[ends:body] != self.after:
            return None
        length = data[begins:ends]
        if length == self.length:
            return self.headers, int(length), body
        if not length.isdigit():
            return None
        headers = CIMultiDict(self.headers)
        headers["Content-Length"] = length.decode()
        return CIMultiDictProxy(headers), int(length), body


def to_known(data: bytes, head: tuple[CIMultiDictProxy[str], int, int], route: R) -> KnownHead[R] | None:
    """`head`: as `read_head` has read it at the beginning of the data. None: it cannot be known again."""
    headers, _, end = head
    found = _LENGTH_LINE.search(data, 0, end)
    if found is None:
        return None
    begins, ends = found.span(1)
    return KnownHead(data[:begins], data[ends:end], data[begins:ends], headers, route)
