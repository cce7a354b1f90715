"""The memory of a gateway that was just started, and what an open stream adds to it."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from bench.processes import allow_many_descriptors, memory_kb
from bench.starts import settle
from shape.client import Client
from shape.gateway import RunningGateway, running_gateway
from shape.table import Row
from shape.tree import Tree

STREAMS = 500
WARM_UPS = 200


def rows(tree: Tree) -> Iterator[Row]:
    allow_many_descriptors()
    idle, stream = asyncio.run(measure(tree))
    yield Row("memory of an idle gateway, MB", f"{idle / 1024:.1f}", "", idle * 1024)
    yield Row("memory of an open stream, KB", f"{stream / 1024:.1f}", "", stream)


async def measure(tree: Tree) -> tuple[int, float]:
    """Returns the resident memory after the first answer, in KB, and the private memory of each of the second `STREAMS`
    streams, in bytes. The first ones also fill what the warm-up has left."""
    async with running_gateway(tree) as gateway:
        client = await gateway.connect()
        await client.whole()
        await asyncio.to_thread(settle, gateway.pid)
        idle = memory_kb(gateway.pid)
        for _ in range(WARM_UPS):
            await client.stream(2)
        clients = [client]
        first = await _open_streams(gateway, clients)
        second = await _open_streams(gateway, clients)
        for client in clients:
            await client.close()
    return idle, (second - first) / STREAMS


async def _open_streams(gateway: RunningGateway, clients: list[Client]) -> int:
    for _ in range(STREAMS):
        client = await gateway.connect()
        clients.append(client)
        await client.open_stream()
    return private_bytes(gateway.pid)


def private_bytes(pid: int) -> int:
    """The pages that no other process has, and that were written to."""
    found = re.search(r"^Private_Dirty: +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
