"""What runs for one streamed "hello": the modules of ours that have a function called, and how many calls that are."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

from shape.client import Client
from shape.gateway import running_gateway
from shape.profiled import CONTROL, SOURCE
from shape.table import Row
from shape.tree import PACKAGE, Tree

WARM_UPS = 20
TIMES = 9
SOCKET = "{folder}/counter"


def rows(tree: Tree) -> Iterator[Row]:
    counts = asyncio.run(count_calls(tree))
    modules = modules_always_called(tree, counts)
    # A timer that fires meanwhile only adds to them.
    calls = min(sum(count.values()) for count in counts)
    yield Row('modules that run for a streamed "hello"', str(len(modules)), "≤ 85", names=tuple(modules))
    yield Row('calls of our functions for a streamed "hello"', str(calls), value=calls)


async def count_calls(tree: Tree) -> list[dict[str, int]]:
    """Calls by file, for each of several requests on one connection. What happens only once has happened before."""
    variables = {CONTROL: SOCKET, SOURCE: f"{tree.source / PACKAGE}/"}
    async with running_gateway(tree, module="shape.profiled", variables=variables) as gateway:
        reader, writer = await asyncio.open_unix_connection(SOCKET.format(folder=gateway.folder), limit=2**20)
        client = await gateway.connect()
        for _ in range(WARM_UPS):
            await client.hello()
        # What the start and the last of these requests have left to do is in the first count.
        await _count(client, reader, writer)
        counts = [await _count(client, reader, writer) for _ in range(TIMES)]
        await client.close()
        writer.close()
        await writer.wait_closed()
    return counts


async def _count(client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, int]:
    writer.write(b"b")
    await reader.readline()
    await client.hello()
    writer.write(b"e")
    found: dict[str, int] = json.loads(await reader.readline())
    return found


def modules_always_called(tree: Tree, counts: list[dict[str, int]]) -> list[str]:
    """Those of every request: a timer that fires now and then is no part of one."""
    files = set.intersection(*(set(count) for count in counts))
    return sorted(str(Path(file).relative_to(tree.source / PACKAGE)) for file in files)
