"""A process that writes to a store until it is killed, and prints what was acknowledged: `store_writer.py URL PREFIX`."""

import asyncio
import sys

from antiphon.store import Store, open_store
from support.stores import conversation, events, items, queued, record


def report(line: str) -> None:
    # One write, so that no line is cut in two.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def put_responses(store: Store, prefix: str) -> None:
    number = 0
    while True:
        id = f"{prefix}-{number}"
        await store.put(record(id, output=f'["{id}"]'.encode() + b" " * 5000, expires_at=2**40))
        report(f"response {id}")
        number += 4


async def converse(store: Store, prefix: str) -> None:
    await store.create_conversation(conversation(prefix, expires_at=2**40))
    number = 0
    while True:
        id = f"{prefix}-answer-{number}"
        assert await store.lock_conversation("ada", prefix, id, 60)
        assert await store.put_and_unlock(record(id, conversation=prefix, expires_at=2**40), items(f"{id}-a", f"{id}-b"))
        report(f"answer {id}")
        number += 1


async def work(store: Store, prefix: str) -> None:
    number = 0
    while True:
        id = f"{prefix}-job-{number}"
        await store.enqueue(queued(id, expires_at=2**40), b"{}")
        job = await store.claim(prefix, 10_000, 3)
        assert job is not None
        claimed = job.record.id
        assert await store.append_events(claimed, prefix, job.attempt, events(0, 1))
        assert await store.finish(job.record, prefix, job.attempt, events(2))
        report(f"job {claimed}")
        number += 1


async def main(url: str, prefix: str) -> None:
    async with open_store(url) as store:
        writers = [put_responses(store, f"{prefix}-{number}") for number in range(4)]
        await asyncio.gather(*writers, converse(store, prefix), work(store, prefix))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
