"""A recorded engine stream → the Responses events that it becomes. `rerun.py` does this for a whole recording."""

import itertools
from collections.abc import Iterable

from antiphon.core.events.encode import SseEncoder
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.core.exchange.environment import Environment
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.sync_run import run_exchange
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.wire.responses import CreateResponse

PLAIN = Dialect(name="plain")
REQUEST = CreateResponse(model="replay", input="…", stream=True, store=False)


def replay(pieces: Iterable[bytes], request: CreateResponse = REQUEST, dialect: Dialect = PLAIN) -> bytes:
    """The recording is one engine answer. Ids and times are counted, not drawn: the same recording gives the same bytes."""
    numbers = itertools.count(1)
    environment = Environment(new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 0)
    exchange = Exchange(request, [EngineKnowledge(dialect)], environment, response_id="resp_replay", asks_again=False)
    return to_stream(run_exchange(exchange, lambda step: pieces))


def to_stream(events: Iterable[AnyEvent], *, ended: bool = True) -> bytes:
    encoder = SseEncoder()
    return b"".join((*map(encoder.encode, events), *(encoder.end if ended else ())))
