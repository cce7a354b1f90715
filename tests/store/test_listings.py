"""Lists of what is stored: the newest first, a page at a time, of one owner or of all, and those that contain something."""

import pytest
from support.stores import Clock, conversation, items, record

from antiphon.errors import InvalidRequest
from antiphon.store import Store
from antiphon.store.operations import Row, Statement
from antiphon.store.records import ITEMS, Item, Listing, ListPlace, SearchBounds
from antiphon.store.sql import listings


def ids(listing: Listing) -> list[str]:
    return [row.id for row in listing.rows]


async def fill(store: Store, clock: Clock) -> None:
    """r0 … r6, of which ada has the even ones. Two of them are as old as each other."""
    for number in range(7):
        created_at = int(clock.now) + number // 2
        await store.put(record(f"r{number}", "ada" if number % 2 == 0 else "bob", created_at=created_at))


async def test_the_newest_come_first_and_every_page_follows_the_one_before(store: Store, clock: Clock) -> None:
    await fill(store, clock)
    seen, after = list[str](), None
    while True:
        listing = await store.list_responses(None, after=after, limit=2)
        seen += ids(listing)
        if listing.after is None:
            break
        after = ListPlace.read(listing.after)
    assert seen == ["r6", "r5", "r4", "r3", "r2", "r1", "r0"]


async def test_an_owner_sees_its_own(store: Store, clock: Clock) -> None:
    await fill(store, clock)
    assert ids(await store.list_responses("ada")) == ["r6", "r4", "r2", "r0"]
    assert ids(await store.list_responses("bob", limit=2)) == ["r5", "r3"]
    assert await store.list_responses("carl") == Listing([], None)


async def test_what_has_expired_is_not_listed(store: Store, clock: Clock) -> None:
    await store.put(record("r1", created_at=int(clock.now), expires_at=int(clock.now) + 10))
    assert ids(await store.list_responses(None)) == ["r1"]
    clock.now += 10
    assert ids(await store.list_responses(None)) == []


async def test_a_search_finds_what_the_input_or_the_output_contains(store: Store, clock: Clock) -> None:
    await store.put(record("r1", input='[{"id": "a", "text": "Grüße"}]'.encode()))
    await store.put(record("r2", output=b'[{"id": "b", "text": "hello"}]'))
    await store.put(record("r3"))
    assert ids(await store.list_responses(None, search="Grüße".encode())) == ["r1"]
    assert ids(await store.list_responses(None, search=b"hello")) == ["r2"]
    assert ids(await store.list_responses(None, search=b"nothing")) == []


async def test_a_search_goes_on_where_the_page_before_ended(store: Store, clock: Clock) -> None:
    for number in range(10):
        await store.put(record(f"r{number}", created_at=int(clock.now) + number, input=b"[%d]" % (number % 5)))
    seen, after, pages = list[str](), None, 0
    while pages < 20:
        listing = await store.list_responses(None, search=b"[1]", after=after, limit=1, bounds=SearchBounds(rows=3))
        seen += ids(listing)
        pages += 1
        if listing.after is None:
            break
        after = ListPlace.read(listing.after)
    assert seen == ["r6", "r1"]


async def test_a_search_for_one_page_reads_so_many_bytes_and_no_more(store: Store, clock: Clock) -> None:
    for number in range(6):
        input = b'["%s"]' % (b"x" * 10_000) if number else b'["needle", "%s"]' % (b"x" * 90_000)
        await store.put(record(f"r{number}", created_at=int(clock.now) + number, input=input))
    found, after, pages = list[str](), None, 0
    while pages < 20:
        listing = await store.list_responses("ada", search=b"needle", after=after, bounds=SearchBounds(bytes=25_000))
        found += ids(listing)
        pages += 1
        if listing.after is None:
            break
        after = ListPlace.read(listing.after)
    # Two, two, one, and the long one alone.
    assert (found, pages) == (["r0"], 4)


def test_a_search_reads_only_the_rows_that_its_bound_allows() -> None:
    rows: list[Row] = [(7, "r3", 9_000_000), (6, "r2", 6_000_000), (5, "r1", 2_000_000), (4, "r0", 1)]
    operation = listings.page(listings.RESPONSES, None, b"needle", None, 20, 0.0)
    assert isinstance(next(operation), Statement)
    searched = operation.send(rows)
    assert isinstance(searched, Statement)
    assert searched.values == [b"needle", "r3", "r2"]


async def test_of_a_long_conversation_the_newest_items_are_searched(store: Store) -> None:
    old, new = Item("old", b'{"id":"old","text":"hay"}'), Item("new", b'{"id":"new","text":"needle"}')
    await store.create_conversation(conversation("c1", "ada"), [old, *items(*map(str, range(ITEMS - 1))), new])
    assert ids(await store.list_conversations("ada", search=b"needle")) == ["c1"]
    assert ids(await store.list_conversations("ada", search=b"hay")) == []


async def test_a_row_has_what_a_list_shows(store: Store, clock: Clock) -> None:
    await store.put(record("r1", "ada", status="failed", input=b'[{"id":"a"}]', settings=b'{"model":"m"}'))
    (row,) = (await store.list_responses("ada")).rows
    assert (row.id, row.owner, row.status, row.beginning, row.settings) == (
        "r1", "ada", "failed", b'[{"id":"a"}]', b'{"model":"m"}'
    )  # fmt: skip
    await store.create_conversation(conversation("c1", "ada", metadata=b'{"topic":"x"}'), items("i1", "i2"))
    (row,) = (await store.list_conversations("ada")).rows
    assert (row.id, row.items, row.settings, row.status) == ("c1", 2, b'{"topic":"x"}', None)
    assert row.beginning is not None
    assert b"i1" in row.beginning


async def test_conversations_are_found_by_their_items_until_they_are_deleted(store: Store) -> None:
    await store.create_conversation(conversation("c1", "ada"), [Item("i1", b'{"id":"i1","text":"needle"}')])
    await store.create_conversation(conversation("c2", "ada"))
    assert ids(await store.list_conversations("ada", search=b"needle")) == ["c1"]
    assert sorted(ids(await store.list_conversations(None))) == ["c1", "c2"]
    await store.delete_conversation("ada", "c1")
    assert ids(await store.list_conversations(None)) == ["c2"]


@pytest.mark.parametrize("text", ["", "r1", "x.r1", "9" * 40 + ".r1", "5."])
def test_a_place_that_no_page_named_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ListPlace.read(text)
    assert refused.value.param == "after"
