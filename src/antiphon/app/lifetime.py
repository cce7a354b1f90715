"""What runs beside the requests of an application, from its start to its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct

from antiphon.app.hosted_tools import HostedTools
from antiphon.app.retrieval import Retrieval
from antiphon.engines.discovery import Discovery
from antiphon.engines.probes.examiner import Examiner
from antiphon.gateway.background.workers import Workers
from antiphon.gateway.batches.runner import BatchRunner
from antiphon.gateway.runs.checker import Checker
from antiphon.gateway.state.housekeeping import StoreLimits, sweep_files, sweep_store
from antiphon.gateway.state.stored_keys import StoredKeys
from antiphon.gateway.stored_prompts.folder import watch_folder
from antiphon.gateway.webhooks.sender import WebhookSender
from antiphon.server.parts import APP
from antiphon.server.readiness import GOING_AWAY
from antiphon.tools.mcp.runner import McpRunner, NoMcp
from antiphon.tools.url_files import UrlFiles
from antiphon.transport import ConnectionOptions


class OwnAddresses(Collection[tuple[str, int]]):
    """Where the gateway listens, as soon as it does."""

    runner: web.AppRunner | None = None

    def __iter__(self) -> Iterator[tuple[str, int]]:
        addresses = self.runner.addresses if self.runner is not None else []
        return iter([(str(each[0]), int(each[1])) for each in addresses if isinstance(each, tuple)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, address: object) -> bool:
        return address in list(iter(self))


class Beside(Struct):
    """What an application has beside the parts that its requests use."""

    examiner: Examiner
    discovery: Discovery
    workers: Workers
    retrieval: Retrieval
    batches: BatchRunner
    hosted: HostedTools
    # It is an McpRunner, unless the SDK is not installed.
    mcp: McpRunner | NoMcp
    own_addresses: OwnAddresses
    connection_options: ConnectionOptions
    # Seconds that running responses may take to finish when the gateway stops.
    drain_within: float
    webhooks: WebhookSender
    # The folder of prompts, if there is one.
    prompts: Path | None
    urls: UrlFiles | None


BESIDE = web.AppKey("beside", Beside)


def join(app: web.Application, *, limits: StoreLimits | None, checkers: Sequence[Checker]) -> None:
    """Lets it run with the application. `limits`: within which the store is kept; None: another process does that.
    `checkers`: those that end with it."""
    app.cleanup_ctx.append(watch)
    if limits is not None:
        app.cleanup_ctx.append(partial(sweep, limits=limits))
    app.cleanup_ctx.append(close_mcp)
    app.cleanup_ctx.append(close_tools)
    app.cleanup_ctx.append(watch_containers)
    app.cleanup_ctx.extend(partial(close_checker, checker=checker) for checker in checkers)
    app.on_startup.append(start_workers)
    app.on_shutdown.append(drain)


async def watch(app: web.Application) -> AsyncIterator[None]:
    gateway, examiner, discovery = app[APP].gateway, app[BESIDE].examiner, app[BESIDE].discovery
    discovery.when_made = examiner.examine
    for engine in gateway.pool.engines:
        examiner.examine(engine)
    keys = StoredKeys(gateway.store.accounts, app[APP].access.keyring, gateway.budgets)
    await keys.load()
    async with _tasks(
        gateway.pool.watch(),
        discovery.watch(),
        gateway.owners.watch(),
        gateway.ledger.keep_flushing(),
        keys.watch(),
        app[BESIDE].webhooks.run(),
        *([watch_folder(folder, partial(setattr, gateway, "prompts"))] if (folder := app[BESIDE].prompts) else ()),
    ):
        yield
    await gateway.ledger.try_to_flush()
    await app[APP].open.readiness.close()
    # A detection may be waiting for the examiner.
    await gateway.pool.close()
    await examiner.close()


async def sweep(app: web.Application, limits: StoreLimits) -> AsyncIterator[None]:
    stored, resources = sweep_store(app[APP].gateway.store, limits), app[APP].resources
    files, stores = sweep_files(resources.files), sweep_files(resources.vector_stores, kind="vector_stores")
    batches, uploads = sweep_files(resources.batches, kind="batches"), sweep_files(resources.uploads, kind="uploads")
    async with _tasks(stored, files, stores, batches, uploads):
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


async def close_tools(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[BESIDE].hosted.close()
    if (urls := app[BESIDE].urls) is not None:
        await urls.close()


async def watch_containers(app: web.Application) -> AsyncIterator[None]:
    code = app[APP].resources.containers
    if code is None:
        yield
        return
    code.current_owner = app[APP].gateway.owners.current
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
    await app[BESIDE].mcp.close()


async def start_workers(app: web.Application) -> None:
    app[BESIDE].workers.start()
    app[BESIDE].retrieval.indexer.start()
    app[BESIDE].batches.start()


async def drain(app: web.Application) -> None:
    parts, beside = app[APP], app[BESIDE]
    within = beside.drain_within
    parts.open.readiness.stop()
    for connection in parts.open.connections:
        connection.leave(GOING_AWAY)
    beside.workers.stop()
    beside.retrieval.indexer.stop()
    beside.batches.stop()
    parts.inspection.inspector.close()
    await asyncio.gather(parts.gateway.in_flight.drain(within), parts.open.answers.drain(within))
    await beside.workers.close()
    await beside.batches.close()
    await beside.retrieval.close()
