"""The steps of gateways that run the lines of batches: who gets what, in which order, and that nothing is lost."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from support.stores import Clock

from antiphon.store import Store
from antiphon.store.files import batch_lines, batches
from antiphon.store.files.batch_lines import EngineRoom, PutOff, Report, Wanted
from antiphon.store.files.batches import ReadInput
from antiphon.store.files.records import BatchDetails, BatchLine, BatchTimes, ClaimedLine, LineResult, RequestBatch, Usage
from antiphon.store.sql.listings import RowPage

LEASE = 30.0


class Gateways:
    """Steps of any gateway over one store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.database = store.files.database
        self.clock = clock

    async def make(self, id: str, lines: int, owner: str = "ada", model: str = "m") -> None:
        now = int(self.clock.now)
        batch = RequestBatch(
            id=id,
            owner=owner,
            created_at=now,
            expires_at=now + 86_400,
            kept_until=now + 100_000,
            endpoint="/v1/responses",
            status="validating",
            input_file="file-1",
            details=BatchDetails(times=BatchTimes()),
        )
        assert await self.database.write(batches.create(batch, 10))
        claimed = await self.database.write(batches.claim("reader", LEASE, self.clock.now))
        assert claimed is not None
        assert claimed.id == id
        assert not await self.database.write(batches.begin_reading("reader", id))
        # The last line comes first.
        rows = [
            BatchLine(number=at, place=lines - at, start=at, size=1, custom_id=f"{id}{at}", model=model, prefix="p")
            for at in range(1, lines + 1)
        ]
        assert await self.database.write(batches.add_lines("reader", id, rows, ()))
        await self.database.write(batches.begin("reader", id, ReadInput(lines, 0, [model], []), now))

    async def step(
        self,
        name: str,
        most: int = 0,
        *,
        results: Sequence[ClaimedLine] = (),
        put_off: Sequence[PutOff] = (),
        engines: Sequence[EngineRoom] | None = None,
        busy: int = 0,
        not_of: Sequence[str] = (),
    ) -> list[ClaimedLine]:
        """One that wants `most` lines. What came of `results` is their custom id."""
        came = [LineResult(each.batch, each.number, True, each.custom_id.encode(), Usage(2, 1, 3, 1)) for each in results]
        wanted = [Wanted("m", most, engines)] if most else []
        report = Report(name, LEASE, came, put_off, {"e": busy} if busy else {}, wanted, not_of)
        return await self.database.write(batch_lines.step(report, self.clock.now))

    async def batch(self, id: str, owner: str = "ada") -> RequestBatch:
        found = await self.database.read(batches.get(owner, id, int(self.clock.now)))
        assert found is not None
        return found

    async def recorded(self, id: str) -> list[bytes]:
        return [each.data for each in await self.database.read(batches.results(id, -1, 1000, 1 << 40))]


@pytest.fixture
def gateways(store: Store, clock: Clock) -> Gateways:
    return Gateways(store, clock)


def names(lines: Sequence[ClaimedLine]) -> list[str]:
    return [line.custom_id for line in lines]


async def test_a_line_is_claimed_once_and_its_first_result_counts(gateways: Gateways) -> None:
    await gateways.make("a", 3)
    first = await gateways.step("one", 2)
    second = await gateways.step("two", 2)
    # In the order of their places.
    assert (names(first), names(second)) == (["a3", "a2"], ["a1"])
    assert await gateways.step("one", 2, results=first) == []
    assert await gateways.step("two", results=[*first, *second]) == []
    batch = await gateways.batch("a")
    assert (batch.status, batch.completed, batch.input_tokens, batch.reasoning_tokens) == ("finalizing", 3, 6, 3)
    assert await gateways.recorded("a") == [b"a1", b"a2", b"a3"]
    # It is at its end: nothing is added any more.
    await gateways.step("two", results=second)
    assert (await gateways.batch("a")).completed == 3


async def test_results_are_read_up_to_a_number_of_bytes(gateways: Gateways) -> None:
    await gateways.make("a", 3)
    await gateways.step("one", results=await gateways.step("one", 3))

    async def read(after: int, most: int, most_bytes: int) -> list[bytes]:
        return [each.data for each in await gateways.database.read(batches.results("a", after, most, most_bytes))]

    # Each has two bytes. One is read in any case.
    assert await read(-1, 9, 1) == [b"a1"]
    assert await read(-1, 9, 2) == [b"a1"]
    assert await read(1, 9, 3) == [b"a2", b"a3"]
    assert await read(-1, 2, 100) == [b"a1", b"a2"]
    assert await read(3, 9, 100) == []


async def test_the_lines_of_a_gateway_that_died_are_run_by_others(gateways: Gateways, clock: Clock) -> None:
    await gateways.make("a", 2)
    [lost] = await gateways.step("dead", 1)
    clock.forward(LEASE - 1)
    [other] = await gateways.step("one", 2)
    clock.forward(2)
    assert await gateways.step("one") == []
    [again] = await gateways.step("one", 2)
    assert (again.custom_id, again.lost, lost.lost) == (lost.custom_id, 1, 0)
    # It was only slow: what it has counts, and what the other one has does not count as well.
    await gateways.step("dead", results=[lost])
    await gateways.step("one", results=[again, other])
    assert sorted(await gateways.recorded("a")) == [b"a1", b"a2"]
    assert (await gateways.batch("a")).completed == 2


async def test_one_that_leaves_gives_its_lines_back(gateways: Gateways) -> None:
    await gateways.make("a", 1)
    await gateways.step("one", 1)
    await gateways.database.write(batch_lines.leave("one"))
    [line] = await gateways.step("two", 1)
    assert line.lost == 0


async def test_a_line_that_was_put_off_waits(gateways: Gateways, clock: Clock) -> None:
    await gateways.make("a", 1)
    [line] = await gateways.step("one", 1)
    assert await gateways.step("one", 1, put_off=[PutOff("a", 1, clock.now + 5, is_failure=True)]) == []
    clock.forward(5)
    [again] = await gateways.step("one", 1)
    assert (again.failures, line.failures) == (1, 0)


async def test_calls_that_must_not_be_made_twice_come_with_the_line(gateways: Gateways, clock: Clock) -> None:
    await gateways.make("a", 1)
    await gateways.step("dead", 1)
    write = gateways.database.write
    assert await write(batch_lines.begin_call("dead", "a", 1, b'{"n":1}'))
    clock.forward(LEASE + 1)
    await gateways.step("one")
    assert not await write(batch_lines.begin_call("dead", "a", 1, b'{"n":2}'))
    [line] = await gateways.step("one", 1)
    assert line.begun_calls == (b'{"n":1}',)


async def test_an_engine_gets_what_others_leave_of_it(gateways: Gateways) -> None:
    await gateways.make("a", 20)
    room = [EngineRoom("e", 8, 2)]
    await gateways.step("other", busy=3)
    assert len(await gateways.step("one", 10, engines=room, busy=2)) == 3
    # All of them are known to be busy now.
    assert await gateways.step("other", 10, engines=[EngineRoom("e", 8, 3)], busy=3) == []
    # One that has left has nothing there.
    await gateways.database.write(batch_lines.leave("one"))
    assert len(await gateways.step("other", 10, engines=[EngineRoom("e", 8, 3)], busy=3)) == 5


async def test_owners_take_turns_and_so_do_their_batches(gateways: Gateways) -> None:
    await gateways.make("a", 100)
    await gateways.step("one", 40)
    await gateways.make("b", 100)
    await gateways.make("c", 100, owner="bob")
    taken = [(await gateways.step("one", 1))[0].batch for _ in range(64)]
    # The newcomers are not owed what was done before them.
    assert {each: taken.count(each) for each in "abc"} == {"a": 16, "b": 16, "c": 32}
    # Whoever has a turn keeps it for a few lines, which begin alike.
    changes = sum(one != other for one, other in pairwise(taken))
    assert changes <= 8
    assert [each.batch for each in await gateways.step("one", 3, not_of=["ada"])] == ["c"] * 3


async def test_nothing_is_claimed_of_a_batch_that_is_cancelled_or_has_expired(gateways: Gateways, clock: Clock) -> None:
    await gateways.make("a", 4)
    [running] = await gateways.step("one", 1)
    cancelled = await gateways.database.write(batches.cancel("ada", "a", int(clock.now)))
    assert cancelled is not None
    assert cancelled.status == "cancelling"
    assert await gateways.step("one", 4) == []
    assert (await gateways.batch("a")).status == "cancelling"
    await gateways.step("one", results=[running])
    assert (await gateways.batch("a")).status == "finalizing"
    assert await gateways.database.write(batches.claim("one", LEASE, clock.now)) is not None
    await gateways.make("b", 4)
    clock.forward(86_400)
    assert await gateways.step("one", 4) == []
    batch = await gateways.batch("b")
    assert (batch.status, batch.stop) == ("finalizing", "expired")
    assert [number for number, _ in await gateways.database.read(batches.not_run("b", -1, 10))] == [1, 2, 3, 4]


async def test_a_batch_is_another_owners_as_soon_as_its_key_has_a_name(gateways: Gateways, clock: Clock) -> None:
    await gateways.make("a", 1, owner="hash")
    assert await gateways.database.write(batches.move("hash", "ada")) == 1
    listed = await gateways.database.read(
        batches.list_batches("ada", RowPage(), int(clock.now), endpoint="/v1/messages", is_endpoint=False)
    )
    assert [each.id for each in listed.batches] == ["a"]


async def test_what_a_batch_has_left_is_removed_with_it(gateways: Gateways, clock: Clock) -> None:
    await gateways.make("a", 3)
    write, read = gateways.database.write, gateways.database.read
    await gateways.step("one", results=await gateways.step("one", 3))
    assert await write(batches.claim("one", LEASE, clock.now)) is not None
    assert not await write(batches.finish("two", "a", batches.Output(None, None), int(clock.now)))
    assert await write(batches.finish("one", "a", batches.Output(None, None), int(clock.now)))
    assert [each.id for each in await read(batches.with_leftovers())] == ["a"]
    assert await write(batches.remove_some("a")) is False
    assert await gateways.recorded("a") == []
    await write(batches.without_lines("a"))
    clock.forward(100_001)
    assert await write(batches.sweep(int(clock.now))) == 1
    assert await read(batches.owner_of("a", 0)) is None
