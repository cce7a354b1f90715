"""Files of vector stores are indexed in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest
import pytest_asyncio
from support.stores import Clock
from support.vector_stores import SimpleVectorStores, indexed, unreadable
from support.ways_in import until

from antiphon.errors import EngineUnavailable, NotFound
from antiphon.files.vector_stores.indexer import IndexerOptions
from antiphon.files.vector_stores.search.found import SearchOptions
from antiphon.store import Store, open_store
from antiphon.store.files import indexing
from antiphon.store.files.vector_store_files import remove as remove_file
from antiphon.store.operations import Operation, Statement
from antiphon.store.sql.listings import RowPage
from antiphon.wire.vector_stores import ChunkSizes, CreateFileBatch, CreateStoreFile, CreateVectorStore, StaticChunking

# Two hundred chunks, of a hundred tokens each.
LONG = "\n\n".join(f"Paragraph {number} " + "word " * 70 for number in range(200))
SMALL = StaticChunking(ChunkSizes(100, 0))


async def make(simple: SimpleVectorStores, *files: str, owner: str = "ada") -> str:
    return (await simple.stores.create(owner, CreateVectorStore(list(files), chunking_strategy=SMALL))).id


async def found(simple: SimpleVectorStores, store: str, query: str) -> list[str]:
    return [row.file_id for row in await simple.stores.search("ada", [store], [query], SearchOptions(most=50))]


class Held:
    """An index that stops before it adds chunks from a number on."""

    def __init__(self, simple: SimpleVectorStores, first: int = 100) -> None:
        self._first = first
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        simple.index.before_adding = self._wait

    async def _wait(self, store: str, file: str, first: int) -> None:
        if first >= self._first:
            self.reached.set()
            await self.go_on.wait()


async def test_a_file_is_indexed_and_found(working: SimpleVectorStores) -> None:
    await working.file("one", LONG)
    store = await make(working, "one")
    assert await working.ended(store, "one") == ["completed"]
    texts = await working.content(store, "one")
    assert len(texts) == 200
    record = await working.store_files.get("ada", store, "one")
    assert record.usage_bytes == sum(len(text) for text in texts)
    rows = await working.stores.search("ada", [store], ["Paragraph 77 "], SearchOptions())
    assert [(row.file_id, row.filename, row.text) for row in rows] == [("one", "one.txt", texts[77])]


@pytest.mark.parametrize("code", ["unsupported_file", "invalid_file", "server_error"])
async def test_a_file_without_text_has_failed_and_says_why(code: str, working: SimpleVectorStores) -> None:
    await working.file("one")
    working.texts.fails["one"] = unreadable(code)
    store = await make(working, "one")
    assert await working.ended(store, "one") == ["failed"]
    failed = await working.store_files.get("ada", store, "one")
    assert failed.last_error is not None
    assert (failed.last_error.code, failed.last_error.message) == (code, "It has no text.")
    assert (await working.stores.get("ada", store)).status == "completed"


async def test_an_error_of_ours_fails_the_file_and_nothing_else(working: SimpleVectorStores) -> None:
    await working.file("one")
    await working.file("two")
    working.texts.fails["one"] = ZeroDivisionError()
    store = await make(working, "one", "two")
    assert await working.ended(store, "one", "two") == ["failed", "completed"]
    failed = await working.store_files.get("ada", store, "one")
    assert failed.last_error is not None
    assert failed.last_error.code == "server_error"


async def test_an_error_that_may_pass_is_tried_again(working: SimpleVectorStores) -> None:
    await working.file("one")
    working.texts.fails_once["one"] = EngineUnavailable("No embeddings now.")
    store = await make(working, "one")
    assert await working.ended(store, "one") == ["completed"]
    assert working.texts.asked == ["one", "one"]


async def test_a_disk_that_cannot_be_read_is_tried_again(working: SimpleVectorStores) -> None:
    await working.file("one")
    working.texts.fails_once["one"] = OSError(28, "No space left on device")
    store = await make(working, "one")
    assert await working.ended(store, "one") == ["completed"]


async def test_an_error_that_does_not_pass_fails_the_file_in_the_end(working: SimpleVectorStores) -> None:
    await working.file("one")
    working.texts.fails["one"] = EngineUnavailable("No embeddings now.")
    store = await make(working, "one")
    assert await working.ended(store, "one") == ["failed"]
    failed = await working.store_files.get("ada", store, "one")
    assert failed.last_error is not None
    assert (failed.last_error.code, failed.last_error.message) == ("server_error", "No embeddings now.")
    assert working.texts.asked == ["one"] * 3


async def test_a_file_that_is_gone_has_failed(working: SimpleVectorStores) -> None:
    working.files.put("one")
    store = await make(working, "one")
    await until(lambda: working.texts.asked == ["one"])
    await working.indexer.close()
    del working.files.records["one"]
    again = SimpleVectorStores.beside(working)
    async with indexed(again):
        assert await again.ended(store, "one") == ["failed"]
    failed = await again.store_files.get("ada", store, "one")
    assert failed.last_error is not None
    assert failed.last_error.code == "invalid_file"


# ---- interrupted -----------------------------------------------------------------------------------------------------


async def test_a_gateway_that_stops_gives_its_files_back_and_another_goes_on(simple: SimpleVectorStores) -> None:
    await simple.file("one", LONG)
    held = Held(simple)
    simple.indexer.start()
    store = await make(simple, "one")
    await held.reached.wait()
    await simple.indexer.close()
    assert await simple.status(store, "one") == "in_progress"
    assert [len(texts) for texts in simple.index.chunks.values()] == [100]
    begun: list[int] = []

    async def note(store: str, file: str, first: int) -> None:
        begun.append(first)

    simple.index.before_adding = note
    async with indexed(SimpleVectorStores.beside(simple)) as other:
        assert await other.ended(store, "one") == ["completed"]
    assert begun == [100]
    assert len(await simple.content(store, "one")) == 200


async def claim(simple: SimpleVectorStores, name: str, clock: Clock, served: str | None = None) -> str | None:
    """As a gateway does that dies then."""
    job = await simple.stored.database.write(indexing.claim(name, 30, served, (), clock.now))
    return None if job is None else job.record.file


async def test_the_file_of_a_gateway_that_died_is_taken_over_when_its_lease_has_ended(
    simple: SimpleVectorStores, clock: Clock
) -> None:
    await simple.file("one")
    store = await make(simple, "one")
    assert await claim(simple, "dead", clock) == "one"
    clock.forward(29)
    assert await claim(simple, "other", clock) is None
    clock.forward(1)
    async with indexed(simple):
        assert await simple.ended(store, "one") == ["completed"]


async def test_a_file_that_kills_its_gateways_has_failed_in_the_end(simple: SimpleVectorStores, clock: Clock) -> None:
    await simple.file("one")
    store = await make(simple, "one")
    for name in ("first", "second", "third"):
        assert await claim(simple, name, clock) == "one"
        clock.forward(30)
    async with indexed(simple):
        assert await simple.ended(store, "one") == ["failed"]
    failed = await simple.store_files.get("ada", store, "one")
    assert failed.last_error is not None
    assert (failed.last_error.code, simple.texts.asked) == ("server_error", [])
    # It may be tried once more.
    async with indexed(SimpleVectorStores.beside(simple)) as again:
        await simple.store_files.add("ada", store, CreateStoreFile("one", chunking_strategy=SMALL))
        assert await again.ended(store, "one") == ["completed"]


async def test_a_gateway_that_dies_after_it_has_added_chunks_uses_up_no_attempt(
    simple: SimpleVectorStores, clock: Clock
) -> None:
    await simple.file("one")
    await make(simple, "one")
    for number in range(5):
        job = await simple.stored.database.write(indexing.claim(f"gateway {number}", 30, None, (), clock.now))
        assert job is not None
        assert job.lost <= 1
        await simple.stored.database.write(indexing.report(f"gateway {number}", job.record, 30, clock.now))
        clock.forward(30)


async def test_a_lease_is_renewed_while_a_file_is_indexed(store: Store, clock: Clock) -> None:
    simple = SimpleVectorStores(store, IndexerOptions(lease=0.03))
    simple.files.put("slow")

    def held_until() -> Operation[float]:
        rows = yield Statement("SELECT held_until FROM vector_store_files")
        return float(rows[0][0])

    async with indexed(simple):
        id = await make(simple, "slow")
        await until(lambda: simple.texts.asked == ["slow"])
        clock.forward(1000)
        async with asyncio.timeout(20):
            while await simple.stored.database.read(held_until()) < clock.now:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert await claim(simple, "other", clock) is None
        await simple.texts.set(slow="x")
        assert await simple.ended(id, "slow") == ["completed"]


async def test_what_another_gateway_has_taken_over_is_left_to_it(store: Store, clock: Clock) -> None:
    simple = SimpleVectorStores(store, IndexerOptions(lease=3000))
    await simple.file("one", LONG)
    held = Held(simple)
    async with indexed(simple):
        id = await make(simple, "one")
        await held.reached.wait()
        clock.forward(3000)
        assert await claim(simple, "other", clock) == "one"
        held.go_on.set()
        await until(lambda: not simple.indexer._running)
        assert await simple.status(id, "one") == "in_progress"
    # Both write the same chunks, so nothing is removed. It may have noticed before it added the others.
    assert [len(texts) for texts in simple.index.chunks.values()] in ([100], [200])


async def test_nothing_is_opened_before_there_are_files(clock: Clock, tmp_path: object) -> None:
    async with open_store(f"sqlite:{tmp_path}/responses.db", clock, poll=0.005) as store, indexed(SimpleVectorStores(store)):
        await asyncio.sleep(0.03)
        assert not store.files.is_used()


# ---- changed while it is indexed -------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def halfway(working: SimpleVectorStores) -> AsyncIterator[tuple[SimpleVectorStores, str, Held]]:
    """A file of which half is indexed."""
    await working.file("one", LONG)
    held = Held(working)
    store = await make(working, "one")
    await held.reached.wait()
    yield working, store, held
    held.go_on.set()


Halfway = tuple[SimpleVectorStores, str, Held]


async def is_stopped(simple: SimpleVectorStores) -> None:
    """It is not indexed any more, and nothing is left of it."""
    await until(lambda: not simple.indexer._running)
    await until(lambda: not simple.index.chunks)


async def test_a_file_that_is_removed_from_its_store_is_not_indexed_further(halfway: Halfway) -> None:
    simple, store, _ = halfway
    await simple.store_files.remove("ada", store, "one")
    await is_stopped(simple)
    with pytest.raises(NotFound):
        await simple.store_files.get("ada", store, "one")


async def test_a_file_that_is_deleted_is_not_indexed_further(halfway: Halfway) -> None:
    simple, store, _ = halfway
    await simple.stores.forget_file("one")
    await is_stopped(simple)
    assert (await simple.stores.get("ada", store)).file_counts.total == 0


async def test_the_files_of_a_deleted_store_are_not_indexed_further(halfway: Halfway) -> None:
    simple, store, _ = halfway
    await simple.stores.delete("ada", store)
    await is_stopped(simple)


def rows_left() -> Operation[int]:
    tables = ("vector_store_files", "file_batches", "batch_files", "discarded_documents")
    rows = yield Statement(" UNION ALL ".join(f"SELECT count(*) FROM {table}" for table in tables))
    return sum(row[0] for row in rows)


async def test_nothing_is_left_of_a_deleted_store(working: SimpleVectorStores) -> None:
    await working.file("one")
    store = await make(working, "one")
    await working.store_files.create_batch("ada", store, CreateFileBatch(file_ids=["one"]))
    await working.ended(store, "one")
    await working.stores.delete("ada", store)
    async with asyncio.timeout(20):
        while await working.stored.database.read(rows_left()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert not working.index.chunks


async def test_a_cancelled_batch_is_not_indexed_further(working: SimpleVectorStores) -> None:
    await working.file("one", LONG)
    await working.file("done")
    held = Held(working)
    store = await make(working)
    batch = (
        await working.store_files.create_batch("ada", store, CreateFileBatch(file_ids=["done", "one"], chunking_strategy=SMALL))
    ).id
    await working.ended(store, "done")
    cancelled = await working.store_files.cancel_batch("ada", store, batch)
    assert (cancelled.status, cancelled.file_counts.completed, cancelled.file_counts.cancelled) == ("cancelled", 1, 1)
    await until(lambda: not working.indexer._running)
    await until(lambda: len(working.index.chunks) == 1)
    held.go_on.set()
    # It can be added again.
    await working.store_files.add("ada", store, CreateStoreFile("one"))
    assert await working.ended(store, "one") == ["completed"]


async def test_attributes_may_change_while_a_file_is_indexed(halfway: Halfway) -> None:
    simple, store, held = halfway
    await simple.store_files.update("ada", store, "one", {"year": 2026})
    held.go_on.set()
    assert await simple.ended(store, "one") == ["completed"]
    record = await simple.store_files.get("ada", store, "one")
    assert record.attributes == {"year": 2026}


async def test_a_file_that_is_to_be_divided_in_another_way_is_indexed_anew(halfway: Halfway) -> None:
    simple, store, held = halfway
    other = StaticChunking(ChunkSizes(4000, 0))
    held.go_on.set()
    await simple.store_files.add("ada", store, CreateStoreFile("one", chunking_strategy=other))
    assert await simple.ended(store, "one") == ["completed"]
    await until(lambda: len(simple.index.chunks) == 1)
    assert len(await simple.content(store, "one")) < 10


async def test_what_is_not_indexed_yet_takes_no_place_among_the_results(halfway: Halfway) -> None:
    simple, store, _ = halfway
    await simple.file("two", "Paragraph, too")
    await simple.store_files.add("ada", store, CreateStoreFile("two"))
    await simple.ended(store, "two")
    rows = await simple.stores.search("ada", [store], ["Paragraph"], SearchOptions(most=1))
    assert [row.file_id for row in rows] == ["two"]


async def test_chunks_that_come_too_late_are_not_found(halfway: Halfway) -> None:
    """Those of a gateway that does not know yet that the file was removed."""
    simple, store, _ = halfway
    assert await found(simple, store, "Paragraph 5 ") == []
    late = dict(simple.index.chunks)
    await simple.stored.database.write(remove_file("ada", store, "one"))
    await is_stopped(simple)
    simple.index.chunks |= late
    assert await found(simple, store, "Paragraph 5 ") == []


async def test_vectors_that_are_missing_are_made_later(simple: SimpleVectorStores) -> None:
    await simple.file("one")
    await make(simple, "one")
    simple.index.without_vector = 3
    async with indexed(simple):
        await until(lambda: not simple.index.without_vector)


async def test_what_makes_searches_faster_does_not_wait_for_all_vectors(simple: SimpleVectorStores) -> None:
    await simple.file("one")
    await make(simple, "one")
    simple.index.without_vector = 3
    async with indexed(simple):
        await until(lambda: 0 in simple.index.arranged)
    assert simple.index.arranged[:4] == [3, 2, 1, 0]


# ---- the same file again ---------------------------------------------------------------------------------------------


async def test_a_file_that_is_added_again_is_not_indexed_again(working: SimpleVectorStores) -> None:
    await working.file("one")
    store = await make(working, "one")
    await working.ended(store, "one")
    again = await working.store_files.add("ada", store, CreateStoreFile("one", chunking_strategy=SMALL))
    assert again.status == "completed"
    described = await working.store_files.add("ada", store, CreateStoreFile("one", {"a": 1}, chunking_strategy=SMALL))
    assert (described.status, described.attributes) == ("completed", {"a": 1})
    kept = await working.store_files.add("ada", store, CreateStoreFile("one", chunking_strategy=SMALL))
    assert kept.attributes == {"a": 1}
    assert working.texts.asked == ["one"]
    assert (await working.stores.get("ada", store)).file_counts.total == 1


async def test_a_file_may_be_in_several_batches(working: SimpleVectorStores) -> None:
    await working.file("one")
    await working.file("two")
    store = await make(working)
    first = (await working.store_files.create_batch("ada", store, CreateFileBatch(file_ids=["one", "one"]))).id
    second = (await working.store_files.create_batch("ada", store, CreateFileBatch(file_ids=["one", "two"]))).id
    await working.ended(store, "one", "two")
    counts = [(await working.store_files.get_batch("ada", store, id)).file_counts.completed for id in (first, second)]
    assert counts == [1, 2]


async def test_a_file_may_be_in_several_stores(working: SimpleVectorStores) -> None:
    await working.file("one")
    stores = [await make(working, "one"), await make(working, "one")]
    for store in stores:
        assert await working.ended(store, "one") == ["completed"]
    # It is found once.
    rows = await working.stores.search("ada", stores, ["words"], SearchOptions())
    assert [row.file_id for row in rows] == ["one"]
    await working.store_files.remove("ada", stores[0], "one")
    assert [await found(working, store, "words") for store in stores] == [[], ["one"]]
    await working.stores.forget_file("one")
    assert await found(working, stores[1], "words") == []


# ---- owners in turn --------------------------------------------------------------------------------------------------


async def test_owners_take_turns(simple: SimpleVectorStores, clock: Clock) -> None:
    for owner in ("eve", "bob", "ada"):
        files = [simple.files.put(f"{owner}{number}", owner) for number in range(3)]
        await make(simple, *files, owner=owner)
        clock.forward(1)
    claimed: list[str] = []
    for _ in range(9):
        file = await claim(simple, "gateway", clock, claimed[-1][:3] if claimed else None)
        assert file is not None
        claimed.append(file)
    assert [file[:3] for file in claimed] == ["ada", "bob", "eve"] * 3
    assert await claim(simple, "gateway", clock) is None


async def test_an_owner_with_many_files_does_not_stop_another(store: Store) -> None:
    simple = SimpleVectorStores(store, IndexerOptions(workers=3))
    async with indexed(simple):
        await make(simple, *[simple.files.put(f"file{number}") for number in range(20)])
        await until(lambda: len(simple.texts.asked) == 2)
        await simple.file("quick", owner="bob")
        other = await make(simple, "quick", owner="bob")
        assert await simple.ended(other, "quick", owner="bob") == ["completed"]
        assert len(simple.texts.asked) == 3


async def test_files_of_one_owner_are_indexed_in_the_order_in_which_they_were_added(
    simple: SimpleVectorStores, clock: Clock
) -> None:
    for name in ("c", "a", "b"):
        simple.files.put(name)
        await make(simple, name)
        clock.forward(0.1)
    assert [await claim(simple, "gateway", clock) for _ in range(3)] == ["c", "a", "b"]


# ---- all at once -----------------------------------------------------------------------------------------------------


def documents() -> Operation[set[tuple[str, str]]]:
    rows = yield Statement("SELECT store, document FROM vector_store_files WHERE status = 'completed'")
    return {(store, document) for store, document in rows}


def unfinished() -> Operation[int]:
    rows = yield Statement("""SELECT count(*) FROM vector_store_files WHERE status = 'in_progress'
        UNION ALL SELECT count(*) FROM discarded_documents""")
    return sum(row[0] for row in rows)


async def change(simple: SimpleVectorStores, store: str, random: Random) -> None:
    """Something that clients do."""
    file = f"file{random.randrange(12)}"
    divided = StaticChunking(ChunkSizes(100 * random.randint(1, 3), 0))
    acts: list[Callable[[], Awaitable[object]]] = [
        lambda: simple.store_files.add("ada", store, CreateStoreFile(file, chunking_strategy=divided)),
        lambda: simple.store_files.add("ada", store, CreateStoreFile(file, chunking_strategy=SMALL)),
        lambda: simple.store_files.update("ada", store, file, {"a": 1}),
        lambda: simple.store_files.remove("ada", store, file),
        lambda: simple.stores.forget_file(file),
        lambda: cancelled(simple, store, random),
    ]
    with suppress(NotFound):
        await random.choice(acts)()


async def cancelled(simple: SimpleVectorStores, store: str, random: Random) -> None:
    files = [f"file{number}" for number in random.sample(range(12), 5)]
    body = CreateFileBatch(file_ids=files, chunking_strategy=SMALL)
    batch = await simple.store_files.create_batch("ada", store, body)
    await simple.store_files.cancel_batch("ada", store, batch.id)


@pytest.mark.parametrize("seed", range(3))
async def test_changes_at_the_same_time_leave_the_chunks_of_completed_files_and_no_others(
    simple: SimpleVectorStores, seed: int
) -> None:
    random = Random(seed)
    for number in range(12):
        await simple.file(f"file{number}", LONG[: 20_000 * (number % 3 + 1)])
    others = [SimpleVectorStores.beside(simple) for _ in range(2)]
    async with indexed(simple), indexed(others[0]), indexed(others[1]):
        stores = [await make(simple) for _ in range(2)]
        for _ in range(15):
            await asyncio.gather(*(change(simple, random.choice(stores), random) for _ in range(4)))
        async with asyncio.timeout(60):
            while True:
                left = await simple.stored.database.read(unfinished())
                if not left and not any(each.indexer._running for each in (simple, *others)):
                    break
                await asyncio.sleep(0.01)
    assert simple.index.chunks.keys() == await simple.stored.database.read(documents())
    for store in stores:
        for file in (await simple.store_files.list_files("ada", store, RowPage(limit=100), None)).files:
            assert file.status in ("completed", "cancelled")
            if file.status == "completed":
                texts = await simple.content(store, file.id)
                assert file.usage_bytes == sum(map(len, texts))
