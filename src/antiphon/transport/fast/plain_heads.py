"""The heads of requests that have nothing unusual, read in a few calls. Every other head is left to aiohttp.

So this is stricter than HTTP: what a parser could understand in two ways is never read here.
"""

import re

from multidict import CIMultiDict, CIMultiDictProxy

# In bytes. aiohttp takes a head with more, but no longer line.
LONGEST_HEAD = 8190
MOST_HEADERS = 100
HEAD_END = b"\r\n\r\n"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Nothing but visible ASCII, with spaces inside: no line that goes on in the next one, no letters that need a charset.
_VALUE = r"[!-~]+(?:[ \t]+[!-~]+)*"
_HEADER = re.compile(rf"({_TOKEN}):[ \t]*({_VALUE})[ \t]*\r\n")
_HEADERS = re.compile(rf"(?:{_TOKEN}:[ \t]*{_VALUE}[ \t]*\r\n)+".encode())
_NAMES = re.compile(rf"({_TOKEN}):[^\r]*\r\n".encode())
_LENGTH = re.compile("[0-9]{1,15}")

# Each must be there.
NEEDED = frozenset({b"host", b"content-length"})
# What says how a body is sent, or that the connection is to be used in another way. Old WebSockets are an error of aiohttp's.
UNUSUAL = frozenset(
    b"transfer-encoding content-encoding expect upgrade te trailer proxy-connection http2-settings sec-websocket-key1".split()
)
# By which a client says that it keeps the connection, which needs no saying.
KEPT = frozenset({"keep-alive", "Keep-Alive"})


def read_head(data: bytes, start: int) -> tuple[CIMultiDictProxy[str], int, int] | None:
    """The headers, the length of the body, and where it begins. `start`: where the headers begin, behind the request line.
    None: they are not complete, or not plain."""
    end = data.find(HEAD_END, start, LONGEST_HEAD) + 2
    if end < 2 or _HEADERS.fullmatch(data, start, end) is None:
        return None
    names = _NAMES.findall(data[start:end].lower())
    found = set(names)
    if len(found) != len(names) or len(names) > MOST_HEADERS or not found >= NEEDED or not UNUSUAL.isdisjoint(found):
        return None
    headers = CIMultiDict(_HEADER.findall(data[start:end].decode("ascii")))
    length = headers["Content-Length"]
    if not _LENGTH.fullmatch(length) or ("Connection" in headers and headers["Connection"] not in KEPT):
        return None
    return CIMultiDictProxy(headers), int(length), end + 2
