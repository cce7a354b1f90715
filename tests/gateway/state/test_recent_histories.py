"""The histories that a connection remembers."""

import msgspec

from antiphon.gateway.state.recent_histories import RecentHistories


def test_the_number_of_responses_is_limited() -> None:
    histories = RecentHistories(most_responses=2)
    for id in ("one", "two", "three"):
        histories.add(id, [b"[]"])
    assert [histories.get(id) for id in ("one", "two", "three")] == [(), (b"[]",), (b"[]",)]


def test_the_number_of_bytes_is_limited() -> None:
    histories = RecentHistories(most_bytes=10)
    histories.add("one", [b"12345"])
    histories.add("two", [b"12345"])
    histories.remove("two")
    histories.add("three", [b"123", b"45"])
    assert histories.get("one") == (b"12345",)
    histories.add("four", [b"1"])
    assert histories.get("one") == ()
    histories.add("larger than all", [b"12345678901"])
    assert not any(histories.get(id) for id in ("three", "four", "larger than all"))


def test_items_are_found_in_every_history_the_latest_first() -> None:
    histories = RecentHistories()
    histories.add("one", [b'[{"id":"a","n":1},{"id":"b","n":1}]'])
    histories.add("two", [*histories.get("one"), b'[{"id":"a","n":2},{"id":"c","type":"item_reference"}]'])
    assert histories.find_items(["a", "b", "c", "d"]) == {"a": {"id": "a", "n": 2}, "b": {"id": "b", "n": 1}}


def test_many_items_are_found_in_one_pass_over_the_histories() -> None:
    ids = [f"msg_{number}" for number in range(20_000)]
    histories = RecentHistories()
    histories.add("one", [msgspec.json.encode([{"id": id, "text": "x" * 500} for id in ids])])
    assert histories.find_items([*ids, "nowhere"]).keys() == set(ids)
