"""Events as frames: what is encoded once for two of them is the same as each by itself."""

import pytest

from antiphon.core.events.encode import SseEncoder, event_to_frame
from antiphon.core.events.lifecycle import Lifecycle, Numbering
from antiphon.core.events.plain_deltas import expand
from antiphon.wire.responses import Response


@pytest.mark.parametrize(("status", "count"), [("in_progress", 2), ("queued", 3)])
@pytest.mark.parametrize("first", [0, 12])
def test_the_events_that_open_a_response_are_encoded_as_each_of_them(status: str, count: int, first: int) -> None:
    response = Response(id="resp_1", created_at=1, model='"sequence_number":0}', status=status, metadata={"a": "\n"})
    lifecycle = Lifecycle(response, Numbering(first))
    opening = lifecycle.start()
    assert len(opening) == count
    each = [event_to_frame(expand(event)) for event in opening]
    assert SseEncoder().encode_all(opening) == each
    ended = lifecycle.end(2, incomplete=None, error=None)
    assert SseEncoder().encode_all([*opening, ended]) == [*each, event_to_frame(ended)]
    # A heartbeat has a response of its own.
    later = [opening[0], lifecycle.heartbeat()]
    assert SseEncoder().encode_all(later) == [event_to_frame(expand(event)) for event in later]
    assert SseEncoder().encode_all([]) == []
