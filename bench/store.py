"""How long operations of the databases take: chains, puts, a million items listed and swept."""

import argparse
import asyncio
import contextlib
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from support.postgres import PostgresServer
from support.programs import Missing
from support.stores import BEGINNING, DAY, Clock, conversation, item, items, record

from antiphon.ids import new_id
from antiphon.store import Store, open_store
from antiphon.store.records import Record
from bench.page import keep

CONVERSATIONS = 100
TEXT = b"x" * 2000
SOON = BEGINNING + DAY


def answer(id: str, **members: Any) -> Record:
    """A response whose items have ids as a gateway makes them."""
    question = b'[{"id":"%s","type":"message"}]' % new_id("msg").encode()
    output = b'[{"id":"%s","type":"message","text":"%s"}]' % (new_id("msg").encode(), TEXT)
    return record(id, input=question, output=output, **members)


async def timed(operation: Callable[[], Awaitable[object]], times: int = 20) -> str:
    """The median, in milliseconds."""
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        await operation()
        durations.append(time.perf_counter() - start)
    return f"{1000 * sorted(durations)[times // 2]:.2f} ms"


async def in_groups(operations: Iterator[Awaitable[object]], size: int = 500) -> None:
    group = [operation for _, operation in zip(range(size), operations, strict=False)]
    while group:
        await asyncio.gather(*group)
        group = [operation for _, operation in zip(range(size), operations, strict=False)]


async def measure_chains(store: Store) -> Iterator[tuple[str, str]]:
    """The first read of a chain, and the later ones, which use the cache."""
    rows = []
    for length in (10, 100, 1000):
        puts = (
            store.put(answer(f"{length}-{number}", parent=f"{length}-{number - 1}" if number else None))
            for number in range(length)
        )
        await in_groups(puts)
        last = f"{length}-{length - 1}"
        start = time.perf_counter()
        assert len(await store.chain("ada", last)) == length
        rows.append((f"chain of {length:,}, first read", f"{1000 * (time.perf_counter() - start):.2f} ms"))
        again = await timed(lambda last=last: store.chain("ada", last))  # type: ignore[misc]
        rows.append((f"chain of {length:,}, continued", again))
    return iter(rows)


async def measure_puts(store: Store) -> Iterator[tuple[str, str]]:
    alone = await timed(lambda: store.put(answer(new_id("resp"))))
    start = time.perf_counter()
    await in_groups((store.put(answer(new_id("resp"))) for _ in range(5000)), 200)
    together = 5000 / (time.perf_counter() - start)
    return iter([("put, alone", alone), ("puts, 200 at once", f"{together:,.0f} a second")])


async def fill(store: Store, count: int) -> None:
    """So many items in a hundred conversations, and a tenth as many responses; half of each expire soon."""
    each = count // CONVERSATIONS
    for number in range(CONVERSATIONS):
        expires = SOON if number % 2 else SOON + 30 * DAY
        await store.create_conversation(conversation(f"c{number}", expires_at=expires))
        for first in range(0, each, 1000):
            places = range(first, min(first + 1000, each))
            await store.add_items("ada", f"c{number}", [item(f"i{place}", "x" * 200) for place in places])
    expiries = (SOON if number % 2 else SOON + 30 * DAY for number in range(count // 10))
    responses = (answer(new_id("resp"), expires_at=expires_at) for expires_at in expiries)
    await in_groups(store.put(response) for response in responses)


async def measure_listing(store: Store, count: int) -> Iterator[tuple[str, str]]:
    middle = f"i{count // CONVERSATIONS // 2}"
    return iter(
        [
            ("first page of 100", await timed(lambda: store.list_items("ada", "c0", limit=100))),
            ("page of 100 from the middle", await timed(lambda: store.list_items("ada", "c0", after=middle, limit=100))),
            ("append two items", await timed(lambda: store.add_items("ada", "c0", items("new1", "new2")))),
            ("claim with an empty queue", await timed(lambda: store.claim("w", 60, 3))),
            ("check whether it is too large", await timed(lambda: store.shrink(1 << 40))),
        ]
    )


async def with_puts(store: Store, name: str, removal: Awaitable[int]) -> str:
    """Put records during the removal: the longest put shows how long the sweeper delays other operations."""
    start = time.perf_counter()
    task = asyncio.ensure_future(removal)
    worst = 0.0
    for number in itertools.count():
        put_start = time.perf_counter()
        await store.put(answer(f"{name}-{number}"))
        worst = max(worst, time.perf_counter() - put_start)
        if task.done():
            break
    removed, seconds = await task, time.perf_counter() - start
    return f"{removed:,} in {seconds:.1f} s, the longest put during that {1000 * worst:.0f} ms"


async def measure_removal(store: Store, clock: Clock) -> Iterator[tuple[str, str]]:
    clock.forward(2 * DAY)
    return iter(
        [
            ("half of all swept, with their items", await with_puts(store, "swept", store.sweep())),
            ("the rest shrunk to 50 MB", await with_puts(store, "shrunk", store.shrink(50_000_000))),
        ]
    )


async def measure(url: str, count: int) -> list[tuple[str, str]]:
    clock = Clock()
    async with open_store(url, clock) as store:
        start = time.perf_counter()
        await fill(store, count)
        rows = [(f"{count:,} items and {count // 10:,} responses stored", f"{time.perf_counter() - start:.1f} s")]
        rows += [*await measure_chains(store), *await measure_puts(store), *await measure_listing(store, count)]
        return [*rows, *await measure_removal(store, clock)]


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"SQLite": f"sqlite:{Path(folder) / 'responses.db'}"}
        try:
            server = PostgresServer()
        except Missing as reason:
            print(f"Postgres is not measured: {reason}")
        else:
            stack.callback(server.remove)
            server.create()
            server.start()
            urls["Postgres"] = server.new_database()
        yield urls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    count: int = parser.parse_args().items
    with databases() as urls:
        columns = {name: dict(asyncio.run(measure(url, count))) for name, url in urls.items()}
    lines = [f"| | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for row in next(iter(columns.values())):
        lines.append(f"| {row} | {' | '.join(column[row] for column in columns.values())} |")
    table = "\n".join(lines)
    print(table)
    keep("store", table)


if __name__ == "__main__":
    main()
