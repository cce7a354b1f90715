"""Events on their way to a client, in a protocol that does not have a form for every event."""

from collections.abc import Sequence
from typing import ClassVar

from antiphon.core.events.lifecycle import Heartbeat, in_progress_event
from antiphon.core.events.plain_deltas import AnyEvent
from antiphon.gateway.runs.outbox import EncodedSink
from antiphon.wire import events
from antiphon.wire.responses import Response

RESPONSE = Response(id="resp_1", created_at=1, model="mock")
ALIVE, IN_PROGRESS = Heartbeat(response=RESPONSE), in_progress_event(RESPONSE)
ENDED = events.ResponseCompleted(response=RESPONSE)


class Terse:
    """Only says that it is done, and that it is there."""

    end: ClassVar[tuple[bytes, ...]] = (b".",)

    def encode(self, event: AnyEvent) -> bytes:
        return b"done" if isinstance(event, events.ResponseCompleted) else b""

    def heartbeat(self) -> bytes:
        return b"alive"


class Written:
    def __init__(self) -> None:
        self.data: list[bytes] = []

    def write(self, events: Sequence[bytes], *, last: bool = False) -> bool:
        self.data += events
        return True

    def write_event(self, event: bytes) -> bool:
        return self.write((event,))

    async def drain(self) -> None: ...


def written(*emitted: AnyEvent, last: bool = False) -> list[bytes]:
    stream = Written()
    assert EncodedSink(stream, Terse()).write(emitted, last=last) is bool(stream.data)
    return stream.data


def test_what_has_no_form_is_not_written() -> None:
    assert written(IN_PROGRESS) == []
    assert written(IN_PROGRESS, IN_PROGRESS) == []


def test_a_heartbeat_that_has_no_form_is_a_sign_of_life() -> None:
    assert written(ALIVE) == [b"alive"]
    assert written(IN_PROGRESS, ALIVE) == [b"alive"]


def test_what_is_written_is_a_sign_of_life_itself() -> None:
    assert written(ALIVE, ENDED) == [b"done"]


def test_the_end_follows_the_last_event() -> None:
    assert written(ALIVE, ENDED, last=True) == [b"done", b"."]
