"""A request as it was read."""

from collections.abc import Sequence
from typing import NamedTuple

from antiphon.core.protocols.responses.validation import unknown_notices
from antiphon.gateway.limits.large_requests import LARGE_BODY, LARGE_HISTORY
from antiphon.gateway.runs.observers import Arrival
from antiphon.wire.responses import CreateResponse


class ReadRequest(NamedTuple):
    """With the names of the fields that are not part of the API."""

    request: CreateResponse
    unknown: Sequence[str]
    arrival: Arrival
    # The body is a request of the Responses API, not of another protocol.
    is_plain: bool = True

    def is_large(self, history: Sequence[object]) -> bool:
        own = 1 if isinstance(self.request.input, str) else len(self.request.input or ())
        return len(self.arrival.body) >= LARGE_BODY or len(history) + own >= LARGE_HISTORY

    @property
    def notices(self) -> list[str]:
        return unknown_notices(self.unknown)
