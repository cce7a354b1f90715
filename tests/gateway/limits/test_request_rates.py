"""So many requests a minute: as many at once, then one by one, and the time that is said is the time it takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import RateLimited
from antiphon.gateway.limits.request_rates import MINUTE, RateState, RequestRates


def passes(rates: RequestRates, now: float, owner: str = "ada") -> bool:
    try:
        rates.count(owner, now)
    except RateLimited:
        return False
    return True


def test_without_a_limit_every_request_passes_and_nothing_is_said() -> None:
    rates = RequestRates(None)
    assert all(passes(rates, 0) for _ in range(1000))
    assert rates.state("ada", 0) is None


def test_a_minutes_requests_may_come_at_once_and_then_one_by_one() -> None:
    rates = RequestRates(6)
    assert [passes(rates, 100) for _ in range(7)] == [True] * 6 + [False]
    assert not passes(rates, 109.9)
    assert passes(rates, 110)
    assert not passes(rates, 110)
    assert rates.state("ada", 110) == RateState(6, 0, 60)
    assert rates.state("ada", 140) == RateState(6, 3, 30)
    assert rates.state("ada", 1000) == RateState(6, 6, 0)


def test_each_owner_has_a_minute_of_its_own() -> None:
    rates = RequestRates(1)
    assert passes(rates, 0, "ada")
    assert not passes(rates, 0, "ada")
    assert passes(rates, 0, "bob")


def test_an_owner_that_gets_a_name_has_used_what_it_has_used() -> None:
    rates = RequestRates(6)
    assert [passes(rates, 0, "hash") for _ in range(4)] == [True] * 4
    assert passes(rates, 0, "ada")
    rates.rename("hash", "ada", 10)
    # Five of them, of which one is allowed again for each owner.
    assert rates.state("ada", 10) == RateState(6, 3, 30)
    assert rates.state("hash", 10) == RateState(6, 6, 0)
    rates.rename("hash", "ada", 10)
    assert [passes(rates, 10, "ada") for _ in range(4)] == [True] * 3 + [False]


def test_owners_that_become_one_have_used_a_minute_at_most() -> None:
    rates = RequestRates(2)
    for owner in ("hash", "ada"):
        assert [passes(rates, 0, owner) for _ in range(2)] == [True] * 2
    rates.rename("hash", "ada", 0)
    assert rates.state("ada", 0) == RateState(2, 0, 60)


def test_the_message_counts_in_plain_english() -> None:
    rates = RequestRates(1)
    assert passes(rates, 0)
    with pytest.raises(RateLimited, match=r"^More than 1 request a minute: try again in 60 seconds\.$"):
        rates.count("ada", 0)
    with pytest.raises(RateLimited, match=r"^More than 1 request a minute: try again in 1 second\.$"):
        rates.count("ada", 59)


@given(st.integers(1, 120), st.lists(st.floats(0, 30), min_size=1, max_size=5))
def test_the_time_to_wait_is_true_and_no_longer_than_a_second_more(per_minute: int, pauses: list[float]) -> None:
    rates, now = RequestRates(per_minute), 12345.678
    for pause in pauses:
        now += pause
        while passes(rates, now):
            pass
        with pytest.raises(RateLimited) as refused:
            rates.count("ada", now)
        wait = refused.value.retry_after
        assert wait is not None
        state = rates.state("ada", now)
        assert state is not None
        assert state.remaining == 0
        # Refused just before, as it is said in whole seconds; and let in then.
        assert wait == 1 or not passes(rates, now + wait - 1)
        assert passes(rates, now + wait)
        now += wait


@given(st.integers(1, 50), st.lists(st.floats(0, 20), min_size=1, max_size=40))
def test_in_no_time_do_more_pass_than_at_once_and_one_by_one(per_minute: int, pauses: list[float]) -> None:
    rates, now = RequestRates(per_minute), 0.0
    passed: list[float] = []
    for pause in pauses:
        now += pause
        if passes(rates, now):
            passed.append(now)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            assert last - first + 1 <= per_minute + (passed[last] - passed[first]) * per_minute / MINUTE + 1e-3


@given(st.integers(1, 100), st.integers(0, 100))
def test_what_remains_is_what_passes(per_minute: int, used: int) -> None:
    rates = RequestRates(per_minute)
    for _ in range(used):
        passes(rates, 0)
    state = rates.state("ada", 7)
    assert state is not None
    assert [passes(rates, 7) for _ in range(per_minute + 1)].count(True) == state.remaining
