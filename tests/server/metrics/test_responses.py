"""The times of a response."""

import pytest

from antiphon.server.metrics.exposition import to_registry
from antiphon.server.metrics.instruments import Instruments
from antiphon.server.metrics.responses import ResponseSeries


@pytest.mark.parametrize(
    ("last_at", "now", "between"),
    [
        # What comes after the engine's last answer, such as the store, is not the engine's time.
        (14.0, 20.0, 0.5),
        # It was shown when all of it had come.
        (10.0, 16.0, 1.0),
    ],
)
def test_the_time_between_tokens_is_that_of_the_engine(last_at: float, now: float, between: float) -> None:
    instruments = Instruments()
    ResponseSeries(instruments, "http", "m", "none").time(10.0, 12.0, last_at, now, tokens=5)
    value = to_registry(instruments.all()).get_sample_value
    assert value("antiphon_inter_token_seconds_sum", {"model": "m"}) == between
    assert value("antiphon_time_to_first_token_seconds_sum", {"model": "m"}) == 2.0
    assert value("antiphon_response_seconds_sum", {"channel": "http", "model": "m"}) == now - 10.0


def test_without_output_there_is_no_first_token_and_with_one_token_nothing_between() -> None:
    instruments = Instruments()
    series = ResponseSeries(instruments, "http", "m", "none")
    series.time(10.0, None, 14.0, 15.0, tokens=5)
    series.time(10.0, 12.0, 14.0, 15.0, tokens=1)
    value = to_registry(instruments.all()).get_sample_value
    assert value("antiphon_time_to_first_token_seconds_count", {"model": "m"}) == 1
    assert value("antiphon_inter_token_seconds_count", {"model": "m"}) == 0
