"""Chat requests for the tests, which are read and run without a gateway."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from antiphon.core.events.plain_deltas import AnyEvent, expand
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.core.protocols.chat.protocol import CHAT
from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS
from antiphon.wire.responses import CreateResponse
from support.completions import check_chunks, chunks_of
from support.sync_runs import run_exchange

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
USER = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}


def read(**fields: Any) -> ReadRequest:
    body = {"model": "mock", "messages": [USER], **fields}
    return CHAT.read(msgspec.json.encode(body), {}, DEFAULT_LIMITS)


def exchange_of(request: CreateResponse, dialect: Dialect) -> Exchange:
    numbers = itertools.count(1)
    environment = Environment(new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 1).plain()
    return Exchange(request, [EngineKnowledge(dialect)], environment, response_id="resp_1", may_ask_again=False)


def arrivals(frames: Iterable[bytes], **fields: Any) -> Iterator[tuple[int, bytes]]:
    """What a client is sent, each piece with the number of the engine's frame that has brought it."""
    given, came, last = read(**{"stream": True, **fields}), itertools.count(), 0
    encoder = CHAT.encoder(given.request, given.facts)

    def arriving() -> Iterator[bytes]:
        nonlocal last
        for frame in frames:
            last = next(came)
            yield frame

    for event in run_exchange(exchange_of(given.request, PLAIN), lambda step: arriving()):
        if sent := encoder.encode(event):
            yield last, sent


def run(pieces: Iterable[bytes], dialect: Dialect = PLAIN, **fields: Any) -> tuple[bytes, dict[str, Any]]:
    """The stream and the whole answer to a request whose engine gives this answer."""
    given = read(**{"tools": [WEATHER], "stream": True, **fields})
    exchange, encoder = exchange_of(given.request, dialect), CHAT.encoder(given.request, given.facts)
    events: list[AnyEvent] = list(run_exchange(exchange, lambda step: pieces))
    stream = b"".join((*map(encoder.encode, events), *encoder.end))
    # A delta in its compact form is written as in its full one.
    again = CHAT.encoder(given.request, given.facts)
    assert b"".join((*(again.encode(expand(event)) for event in events), *again.end)) == stream
    check_chunks(chunks_of(stream))
    return stream, msgspec.json.decode(CHAT.whole(exchange.response, given.request, given.facts))
