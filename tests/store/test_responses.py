"""Responses: put, read, deleted, and traced back to the first one of their chain."""

import asyncio

import pytest
from support.stores import BEGINNING, DAY, Clock, record

from antiphon.store import IdTaken, Store, open_store


async def test_a_response_is_read_as_it_was_put(store: Store) -> None:
    put = record("r1", parent="r0", conversation="c1", background=True, input='["ä\\u0000"]'.encode(), status="incomplete")
    await store.put(put)
    assert await store.get("ada", "r1") == put


async def test_a_response_survives_a_restart_if_the_store_says_so(url: str, clock: Clock) -> None:
    async with open_store(url, clock) as store:
        await store.put(record("r1"))
    async with open_store(url, clock) as store:
        assert (await store.get("ada", "r1") is not None) is store.survives_restart
    assert store.survives_restart is not url.startswith("memory:")


async def test_a_response_that_was_never_put_does_not_exist(store: Store) -> None:
    assert await store.get("ada", "r1") is None
    assert await store.delete("ada", "r1") is False
    assert await store.chain("ada", "r1") == []


@pytest.mark.parametrize("owner", ["ada", "bob"])
async def test_an_id_that_exists_cannot_be_put_again(store: Store, owner: str) -> None:
    await store.put(record("r1"))
    with pytest.raises(IdTaken):
        await store.put(record("r1", owner, output=b"[1]"))
    assert await store.get("ada", "r1") == record("r1")
    assert await store.get("bob", "r1") is None


async def test_a_concurrent_put_that_fails_does_not_affect_the_others(store: Store) -> None:
    await store.put(record("r7", "bob"))
    puts = [store.put(record(f"r{number % 50}", output=f"[{number}]".encode())) for number in range(100)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    failed = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, IdTaken)]
    assert failed == [7, *range(50, 100)]
    assert [outcome for number, outcome in enumerate(outcomes) if number not in failed] == [None] * 49
    found = [await store.get("ada", f"r{number}") for number in range(50) if number != 7]
    assert [response.output for response in found if response] == [
        f"[{number}]".encode() for number in range(50) if number != 7
    ]


async def test_a_deleted_response_is_gone(store: Store) -> None:
    await store.put(record("r1"))
    assert await store.delete("ada", "r1") is True
    assert await store.delete("ada", "r1") is False
    assert await store.get("ada", "r1") is None


async def test_a_chain_leads_from_the_first_response_to_the_one_asked_for(store: Store) -> None:
    await store.put(record("r1"))
    await store.put(record("r2", parent="r1"))
    await store.put(record("r3", parent="r2", status="failed"))
    await store.put(record("sibling", parent="r1"))
    links = await store.chain("ada", "r3")
    assert [(link.id, link.status) for link in links] == [("r1", "completed"), ("r2", "completed"), ("r3", "failed")]
    assert (links[1].input, links[1].output) == (record("r2").input, record("r2").output)
    assert [link.id for link in await store.chain("ada", "sibling")] == ["r1", "sibling"]


async def test_a_chain_starts_after_a_deleted_response(store: Store) -> None:
    for number in range(1, 5):
        await store.put(record(f"r{number}", parent=f"r{number - 1}"))
    await store.delete("ada", "r2")
    assert [link.id for link in await store.chain("ada", "r4")] == ["r3", "r4"]


async def test_a_deletion_is_remembered_while_responses_that_continue_it_can_exist(store: Store, clock: Clock) -> None:
    await store.put(record("r1"))
    await store.put(record("r2", expires_at=BEGINNING + 10))
    clock.forward(10)
    await store.sweep()
    # What has expired was not deleted.
    assert not await store.was_deleted("ada", "r2")
    assert not await store.was_deleted("ada", "r1")
    await store.delete("ada", "r1")
    clock.forward(30 * DAY)
    await store.sweep()
    assert await store.was_deleted("ada", "r1")
    clock.forward(2 * DAY)
    assert not await store.was_deleted("ada", "r1")
    await store.sweep()
    assert not await store.was_deleted("ada", "r1")


async def test_a_deletion_is_remembered_after_a_restart_if_the_store_says_so(url: str, clock: Clock) -> None:
    async with open_store(url, clock) as store:
        await store.put(record("r1"))
        await store.delete("ada", "r1")
        survives = store.survives_restart
    async with open_store(url, clock) as store:
        assert await store.was_deleted("ada", "r1") == survives


async def test_responses_can_be_kept_longer_and_never_shorter(store: Store, clock: Clock) -> None:
    for number in range(3):
        await store.put(record(f"r{number}", expires_at=BEGINNING + 10 * (number + 1)))
    await store.keep_until("ada", ["r0", "r1", "r2", "nowhere"], BEGINNING + 20)
    expiries = [(await store.get("ada", f"r{number}")) for number in range(3)]
    assert [each.expires_at - BEGINNING for each in expiries if each is not None] == [20, 20, 30]
    clock.forward(20)
    # What has expired does not come back.
    await store.keep_until("ada", ["r0"], BEGINNING + 100)
    assert await store.get("ada", "r0") is None
    await store.keep_until("ada", [f"r{number}" for number in range(2, 2000)], BEGINNING + 100)
    assert await store.get("ada", "r2") == record("r2", expires_at=BEGINNING + 100)


async def test_a_chain_starts_after_an_expired_response(store: Store, clock: Clock) -> None:
    await store.put(record("r1", expires_at=BEGINNING + 10))
    await store.put(record("r2", parent="r1"))
    clock.forward(10)
    assert [link.id for link in await store.chain("ada", "r2")] == ["r2"]


async def test_a_chain_does_not_pass_through_another_owner(store: Store) -> None:
    await store.put(record("r1", "bob"))
    await store.put(record("r2", "ada", parent="r1"))
    assert [link.id for link in await store.chain("ada", "r2")] == ["r2"]


async def test_a_long_chain_is_read_completely_and_in_order(store: Store) -> None:
    await asyncio.gather(*(store.put(record(f"r{number}", parent=f"r{number - 1}")) for number in range(300)))
    assert [link.id for link in await store.chain("ada", "r299")] == [f"r{number}" for number in range(300)]


async def test_a_chain_with_a_cycle_ends(store: Store) -> None:
    await store.put(record("r1", parent="r2"))
    await store.put(record("r2", parent="r1"))
    assert {link.id for link in await store.chain("ada", "r2")} == {"r1", "r2"}


async def test_an_expired_response_does_not_exist_even_before_it_is_swept(store: Store, clock: Clock) -> None:
    await store.put(record("r1", expires_at=BEGINNING + 10))
    clock.forward(9)
    assert await store.get("ada", "r1") is not None
    clock.forward(1)
    assert await store.get("ada", "r1") is None
    assert await store.chain("ada", "r1") == []
    assert await store.delete("ada", "r1") is False
    assert await store.events("ada", "r1") is None
    assert await store.cancel("ada", "r1") == "unknown"


async def test_sweeping_removes_what_has_expired_and_nothing_else(store: Store, clock: Clock) -> None:
    await asyncio.gather(*(store.put(record(f"r{number}", expires_at=BEGINNING + number)) for number in range(1, 21)))
    clock.forward(15)
    assert await store.sweep() == 15
    assert await store.sweep() == 0
    # An id that was swept is free again.
    await store.put(record("r1", "bob"))
    remaining = [number for number in range(1, 21) if await store.get("ada", f"r{number}")]
    assert remaining == [16, 17, 18, 19, 20]
