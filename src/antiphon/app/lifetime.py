"""What runs beside the requests of an application, from its start to its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from aiohttp import web
from msgspec import Struct

from antiphon.app.hosted_tools import HostedTools
from antiphon.app.retrieval import Retrieval
from antiphon.engines.discovery import Discovery
from antiphon.engines.probes.examiner import Examiner
from antiphon.gateway.background.workers import Workers
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.state.housekeeping import sweep_files, sweep_store
from antiphon.server.app_keys import (
    CONTAINERS,
    FILES,
    GATEWAY,
    VECTOR_STORES,
)
from antiphon.server.routes.inspector import INSPECTOR
from antiphon.server.routes.models import READINESS
from antiphon.server.routes.passed_through import OPEN_ANSWERS
from antiphon.server.routes.websocket import CONNECTIONS, GOING_AWAY
from antiphon.tools.mcp.runner import McpRunner, NoMcp

EXAMINER = web.AppKey("examiner", Examiner)
DISCOVERY = web.AppKey("discovery", Discovery)
WORKERS = web.AppKey("workers", Workers)
RETRIEVAL = web.AppKey("retrieval", Retrieval)
# It is an McpRunner, unless the SDK is not installed.
MCP: web.AppKey[McpRunner | NoMcp] = web.AppKey("mcp")


class Drain(Struct):
    """Seconds that running responses may take to finish when the gateway stops."""

    within: float


DRAIN = web.AppKey("drain", Drain)


async def watch(app: web.Application) -> AsyncIterator[None]:
    gateway, examiner, discovery = app[GATEWAY], app[EXAMINER], app[DISCOVERY]
    discovery.when_made = examiner.examine
    for engine in gateway.pool.engines:
        examiner.examine(engine)
    async with _tasks(gateway.pool.watch(), discovery.watch(), gateway.owners.watch()):
        yield
    await app[READINESS].close()
    # A detection may be waiting for the examiner.
    await gateway.pool.close()
    await examiner.close()


async def sweep(app: web.Application, store_max_bytes: int) -> AsyncIterator[None]:
    store, files, vector_stores = app[GATEWAY].store, app[FILES], app[VECTOR_STORES]
    stored = sweep_store(store, store_max_bytes)
    async with _tasks(stored, sweep_files(files), sweep_files(vector_stores, kind="vector_stores")):
        yield


@contextlib.asynccontextmanager
async def _tasks(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """They run until the end of the block."""
    tasks = [asyncio.create_task(each) for each in work]
    yield
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def close_tools(app: web.Application, hosted: HostedTools) -> AsyncIterator[None]:
    yield
    await hosted.close()


async def watch_containers(app: web.Application) -> AsyncIterator[None]:
    code = app[CONTAINERS]
    if code is None:
        yield
        return
    code.current_owner = app[GATEWAY].owners.current
    watching = asyncio.create_task(code.watch())
    yield
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    await code.close()


async def close_checker(app: web.Application, checker: Checker) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(checker.close)


async def close_mcp(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[MCP].close()


async def start_workers(app: web.Application) -> None:
    app[WORKERS].start()
    app[RETRIEVAL].indexer.start()


async def drain(app: web.Application) -> None:
    within = app[DRAIN].within
    app[READINESS].stop()
    for connection in app[CONNECTIONS]:
        connection.leave(GOING_AWAY)
    app[WORKERS].stop()
    app[RETRIEVAL].indexer.stop()
    app[INSPECTOR].close()
    await asyncio.gather(app[GATEWAY].in_flight.drain(within), app[OPEN_ANSWERS].drain(within))
    await app[WORKERS].close()
    await app[RETRIEVAL].close()
