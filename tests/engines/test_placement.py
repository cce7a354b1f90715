"""In which order the engines are tried: the properties of consistent hashing with bounded loads."""

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.load import least_busy, most_requests, order_of

loads = st.lists(st.integers(0, 50), min_size=1, max_size=12)
bounds = st.floats(1, 4)
keys = st.text(max_size=20)


def order(key: str, names: list[str], loads: list[int], bound: float = 1.25, room: int = 1) -> list[int]:
    return order_of(key, names, loads, [room] * len(names), bound)


def names(count: int) -> list[str]:
    return [f"http://engine-{at}:8000" for at in range(count)]


@given(keys, loads, bounds)
def test_every_engine_is_tried_once(key: str, loads: list[int], bound: float) -> None:
    assert sorted(order(key, names(len(loads)), loads, bound)) == list(range(len(loads)))


@given(keys, loads, bounds)
def test_no_engine_gets_more_than_the_bound(key: str, loads: list[int], bound: float) -> None:
    first = order(key, names(len(loads)), loads, bound)[0]
    share = (sum(loads) + 1) / len(loads)
    assert loads[first] + 1 <= max(math.ceil(bound * share), min(loads) + 2)


@given(keys, loads, bounds, st.integers(1, 10))
def test_an_engine_with_a_free_slot_is_not_left(key: str, loads: list[int], bound: float, room: int) -> None:
    home = order(key, names(len(loads)), [0] * len(loads), bound)[0]
    first = order(key, names(len(loads)), loads, bound, room)[0]
    assert first == home or loads[home] >= room


@given(st.integers(1, 8), st.lists(keys, min_size=1, max_size=100), bounds)
def test_the_bound_is_kept_whatever_keys_come(count: int, keys: list[str], bound: float) -> None:
    loads = [0] * count
    for key in keys:
        most = most_requests(loads, bound)
        loads[order(key, names(count), loads, bound)[0]] += 1
        assert max(loads) <= most


@given(st.integers(2, 10), st.data())
def test_an_engine_that_goes_moves_only_its_own_keys(count: int, data: st.DataObject) -> None:
    all_names = names(count)
    gone = data.draw(st.integers(0, count - 1))
    left = [name for at, name in enumerate(all_names) if at != gone]
    for key in map(str, range(50)):
        before = [all_names[at] for at in order(key, all_names, [0] * count, 1.25)]
        after = [left[at] for at in order(key, left, [0] * (count - 1), 1.25)]
        assert after == [name for name in before if name != all_names[gone]]


@given(keys, loads)
def test_the_order_does_not_depend_on_that_of_the_settings(key: str, loads: list[int]) -> None:
    straight, turned = names(len(loads)), names(len(loads))[::-1]
    first = [straight[at] for at in order(key, straight, loads, 1.25)]
    second = [turned[at] for at in order(key, turned, loads[::-1], 1.25)]
    under = sum(load < most_requests(loads, 1.25) for load in loads)
    assert first[:under] == second[:under]


def test_keys_are_spread_evenly() -> None:
    first = Counter(order(str(key), names(4), [0] * 4, 1.25)[0] for key in range(4000))
    assert all(800 < count < 1200 for count in first.values())


def test_a_key_returns_to_its_engine() -> None:
    home = order("key", names(3), [0, 0, 0], 1.25)[0]
    busy = [5 if at == home else 1 for at in range(3)]
    assert order("key", names(3), busy, 1.25)[0] != home
    assert order("key", names(3), busy, 1.25)[-1] == home
    assert order("key", names(3), [1, 1, 1], 1.25)[0] == home


def test_few_requests_do_not_move_a_key() -> None:
    """A second request beside an idle engine: a cold cache there costs more than a second one at the same time here."""
    home = order("key", names(3), [0, 0, 0], 1.0)[0]
    assert order("key", names(3), [int(at == home) for at in range(3)], 1.0)[0] == home


@given(loads, st.integers(0, 1000))
def test_without_a_key_the_least_busy_one_is_first(loads: list[int], turn: int) -> None:
    order = least_busy(loads, turn)
    assert sorted(order) == list(range(len(loads)))
    assert [loads[at] for at in order] == sorted(loads)


def test_equally_busy_engines_take_turns() -> None:
    assert [least_busy([0, 0, 0], turn)[0] for turn in range(4)] == [0, 1, 2, 0]
