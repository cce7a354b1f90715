"""What the databases take: chains, puts, a million items listed and swept."""

import argparse
import asyncio
import contextlib
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from support.postgres import NoPostgres, PostgresServer
from support.stores import BEGINNING, DAY, Clock, conversation, item, items, record

from antiphon.store import Store, open_store

ROOMS = 100
OUTPUT = b'[{"type":"message","text":"' + b"x" * 2000 + b'"}]'
SOON = BEGINNING + DAY


async def timed(operation: Callable[[], Awaitable[object]], times: int = 20) -> str:
    """The median, in milliseconds."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        await operation()
        took.append(time.perf_counter() - began)
    return f"{1000 * sorted(took)[times // 2]:.2f} ms"


async def in_groups(operations: Iterator[Awaitable[object]], size: int = 500) -> None:
    group = [operation for _, operation in zip(range(size), operations, strict=False)]
    while group:
        await asyncio.gather(*group)
        group = [operation for _, operation in zip(range(size), operations, strict=False)]


async def measure_chains(store: Store) -> Iterator[tuple[str, str]]:
    """Read by one who has not seen it; and read to continue it, by one who has made or continued it before."""
    rows = []
    for length in (10, 100, 1000):
        puts = (
            store.put(record(f"{length}-{number}", parent=f"{length}-{number - 1}" if number else None, output=OUTPUT))
            for number in range(length)
        )
        await in_groups(puts)
        last = f"{length}-{length - 1}"
        began = time.perf_counter()
        assert len(await store.chain("ada", last)) == length
        rows.append((f"chain of {length:,}, first read", f"{1000 * (time.perf_counter() - began):.2f} ms"))
        again = await timed(lambda last=last: store.chain("ada", last))  # type: ignore[misc]
        rows.append((f"chain of {length:,}, continued", again))
    return iter(rows)


async def measure_puts(store: Store) -> Iterator[tuple[str, str]]:
    numbers = itertools.count()
    alone = await timed(lambda: store.put(record(f"alone-{next(numbers)}", output=OUTPUT)))
    began = time.perf_counter()
    await in_groups((store.put(record(f"put-{number}", output=OUTPUT)) for number in range(5000)), 200)
    together = 5000 / (time.perf_counter() - began)
    return iter([("put, alone", alone), ("puts, 200 at once", f"{together:,.0f} a second")])


async def fill(store: Store, count: int) -> None:
    """As many items in a hundred conversations, half of which expire soon; a tenth as many responses, likewise."""
    each = count // ROOMS
    for room in range(ROOMS):
        expires = SOON if room % 2 else SOON + 30 * DAY
        await store.create_conversation(conversation(f"c{room}", expires_at=expires))
        for first in range(0, each, 1000):
            named = range(first, min(first + 1000, each))
            await store.add_items("ada", f"c{room}", [item(f"i{number}", "x" * 200) for number in named])
    kept = (record(f"r{number}", expires_at=SOON if number % 2 else SOON + 30 * DAY) for number in range(count // 10))
    await in_groups(store.put(response) for response in kept)


async def measure_listing(store: Store, count: int) -> Iterator[tuple[str, str]]:
    middle = f"i{count // ROOMS // 2}"
    return iter(
        [
            ("first page of 100", await timed(lambda: store.list_items("ada", "c0", limit=100))),
            ("page of 100 from the middle", await timed(lambda: store.list_items("ada", "c0", after=middle, limit=100))),
            ("append two items", await timed(lambda: store.add_items("ada", "c0", items("new1", "new2")))),
            ("claim with an empty queue", await timed(lambda: store.claim("w", 60, 3))),
            ("look whether it is too large", await timed(lambda: store.shrink(1 << 40))),
        ]
    )


async def with_puts(store: Store, name: str, removing: Awaitable[int]) -> str:
    """With somebody who puts meanwhile: how long that takes at worst is how long the sweeper holds anyone up."""
    began = time.perf_counter()
    sweeping = asyncio.ensure_future(removing)
    worst = 0.0
    for number in itertools.count():
        asked = time.perf_counter()
        await store.put(record(f"{name}-{number}"))
        worst = max(worst, time.perf_counter() - asked)
        if sweeping.done():
            break
    removed, took = await sweeping, time.perf_counter() - began
    return f"{removed:,} in {took:.1f} s, the longest put meanwhile {1000 * worst:.0f} ms"


async def measure_removing(store: Store, clock: Clock) -> Iterator[tuple[str, str]]:
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
        began = time.perf_counter()
        await fill(store, count)
        rows = [(f"{count:,} items and {count // 10:,} responses kept", f"{time.perf_counter() - began:.1f} s")]
        rows += [*await measure_chains(store), *await measure_puts(store), *await measure_listing(store, count)]
        return [*rows, *await measure_removing(store, clock)]


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"SQLite": f"sqlite:{Path(folder) / 'responses.db'}"}
        try:
            server = PostgresServer()
        except NoPostgres as reason:
            print(f"without Postgres: {reason}")
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
    print(f"| | {' | '.join(columns)} |")
    print(f"| --- |{' --- |' * len(columns)}")
    for row in next(iter(columns.values())):
        print(f"| {row} | {' | '.join(column[row] for column in columns.values())} |")


if __name__ == "__main__":
    main()
