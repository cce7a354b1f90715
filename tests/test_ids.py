"""Ids."""

import os

import pytest

from antiphon.ids import new_id, random_hex, time_digits


def test_ids_differ_and_sort_in_the_order_in_which_they_were_made() -> None:
    ids = [new_id("msg") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert sorted(ids) == ids
    assert {len(id) for id in ids} == {len("msg_") + 48}


def test_the_time_is_read_from_an_id_that_was_made_here_and_from_no_other() -> None:
    ids = [new_id(prefix) for prefix in ("resp", "msg", "fc")]
    times = [time_digits(id) or "" for id in ids]
    assert times == sorted(times)
    assert all(int(digits, 16) == int(id.partition("_")[2][:16], 16) for digits, id in zip(times, ids, strict=True))
    others = ["", "msg_1", "item-1", ids[0].upper(), ids[0] + "0", ids[0][:-1], ids[0] + "\n", "0" * len(ids[0])]
    assert [time_digits(id) for id in others] == [None] * len(others)


def test_random_parts_are_drawn_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[int] = []
    urandom = os.urandom

    def draw(size: int) -> bytes:
        draws.append(size)
        return urandom(size)

    monkeypatch.setattr(os, "urandom", draw)
    for _ in range(1000):
        new_id("msg")
    assert 1 <= len(draws) <= 4


def test_a_process_that_was_forked_off_draws_its_own_random_parts() -> None:
    new_id("msg")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, random_hex().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 32
    assert theirs != random_hex()
