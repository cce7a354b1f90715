"""The ring of recordings: how many requests are kept, which are forgotten first, and how many a second are recorded."""

from antiphon.gateway.runs.observers import Arrival
from antiphon.server.inspector.recordings import Recordings
from antiphon.server.inspector.rows import Row


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def arrival(body: bytes = b"{}", *, is_recorded: bool = True) -> Arrival:
    return Arrival(body, "ada", "http", 0.0, is_recorded=is_recorded)


def refuse(recordings: Recordings, body: bytes = b"{}") -> None:
    """A request that ends before anything is known of it but its body."""
    observer = recordings.observe(arrival(body))
    assert observer is not None
    observer.dropped(None)


def numbers(recordings: Recordings) -> list[int]:
    return [each.row.number for each in recordings]


def test_so_many_requests_are_kept_the_newest_first() -> None:
    recordings = Recordings(10**6, Clock(), most_ended=3)
    for _ in range(5):
        refuse(recordings)
    assert numbers(recordings) == [5, 4, 3]
    assert (recordings.get(2), len(recordings)) == (None, 3)


def test_so_many_bytes_are_kept() -> None:
    recordings = Recordings(100_000, Clock())
    for _ in range(20):
        refuse(recordings, b"x" * 10_000)
    assert numbers(recordings)[0] == 20
    assert 1 < len(recordings) < 20
    assert recordings.used <= 100_000


def test_a_request_that_runs_is_not_forgotten_for_one_that_has_ended() -> None:
    recordings = Recordings(10**6, Clock(), most_ended=1)
    recordings.observe(arrival())
    for _ in range(3):
        refuse(recordings)
    assert numbers(recordings) == [4, 1]


def test_what_arrives_without_being_recorded_has_no_observer() -> None:
    recordings = Recordings(10**6, Clock())
    assert recordings.observe(arrival(is_recorded=False)) is None
    assert len(recordings) == 0


def test_beyond_the_rate_and_the_burst_requests_are_left_out_and_counted() -> None:
    clock = Clock()
    recordings = Recordings(10**6, clock, rate=2, burst=1)
    assert [recordings.may_record() for _ in range(5)] == [True, True, True, False, False]
    assert recordings.left_out == 2
    clock.now += 0.5
    assert [recordings.may_record() for _ in range(2)] == [True, False]
    clock.now += 100
    assert [recordings.may_record() for _ in range(4)] == [True, True, True, False]


def test_numbers_may_come_from_elsewhere() -> None:
    recordings = Recordings(10**6, Clock(), next_number=iter([7, 9]).__next__)
    refuse(recordings)
    refuse(recordings)
    assert numbers(recordings) == [9, 7]


def test_times_are_rounded_when_they_are_shown() -> None:
    row = Row(number=1, at=0.0, channel="http", owner="", first_token=0.123456, output_tokens=10)
    row.time(0.98765432)
    assert (row.first_token, row.seconds) == (0.123456, 0.98765432)
    shown = row.shown()
    assert (shown.first_token, shown.seconds, shown.tokens_per_second) == (0.1235, 0.9877, 11.57)
