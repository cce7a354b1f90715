"""Long events and long outputs: written piece by piece, read part by part, all or nothing."""

from collections.abc import Iterator

import asyncpg
import msgspec
import pytest
from msgspec import structs
from support.postgres import PostgresServer
from support.stores import Clock, events, queued, record

from antiphon.store import Store, open_store
from antiphon.store.records import LONGEST_EVENT, Event, LongEvent, LongEventPlace, Progress

LONG = 3 * LONGEST_EVENT + 7


class Made:
    """Bytes that are made when they are read."""

    def __init__(self, size: int = LONG, fails: bool = False) -> None:
        self._size = size
        self._fails = fails

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, self._size, 50_000):
            if self._fails and start > self._size // 2:
                raise ValueError("It cannot be made.")
            yield bytes((start // 50_000 % 251,)) * min(50_000, self._size - start)

    def __len__(self) -> int:
        return self._size


class Output:
    """An output with one long text."""

    def __init__(self, text: str) -> None:
        self._encoded = output_of(text)

    def __iter__(self) -> Iterator[bytes]:
        return (self._encoded[start : start + 40_000] for start in range(0, len(self._encoded), 40_000))

    def __len__(self) -> int:
        return len(self._encoded)


def output_of(text: str) -> bytes:
    return msgspec.json.encode([{"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text}]}])


async def running(store: Store, id: str = "r1") -> None:
    await store.enqueue(queued(id), b"{}")
    assert await store.claim("w1", 60, 3)


async def read(store: Store, id: str = "r1") -> list[Event]:
    """All events, however they come."""
    found: list[Event] = []
    while (progress := await store.events("ada", id, found[-1].number if found else -1)) is not None:
        found += progress.events
        if progress.long is not None:
            found.append(Event(progress.long.number, await whole(store, id, progress.long)))
        if not progress.more:
            break
    return found


async def whole(store: Store, id: str, place: LongEventPlace) -> bytes:
    parts: list[bytes] = []
    while (start := sum(map(len, parts))) < place.size:
        part = await store.event_part("ada", id, place, start, 400_000)
        assert part
        assert len(part) <= 400_000
        parts.append(part)
    return b"".join(parts)


async def test_a_long_event_is_read_as_it_was_written(store: Store) -> None:
    await running(store)
    made = b"".join(Made())
    await store.append_events("r1", "w1", 1, events(0, 1))
    assert await store.append_events("r1", "w1", 1, [LongEvent(2, Made())]) is True
    await store.append_events("r1", "w1", 1, events(3))
    assert await read(store) == [*events(0, 1), Event(2, made), *events(3)]


@pytest.mark.parametrize("number", [0, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**53])
async def test_a_long_event_has_any_number(store: Store, number: int) -> None:
    await running(store)
    await store.append_events("r1", "w1", 1, [LongEvent(number, Made())])
    assert await read(store) == [Event(number, b"".join(Made()))]


async def test_a_long_event_may_be_written_twice(store: Store) -> None:
    """If the answer of the database to the first write was lost."""
    await running(store)
    for _ in range(2):
        await store.append_events("r1", "w1", 1, [LongEvent(0, Made())])
    assert await read(store) == [Event(0, b"".join(Made()))]


async def test_long_events_of_an_older_version_are_read(store: Store) -> None:
    """It wrote them as they were, and others with them."""
    await running(store)
    written = [*events(0), Event(1, b"x" * LONG)]
    await store.append_events("r1", "w1", 1, written)
    await store.append_events("r1", "w1", 1, [Event(2, b"y" * LONG)])
    assert await read(store) == [*written, Event(2, b"y" * LONG)]


async def test_a_long_event_that_cannot_be_made_leaves_nothing(store: Store) -> None:
    await running(store)
    await store.append_events("r1", "w1", 1, events(0))
    with pytest.raises(ValueError, match="cannot be made"):
        await store.append_events("r1", "w1", 1, [LongEvent(1, Made(fails=True))])
    assert await read(store) == events(0)


async def test_a_lost_lease_writes_no_long_event(store: Store) -> None:
    await running(store)
    assert await store.append_events("r1", "w2", 1, [LongEvent(0, Made())]) is False
    assert await read(store) == []


async def long_place(store: Store) -> LongEventPlace:
    """Of the event 0. A store that has all of it in memory offers no place."""
    progress = await store.events("ada", "r1")
    assert isinstance(progress, Progress)
    return progress.long or LongEventPlace(0, progress.attempt, LONG, 0)


async def test_parts_are_only_of_the_attempt_that_is_running(store: Store, clock: Clock) -> None:
    await running(store)
    await store.append_events("r1", "w1", 1, [LongEvent(0, Made())])
    place = await long_place(store)
    assert await store.event_part("ada", "r1", place, 0, 10) == b"\x00" * 10
    clock.forward(61)
    assert await store.claim("w2", 60, 3)
    assert await store.event_part("ada", "r1", place, 0, 10) is None
    await store.append_events("r1", "w2", 2, [LongEvent(0, Made())])
    assert await store.event_part("ada", "r1", place, 0, 10) is None


async def test_no_part_is_left_of_what_was_deleted(store: Store) -> None:
    await running(store)
    await store.append_events("r1", "w1", 1, [LongEvent(0, Made())])
    place = await long_place(store)
    await store.delete("ada", "r1")
    assert await store.event_part("ada", "r1", place, 0, 10) is None


async def test_a_response_ends_with_a_long_output(store: Store) -> None:
    await running(store)
    text = "long " * (LONG // 5)
    final = structs.replace(record("r1", background=True), output=output_of("..."))
    assert await store.finish(final, "w1", 1, [LongEvent(0, Made())], output=Output(text)) is True
    stored = structs.replace(final, output=output_of(text))
    assert await store.get("ada", "r1") == stored
    assert await store.get("ada", "r1", output=False) == structs.replace(final, output=b"[]")
    assert [link.output for link in await store.chain("ada", "r1")] == [stored.output]
    found = await store.find_items("ada", ["msg_1"])
    assert output_of(text) == b"[" + found["msg_1"] + b"]"
    assert await read(store) == [Event(0, b"".join(Made()))]


async def test_a_long_output_continues_a_chain(store: Store) -> None:
    await store.put(record("r0"))
    assert len(await store.chain("ada", "r0")) == 1
    await store.enqueue(queued("r1", parent="r0"), b"{}")
    assert await store.claim("w1", 60, 3)
    text = "long " * (LONG // 5)
    final = structs.replace(record("r1", background=True, parent="r0"), output=output_of("..."))
    assert await store.finish(final, "w1", 1, events(0), output=Output(text)) is True
    assert [link.output for link in await store.chain("ada", "r1")] == [record("r0").output, output_of(text)]


async def test_a_user_who_may_not_create_temporary_tables_writes_long_events(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    connection = await asyncpg.connect(url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"""
        CREATE ROLE plain LOGIN;
        REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC;
        CREATE SCHEMA antiphon AUTHORIZATION plain;
    """)
    await connection.close()
    async with open_store(url.replace("antiphon@", "plain@")) as store:
        await store.enqueue(queued("r1"), b"{}")
        assert await store.claim("w1", 60, 3)
        await store.append_events("r1", "w1", 1, [LongEvent(0, Made())])
        assert await read(store) == [Event(0, b"".join(Made()))]
