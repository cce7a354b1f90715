"""HTTP in both directions, and the only package that uses aiohttp internals.

Two implementations do the same: `fast` asks engines by a client of its own, which pushes their answers, and writes events
straight to the sockets; `plain` uses aiohttp's public API only. `make_session` chooses, and everything else follows the
session. Both share the connections of clients, and those of aiohttp to engines (`connections`). What is private in aiohttp is
used in `internals`; `assumptions` checks at the start what it means, and `plain` takes over where that has changed.
"""

from antiphon.transport.choice import choose, make_session, transport_of
from antiphon.transport.connections import (
    BACKLOG,
    CLOSE_CONNECTION,
    LINGER,
    AnswerError,
    BadBody,
    BadRequest,
    ConnectionOptions,
    LongHeader,
    Runner,
    SlowBody,
    cut_off,
    reads_whole,
)
from antiphon.transport.interfaces import (
    Answer,
    Body,
    Endpoint,
    EndpointOptions,
    EventStream,
    MessageStream,
    NotHttp,
    NotReachable,
    Receiver,
    Stale,
    Transport,
)
from antiphon.transport.plain.client import PieceReader
from antiphon.transport.websocket import Socket

__all__ = [
    "BACKLOG",
    "CLOSE_CONNECTION",
    "LINGER",
    "Answer",
    "AnswerError",
    "BadBody",
    "BadRequest",
    "Body",
    "ConnectionOptions",
    "Endpoint",
    "EndpointOptions",
    "EventStream",
    "LongHeader",
    "MessageStream",
    "NotHttp",
    "NotReachable",
    "PieceReader",
    "Receiver",
    "Runner",
    "SlowBody",
    "Socket",
    "Stale",
    "Transport",
    "choose",
    "cut_off",
    "make_session",
    "reads_whole",
    "transport_of",
]
