"""Headers about limits, and the pieces of a long event."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.gateway.limits.request_rates import RateState
from antiphon.server.answers import duration, rate_headers
from antiphon.server.routes.responses import in_pieces


@pytest.mark.parametrize(
    ("seconds", "written"), [(0, "0ms"), (0.25, "250ms"), (1, "1s"), (59.6, "1m0s"), (90, "1m30s"), (12.4, "12s")]
)
def test_a_duration_is_written_as_openai_writes_it(seconds: float, written: str) -> None:
    assert duration(seconds) == written


def test_without_a_limit_there_are_no_headers() -> None:
    assert rate_headers(None) == {}
    assert rate_headers(RateState(10, 3, 42.0)) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "3",
        "x-ratelimit-reset-requests": "42s",
    }


@given(st.lists(st.binary(max_size=40).map(lambda text: b"data: " + text.hex().encode() + b"\n\n"), max_size=20))
def test_pieces_are_all_of_the_frames_and_none_begins_with_the_end_of_one(frames: list[bytes]) -> None:
    whole = b"".join(frames)
    pieces = list(map(bytes, in_pieces(whole, 10)))
    assert b"".join(pieces) == whole
    assert not [piece for piece in pieces if piece.startswith(b"\n")]
    assert all(len(piece) <= 20 for piece in pieces)
