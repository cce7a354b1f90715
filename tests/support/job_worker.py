"""A process that claims and finishes jobs until none is left, and prints their ids: `job_worker.py URL NAME`."""

import asyncio
import sys

from msgspec import structs

from antiphon.store import open_store
from support.stores import events


async def main(url: str, name: str) -> None:
    async with open_store(url) as store:
        # Waits for a line, so that all workers start together.
        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        while (job := await store.claim(name, 60, 3)) is not None:
            assert await store.append_events(job.record.id, name, job.attempt, events(0))
            assert await store.finish(structs.replace(job.record, status="completed"), name, job.attempt, events(1))
            print(job.record.id, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
