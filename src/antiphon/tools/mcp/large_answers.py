"""Large answers of MCP servers, which would keep the event loop from everything else.

The SDK reads every message there, and checks it part by part: four megabytes of small parts take it most of a second. So it
gets a small message in place of a large one, whose `_meta` has the text of the result. That is read in a thread, after the SDK
has found out which request it answers.

    {"jsonrpc": "2.0", "id": 3, "result": {"content": [], "_meta": {"antiphon/large": "{\\"content\\": [ … ]}"}}}
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.errors import UNREADABLE
from antiphon.tools.mcp.failures import INVALID_ANSWER, LONGEST_MESSAGE

# What is smaller takes the SDK, and us, less than 10 ms.
LARGE_ANSWER = 64 * 1024
# The member of `_meta`.
TEXT = "antiphon/large"
# The members of results that may be large.
LARGE_MEMBERS = ("tools", "content", "structuredContent", "_meta")
# What the SDK cannot read either.
NO_MESSAGE = b"!"
NEITHER = f"The server's answer has more than {LARGE_ANSWER:,} bytes, and is neither a result of a tool nor a list of tools."

JSON, EVENTS = "application/json", "text/event-stream"


class _Message(Struct):
    id: Any = None
    method: str | UnsetType = UNSET
    result: dict[str, Raw] | UnsetType = UNSET
    error: "_Error | UnsetType" = UNSET


class _Error(Struct):
    code: int = INVALID_ANSWER
    message: str = ""


class _Sent(Struct, omit_defaults=True):
    """What the SDK gets."""

    jsonrpc: str
    id: Any = UNSET
    method: str | UnsetType = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    error: _Error | UnsetType = UNSET


_read = msgspec.json.Decoder(_Message).decode


def to_small(message: bytes) -> bytes:
    """The message that stands for a large one."""
    try:
        given = _read(message)
        return msgspec.json.encode(_to_sent(given, message))
    except UNREADABLE:
        return NO_MESSAGE


def _to_sent(given: _Message, message: bytes) -> _Sent:
    if given.method is not UNSET:
        # What a server asks or reports by itself. None of it needs that much.
        return _Sent("2.0", UNSET if given.id is None else given.id, given.method)
    if given.error is not UNSET:
        return _Sent("2.0", given.id, error=_Error(given.error.code, given.error.message[: LONGEST_MESSAGE + 1]))
    members = {} if given.result is UNSET else given.result
    others = {name: value for name, value in members.items() if name not in LARGE_MEMBERS}
    if "tools" in members:
        return _Sent("2.0", given.id, result={**others, "tools": [], "_meta": {TEXT: _text(members["tools"])}})
    if "content" in members or "structuredContent" in members:
        whole = msgspec.json.encode(members)
        return _Sent("2.0", given.id, result={**others, "content": [], "_meta": {TEXT: whole.decode()}})
    return _Sent("2.0", given.id, error=_Error(message=NEITHER))


def _text(value: Raw) -> str:
    return bytes(value).decode()


def large_text(meta: Any) -> str | None:
    """The text of the result that a small one stands for. None: it stands for itself."""
    text = meta.get(TEXT) if isinstance(meta, dict) else None
    return text if isinstance(text, str) else None


# ---- over HTTP -------------------------------------------------------------------------------------------------------

Pieces = AsyncIterator[bytes]
_END = re.compile(rb"(?>\r\n|\r|\n){2}")
# A line end, and the first half of another one.
LONGEST_END = 4


async def json_to_small(pieces: Pieces) -> Pieces:
    """A body that is one message."""
    body = b"".join([piece async for piece in pieces])
    yield body if len(body) < LARGE_ANSWER else await asyncio.to_thread(to_small, body)


async def events_to_small(pieces: Pieces) -> Pieces:
    """Server-sent events. Each is passed on when all of it has come: before that, nobody can read it."""
    buffer = EventBuffer()
    async for piece in pieces:
        for event in buffer.receive(piece):
            yield event if len(event) < LARGE_ANSWER else await asyncio.to_thread(event_to_small, event)
    if rest := buffer.rest:
        yield rest


SMALL_FORMS: dict[str, Callable[[Pieces], Pieces]] = {JSON: json_to_small, EVENTS: events_to_small}


class EventBuffer:
    """`receive()` pieces of any size: whole events come out."""

    def __init__(self) -> None:
        self._pieces = bytearray()
        self._searched = 0

    @property
    def rest(self) -> bytes:
        return bytes(self._pieces)

    def receive(self, piece: bytes) -> Iterator[bytes]:
        self._pieces += piece
        start = 0
        while (end := _END.search(self._pieces, max(start, self._searched))) is not None:
            yield bytes(self._pieces[start : end.end()])
            self._searched = start = end.end()
        del self._pieces[:start]
        self._searched = max(0, len(self._pieces) - LONGEST_END)


def event_to_small(event: bytes) -> bytes:
    lines = event.splitlines()
    if any(line.startswith(b"event:") and line[6:].strip() != b"message" for line in lines):
        # No message.
        return event
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    others = [line for line in lines if line and not line.startswith(b"data:")]
    return b"\n".join([*others, b"data: " + to_small(data)]) + b"\n\n"
