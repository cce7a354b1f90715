"""Ids."""

from antiphon.gateway.ids import new_id


def test_ids_differ_and_sort_in_the_order_in_which_they_were_made() -> None:
    ids = [new_id("msg") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert sorted(ids) == ids
    assert {len(id) for id in ids} == {len("msg_") + 48}
