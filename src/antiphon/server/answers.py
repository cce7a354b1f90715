"""JSON as an answer, and notices as its header."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import Payload, hdrs, web

from antiphon.core.events.json_pieces import JsonPieces, long_json
from antiphon.core.protocols.client_protocol import JSON
from antiphon.gateway.limits.request_rates import RateState

LONGEST_HEADER = 4000


def to_json(value: Any, headers: Mapping[str, str] | None = None) -> web.Response:
    return to_answer(long_json(value) or msgspec.json.encode(value), JSON, headers or {})


def to_answer(body: bytes | JsonPieces, kind: str, headers: Mapping[str, str]) -> web.Response:
    """`kind`: its `Content-Type`."""
    sent = body if isinstance(body, bytes) else LongBody(body)
    return web.Response(body=sent, headers={hdrs.CONTENT_TYPE: kind, **headers})


class LongBody(Payload):
    """A long body. Each piece of it is encoded when the client has taken the one before."""

    def __init__(self, pieces: JsonPieces) -> None:
        super().__init__(pieces)
        self._pieces = pieces
        self._size = len(pieces)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._pieces).decode(encoding, errors)

    async def write(self, writer: Any) -> None:
        for piece in self._pieces:
            await writer.write(piece)


def notice_header(notices: Sequence[str]) -> dict[str, str]:
    text = "; ".join(notices)[:LONGEST_HEADER]
    if not text:
        return {}
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in text)
    return {"antiphon-notice": plain}


# ---- The headers that say how many requests a key may still send, as OpenAI's clients know them ----------------------


def rate_headers(state: RateState | None) -> dict[str, str]:
    """None: there is no limit, and nothing to say."""
    if state is None:
        return {}
    return {
        "x-ratelimit-limit-requests": str(state.limit),
        "x-ratelimit-remaining-requests": str(state.remaining),
        "x-ratelimit-reset-requests": duration(state.reset),
    }


def duration(seconds: float) -> str:
    """Such as 1m30s, 12s or 250ms."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
