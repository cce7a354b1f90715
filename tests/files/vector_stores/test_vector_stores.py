"""Vector stores: made, changed, deleted and searched, each by its owner alone."""

import msgspec
import pytest
from support.stores import BEGINNING, DAY, Clock
from support.vector_stores import SimpleVectorStores
from support.ways_in import until

from antiphon.errors import InvalidRequest, NotFound
from antiphon.files.vector_stores.interfaces import VectorStoreLimits
from antiphon.files.vector_stores.search.found import SearchOptions
from antiphon.store import Store
from antiphon.store.sql.listings import RowPage
from antiphon.wire.vector_stores import (
    BatchFile,
    ChunkSizes,
    CreateFileBatch,
    CreateStoreFile,
    CreateVectorStore,
    ExpiresAfter,
    StaticChunking,
    UpdateVectorStore,
    VectorStore,
)


async def make(simple: SimpleVectorStores, *files: str, owner: str = "ada") -> VectorStore:
    return await simple.stores.create(owner, CreateVectorStore(list(files)))


async def test_a_store_has_what_it_was_made_with(simple: SimpleVectorStores) -> None:
    body = CreateVectorStore(
        name="Notes\0", description="Mine", expires_after=ExpiresAfter("last_active_at", 3), metadata={"a": "b"}
    )
    made = await simple.stores.create("ada", body)
    assert msgspec.to_builtins(made) == {
        "id": made.id,
        "object": "vector_store",
        "created_at": BEGINNING,
        "name": "Notes\0",
        "description": "Mine",
        "usage_bytes": 0,
        "file_counts": {"in_progress": 0, "completed": 0, "failed": 0, "cancelled": 0, "total": 0},
        "status": "completed",
        "expires_after": {"anchor": "last_active_at", "days": 3},
        "expires_at": BEGINNING + 3 * DAY,
        "last_active_at": BEGINNING,
        "metadata": {"a": "b"},
    }
    assert await simple.stores.get("ada", made.id) == made


async def test_a_change_leaves_alone_what_it_does_not_mention(simple: SimpleVectorStores) -> None:
    body = CreateVectorStore(name="Notes", expires_after=ExpiresAfter("last_active_at", 3), metadata={"a": "b"})
    id = (await simple.stores.create("ada", body)).id
    changed = await simple.stores.update("ada", id, UpdateVectorStore(name="Papers"))
    assert (changed.name, changed.metadata, changed.expires_at) == ("Papers", {"a": "b"}, BEGINNING + 3 * DAY)
    changed = await simple.stores.update("ada", id, UpdateVectorStore(expires_after=None, metadata=None))
    assert (changed.name, changed.metadata, changed.expires_at) == ("Papers", {}, None)
    assert await simple.stores.get("ada", id) == changed


async def test_the_counts_and_bytes_are_those_of_its_files(working: SimpleVectorStores) -> None:
    working.texts.fails["bad"] = InvalidRequest("No.")
    for id in ("one", "two"):
        await working.file(id, "ä word")
    working.files.put("slow")
    made = await make(working, "one", "two", "slow")
    assert made.status == "in_progress"
    assert (made.file_counts.in_progress, made.file_counts.total) == (3, 3)
    await working.ended(made.id, "one", "two")
    now = await working.stores.get("ada", made.id)
    assert (now.file_counts.in_progress, now.file_counts.completed, now.usage_bytes, now.status) == (1, 2, 14, "in_progress")
    await working.texts.set(slow="x")
    await working.ended(made.id, "slow")
    now = await working.stores.get("ada", made.id)
    assert (now.file_counts.completed, now.usage_bytes, now.status) == (3, 15, "completed")


async def test_another_owners_store_is_one_that_does_not_exist(working: SimpleVectorStores) -> None:
    await working.file("one")
    id = (await make(working, "one")).id
    await working.ended(id, "one")
    stores, files = working.stores, working.store_files
    batch = (await files.create_batch("ada", id, CreateFileBatch(file_ids=["one"]))).id

    async def messages(owner: str, id: str) -> list[str]:
        found = []
        for attempt in (
            stores.get(owner, id),
            stores.update(owner, id, UpdateVectorStore(name="x")),
            stores.delete(owner, id),
            stores.check(owner, [id]),
            stores.search(owner, [id], ["word"], SearchOptions()),
            files.add(owner, id, CreateStoreFile("one")),
            files.get(owner, id, "one"),
            files.update(owner, id, "one", {"a": 1}),
            files.list_files(owner, id, RowPage(), None),
            files.remove(owner, id, "one"),
            files.content(owner, id, "one"),
            files.create_batch(owner, id, CreateFileBatch(file_ids=["one"])),
            files.get_batch(owner, id, batch),
            files.cancel_batch(owner, id, batch),
            files.list_batch(owner, id, batch, RowPage(), None),
        ):
            with pytest.raises(NotFound) as missing:
                await attempt
            found.append(missing.value.message.replace(id, "ID"))
        return found

    assert await messages("bob", id) == await messages("ada", "vs_none")
    assert (await stores.list_stores("bob", RowPage())).stores == []
    assert (await stores.get("ada", id)).file_counts.completed == 1


async def test_another_owners_file_cannot_be_added(simple: SimpleVectorStores) -> None:
    await simple.file("hers", owner="bob")
    await simple.file("one")
    id = (await make(simple)).id
    for attempt in (
        make(simple, "one", "hers"),
        simple.store_files.add("ada", id, CreateStoreFile("hers")),
        simple.store_files.create_batch("ada", id, CreateFileBatch(file_ids=["one", "hers"])),
        simple.store_files.create_batch("ada", id, CreateFileBatch(files=[BatchFile("hers")])),
    ):
        with pytest.raises(NotFound, match="File with id 'hers' not found"):
            await attempt
    assert (await simple.stores.get("ada", id)).file_counts.total == 0
    assert len((await simple.stores.list_stores("ada", RowPage())).stores) == 1


# ---- lists -----------------------------------------------------------------------------------------------------------


async def test_stores_are_listed_a_page_at_a_time(simple: SimpleVectorStores, clock: Clock) -> None:
    ids = []
    for _ in range(5):
        ids.append((await make(simple)).id)
        clock.forward(1)
    await make(simple, owner="bob")

    async def page(**members: object) -> tuple[list[int], bool]:
        listed = await simple.stores.list_stores("ada", RowPage(**{"limit": 2, **members}))  # type: ignore[arg-type]
        return [ids.index(each.id) for each in listed.stores], listed.has_more

    assert await page() == ([4, 3], True)
    assert await page(after=ids[3]) == ([2, 1], True)
    assert await page(after=ids[1]) == ([0], False)
    assert await page(ascending=True) == ([0, 1], True)
    assert await page(ascending=True, after=ids[3]) == ([4], False)
    assert await page(before=ids[0]) == ([2, 1], True)
    assert await page(before=ids[3]) == ([4], False)
    assert await page(ascending=True, before=ids[4]) == ([2, 3], True)
    with pytest.raises(InvalidRequest) as refused:
        await page(after="vs_none")
    assert refused.value.param == "after"


async def test_files_are_listed_by_their_status(working: SimpleVectorStores) -> None:
    await working.file("good")
    working.files.put("slow")
    id = (await make(working, "good", "slow")).id
    await working.ended(id, "good")
    everything = await working.store_files.list_files("ada", id, RowPage(ascending=True), None)
    assert [each.id for each in everything.files] == ["good", "slow"]
    completed = await working.store_files.list_files("ada", id, RowPage(), "completed")
    assert [each.id for each in completed.files] == ["good"]
    # The place in the list is one that has another status now.
    after = await working.store_files.list_files("ada", id, RowPage(after="good", ascending=True), "in_progress")
    assert [each.id for each in after.files] == ["slow"]


# ---- limits ----------------------------------------------------------------------------------------------------------


async def test_an_owner_has_a_limited_number_of_stores(store: Store) -> None:
    simple = SimpleVectorStores(store, limits=VectorStoreLimits(stores=2))
    first = await make(simple)
    await make(simple)
    with pytest.raises(InvalidRequest, match="At most 2 vector stores"):
        await make(simple)
    await make(simple, owner="bob")
    await simple.stores.delete("ada", first.id)
    await make(simple)


async def test_a_store_has_a_limited_number_of_files(store: Store) -> None:
    simple = SimpleVectorStores(store, limits=VectorStoreLimits(files=2))
    for id in ("one", "two", "three"):
        simple.files.put(id)
    id = (await make(simple, "one")).id
    with pytest.raises(InvalidRequest, match="at most 2 files"):
        await simple.store_files.create_batch("ada", id, CreateFileBatch(file_ids=["two", "three"]))
    # One that is there already needs no room.
    await simple.store_files.create_batch("ada", id, CreateFileBatch(file_ids=["one", "two"]))
    assert (await simple.stores.get("ada", id)).file_counts.total == 2


@pytest.mark.parametrize("limits", [VectorStoreLimits(key_bytes=25), VectorStoreLimits(bytes=25)])
async def test_the_texts_of_an_owner_and_of_everybody_have_a_limited_size(store: Store, limits: VectorStoreLimits) -> None:
    simple = SimpleVectorStores(store, limits=limits)
    simple.indexer.start()
    for id in ("one", "two", "three"):
        await simple.file(id, "x" * 10)
    await simple.file("large", "x" * 26)
    # The same file counts in each store.
    first, second = [(await make(simple, "one", "two")).id, (await make(simple)).id]
    assert await simple.ended(first, "one", "two") == ["completed", "completed"]
    for id in ("three", "large"):
        await simple.store_files.add("ada", second, CreateStoreFile(id))
        assert await simple.ended(second, id) == ["failed"]
        error = (await simple.store_files.get("ada", second, id)).last_error
        assert error is not None
        assert "no room" in error.message
    # What failed takes no room, and what was removed gives it back.
    assert (await simple.stores.get("ada", second)).usage_bytes == 0
    await simple.store_files.remove("ada", first, "two")
    await simple.store_files.add("ada", second, CreateStoreFile("one"))
    assert await simple.ended(second, "one") == ["completed"]
    await simple.file("rest", "xxxxx")
    await simple.store_files.add("ada", second, CreateStoreFile("rest"))
    assert await simple.ended(second, "rest") == ["completed"]
    with pytest.raises(InvalidRequest, match="no room") as refused:
        await simple.store_files.add("ada", second, CreateStoreFile("two"))
    assert refused.value.code == "vector_store_bytes_exceeded"
    await simple.file("of bob", "xxxxx", "bob")
    if limits.key_bytes is not None:
        of_bob = (await make(simple, "of bob", owner="bob")).id
        assert await simple.ended(of_bob, "of bob", owner="bob") == ["completed"]
    await simple.indexer.close()


async def test_a_store_remembers_a_limited_number_of_batches(store: Store) -> None:
    simple = SimpleVectorStores(store, limits=VectorStoreLimits(batches=2))
    simple.files.put("one")
    id, other = (await make(simple)).id, (await make(simple)).id
    of_other = await simple.store_files.create_batch("ada", other, CreateFileBatch(file_ids=["one"]))
    body = CreateFileBatch(file_ids=["one"])
    first, *rest = [(await simple.store_files.create_batch("ada", id, body)).id for _ in range(3)]
    with pytest.raises(NotFound):
        await simple.store_files.get_batch("ada", id, first)
    for batch in rest:
        assert (await simple.store_files.get_batch("ada", id, batch)).file_counts.total == 1
    assert (await simple.store_files.get_batch("ada", other, of_other.id)).file_counts.total == 1
    assert (await simple.stores.get("ada", id)).file_counts.total == 1


async def test_an_overlap_is_at_most_half_of_a_chunk(simple: SimpleVectorStores) -> None:
    simple.files.put("one")
    wrong, right = StaticChunking(ChunkSizes(100, 51)), StaticChunking(ChunkSizes(100, 50))
    with pytest.raises(InvalidRequest) as refused:
        await simple.stores.create("ada", CreateVectorStore(["one"], chunking_strategy=wrong))
    assert refused.value.param == "chunking_strategy.static.chunk_overlap_tokens"
    body = CreateFileBatch(files=[BatchFile("one"), BatchFile("one", chunking_strategy=wrong)])
    with pytest.raises(InvalidRequest) as refused:
        await simple.store_files.create_batch("ada", "vs_none", body)
    assert refused.value.param == "files[1].chunking_strategy.static.chunk_overlap_tokens"
    id = (await simple.stores.create("ada", CreateVectorStore(["one"], chunking_strategy=right))).id
    assert (await simple.store_files.get("ada", id, "one")).chunking_strategy == right


# ---- expiry ----------------------------------------------------------------------------------------------------------


async def expiring(simple: SimpleVectorStores, *files: str) -> str:
    body = CreateVectorStore(list(files), expires_after=ExpiresAfter("last_active_at", 2))
    return (await simple.stores.create("ada", body)).id


async def test_a_store_that_is_used_does_not_expire(simple: SimpleVectorStores, clock: Clock) -> None:
    id = await expiring(simple)
    for _ in range(3):
        clock.forward(DAY * 1.5)
        await simple.stores.search("ada", [id], ["x"], SearchOptions())
    now = await simple.stores.get("ada", id)
    assert (now.status, now.last_active_at, now.expires_at) == ("completed", int(clock.now), int(clock.now) + 2 * DAY)


async def test_an_expired_store_is_shown_as_such_and_cannot_be_used(working: SimpleVectorStores, clock: Clock) -> None:
    await working.file("one")
    id = await expiring(working, "one")
    await working.ended(id, "one")
    clock.forward(2 * DAY)
    assert (await working.stores.get("ada", id)).status == "expired"
    for attempt in (
        working.stores.search("ada", [id], ["x"], SearchOptions()),
        working.stores.check("ada", [id]),
        working.stores.update("ada", id, UpdateVectorStore(name="x")),
        working.store_files.add("ada", id, CreateStoreFile("one")),
        working.store_files.update("ada", id, "one", {"a": 1}),
        working.store_files.create_batch("ada", id, CreateFileBatch(file_ids=["one"])),
    ):
        with pytest.raises(InvalidRequest, match="has expired"):
            await attempt
    assert await working.stores.sweep() == 0
    assert (await working.stores.list_stores("ada", RowPage())).stores[0].status == "expired"
    # What is in it may be removed.
    await working.store_files.remove("ada", id, "one")
    await working.stores.delete("ada", id)


async def test_an_expired_store_is_removed_after_a_while(working: SimpleVectorStores, clock: Clock) -> None:
    await working.file("one")
    id = await expiring(working, "one")
    await working.ended(id, "one")
    assert working.index.chunks
    clock.forward(9 * DAY + 1)
    assert await working.stores.sweep() == 1
    with pytest.raises(NotFound):
        await working.stores.get("ada", id)
    await until(lambda: not working.index.chunks)


# ---- owners ----------------------------------------------------------------------------------------------------------


async def test_stores_follow_a_key_that_gets_a_name(simple: SimpleVectorStores) -> None:
    simple.files.put("one")
    ids = [(await make(simple, "one")).id for _ in range(3)]
    assert await simple.stores.move_owner("ada", "Ada Lovelace") == 6
    assert len((await simple.stores.list_stores("Ada Lovelace", RowPage())).stores) == 3
    assert await simple.stores.owner_of(ids[0]) == "Ada Lovelace"
    assert await simple.stores.move_owner("ada", "Ada Lovelace") == 0
    # The file has moved, too, before it was indexed.
    simple.files.put("one", "Ada Lovelace")
    await simple.texts.set(one="words")
    simple.indexer.start()
    assert await simple.ended(ids[0], "one", owner="Ada Lovelace") == ["completed"]
    await simple.indexer.close()
