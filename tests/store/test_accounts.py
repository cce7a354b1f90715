"""Usage, keys and messages to webhooks, in every store."""

import pytest
from msgspec import structs
from support.stores import BEGINNING, Clock, events, queued, record

from antiphon.store import IdTaken, Store
from antiphon.store.account_records import DAY, HOUR, Counts, Delivery, StoredKey, UsageEntry, UsageKind, UsageSum

ADA = UsageKind("ada", "m", "http")
BOB = UsageKind("bob", "m", "http")
ONE = Counts(1, 0, 10, 4, 5, 2, 1)
HOUR_BEGINS = BEGINNING - BEGINNING % HOUR
LATER = BEGINNING + 100 * DAY


def entry(id: str, kind: UsageKind = ADA, at: int = BEGINNING, counts: Counts = ONE) -> UsageEntry:
    return UsageEntry(id, at, kind, counts)


async def used(store: Store, owner: str | None = None) -> dict[str, Counts]:
    sums = await store.accounts.usage(0, LATER, DAY, owner)
    return {each.kind.owner: each.counts for each in sums}


async def test_usage_is_added_up_by_kind_and_time_and_an_entry_counts_once(store: Store, clock: Clock) -> None:
    other = UsageKind("ada", "other", "http")
    await store.accounts.add_usage([entry("e1"), entry("e2"), entry("e3", other), entry("e4", at=BEGINNING + HOUR)])
    await store.accounts.add_usage([entry("e1"), entry("e5", BOB)])
    two = ONE.plus(ONE)

    async def by_hour(owner: str | None) -> list[UsageSum]:
        return await store.accounts.usage(BEGINNING - HOUR, LATER, HOUR, owner)

    expected = [UsageSum(HOUR_BEGINS, ADA, two), UsageSum(HOUR_BEGINS, other, ONE), UsageSum(HOUR_BEGINS + HOUR, ADA, ONE)]
    assert await by_hour("ada") == expected
    assert [each for each in await by_hour(None) if each.kind.owner == "ada"] == expected
    # The same after the sweeper was there, and with entries after that.
    clock.forward(2 * HOUR)
    await store.accounts.sum_up_usage()
    assert await by_hour("ada") == expected
    await store.accounts.add_usage([entry("e6")])
    await store.accounts.sum_up_usage()
    await store.accounts.sum_up_usage()
    assert (await by_hour("ada"))[0].counts == two.plus(ONE)
    days = await store.accounts.usage(0, LATER, DAY, "bob")
    assert days == [UsageSum(BEGINNING - BEGINNING % DAY, BOB, ONE)]
    await store.accounts.forget_usage(BEGINNING + 30 * DAY)
    assert await used(store) == {}


async def test_the_usage_of_a_response_is_written_with_it_or_not_at_all(store: Store) -> None:
    await store.put(record("r1", usage=entry("r1")))
    assert await store.get("ada", "r1") == record("r1")
    with pytest.raises(IdTaken):
        await store.put(record("r1", usage=entry("r1")))
    assert await used(store) == {"ada": ONE}
    # Two in one group of writes, and one without.
    await store.put(record("r2"))
    await store.put(record("r3", owner="bob", usage=entry("r3", BOB)))
    assert await used(store) == {"ada": ONE, "bob": ONE}


async def test_a_background_response_is_counted_and_reported_by_the_attempt_that_ends_it(store: Store) -> None:
    message = Delivery("evt_1", "hook", BEGINNING, b"{}")
    await store.enqueue(queued("r1", "ada"), b"{}")
    assert await store.claim("w1", 60, 3)
    final = record("r1", background=True, usage=entry("r1"), deliveries=(message,))
    assert not await store.finish(final, "another", 1, events(0))
    assert await used(store) == {}
    assert await store.accounts.claim_deliveries("hook", 60, 10) == []
    assert await store.finish(final, "w1", 1, events(0))
    assert await used(store) == {"ada": ONE}
    assert await store.accounts.claim_deliveries("hook", 60, 10) == [structs.replace(message, attempts=1)]
    # One that is cancelled before it was run has used nothing.
    await store.enqueue(queued("r2", "ada"), b"{}")
    assert await store.cancel("ada", "r2", [structs.replace(message, id="evt_2")]) == "cancelled"
    assert [each.id for each in await store.accounts.claim_deliveries("hook", 60, 10)] == ["evt_2"]


async def test_usage_moves_with_its_owner(store: Store, clock: Clock) -> None:
    await store.accounts.add_usage([entry("e1"), entry("e2", BOB)])
    clock.forward(HOUR)
    await store.accounts.sum_up_usage()
    await store.accounts.add_usage([entry("e3")])
    await store.move_owner("ada", "bob")
    assert await used(store) == {"bob": ONE.plus(ONE).plus(ONE)}


async def test_keys_end_when_they_are_revoked_or_rotated(store: Store) -> None:
    def key(hash: str, name: str = "ada", ends_at: int | None = None) -> StoredKey:
        return StoredKey(hash=hash, name=name, hint=hash[-4:], created_at=BEGINNING, ends_at=ends_at)

    with store.accounts.follow_keys() as wakeup:
        await store.accounts.add_key(key("h1"))
        await wakeup.wait()
    await store.accounts.add_key(key("h2", "bob"))
    await store.accounts.limit_key("ada", b'{"tokens_per_day":1}')
    assert await store.accounts.rotate_key(key("h3"), BEGINNING + 60) == 1
    await store.accounts.limit_key("bob", b"{}")
    await store.accounts.limit_key("bob", None)
    state = await store.accounts.keys()
    assert state.keys == (key("h1", ends_at=BEGINNING + 60), key("h3"), key("h2", "bob"))
    assert state.limits == (("ada", b'{"tokens_per_day":1}'),)
    assert await store.accounts.end_keys("bob", BEGINNING, "h3") == 0
    # An end that comes later than the one that is set changes nothing.
    assert await store.accounts.end_keys("ada", BEGINNING + 90) == 1
    assert [each.ends_at for each in (await store.accounts.keys()).keys] == [BEGINNING + 60, BEGINNING + 90, None]


async def test_a_message_is_claimed_by_one_and_is_due_again_until_it_is_delivered(store: Store, clock: Clock) -> None:
    message = Delivery("evt_1", "hook", BEGINNING, b'{"id":"evt_1"}')
    with store.accounts.follow_deliveries() as wakeup:
        await store.accounts.add_deliveries([message, structs.replace(message, endpoint="other", id="evt_2")])
        await wakeup.wait()

    async def claimed() -> list[Delivery]:
        return await store.accounts.claim_deliveries("hook", 60, 10)

    assert await claimed() == [structs.replace(message, attempts=1)]
    assert await claimed() == []
    await store.accounts.postpone_delivery("evt_1", 5)
    clock.forward(5)
    assert await claimed() == [structs.replace(message, attempts=2)]
    clock.forward(60)
    assert await claimed() == [structs.replace(message, attempts=3)]
    await store.accounts.delivered("evt_1")
    clock.forward(60)
    assert await claimed() == []
    assert await store.accounts.expire_deliveries(BEGINNING + 1) == 1
    assert await store.accounts.claim_deliveries("other", 60, 10) == []
