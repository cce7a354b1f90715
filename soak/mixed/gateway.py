"""A gateway that counts what it has when it gets SIGUSR1: FOLDER PORT ENGINE SEARCH. Its files, its temporary ones too, are in
the folder, and so is its count (`census.json`)."""

import asyncio
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import uvloop
from aiohttp import web

from antiphon import logs
from antiphon.app.app import make_app, make_runner
from antiphon.app.start_up import collect_less, return_memory
from antiphon.settings.settings import Settings
from antiphon.settings.tables import ToolSettings, WebSearchSettings
from antiphon.store import open_store
from antiphon.transport import make_session
from soak.measures import descriptors, memory_mb

TEMPORARY = "tmp"
CENSUS = "census.json"


# The threads of a pool have its name and a number.
OF_POOL = re.compile(r"_\d+$")


class Census(msgspec.Struct):
    memory_mb: float
    descriptors: int
    # Those of a pool are one: it grows up to its size, whenever so many are busy at once.
    threads: int
    tasks: int
    # Files and folders in the folder for temporary ones.
    temporary: int


def count(folder: Path) -> Census:
    gc.collect()
    pid = os.getpid()
    return Census(
        memory_mb=memory_mb(pid),
        descriptors=descriptors(pid),
        threads=count_threads(thread.name for thread in threading.enumerate()),
        tasks=len(asyncio.all_tasks()),
        temporary=len(list((folder / TEMPORARY).iterdir())),
    )


def count_threads(names: Iterable[str]) -> int:
    """By their names."""
    alone, pools = 0, set[str]()
    for name in names:
        if OF_POOL.search(name):
            pools.add(OF_POOL.sub("", name))
        else:
            alone += 1
    return alone + len(pools)


def write_census(folder: Path) -> None:
    written = folder / f"{CENSUS}.part"
    written.write_bytes(msgspec.json.encode(count(folder)))
    written.rename(folder / CENSUS)


async def serve(folder: Path, port: int, engine: str, search: str) -> None:
    store = f"sqlite:{folder / 'responses.db'}"
    settings = Settings(
        port=port,
        upstream=(engine,),
        store=store,
        data_dir=str(folder),
        probe=False,
        seal_key="soak",
        check_timeout=2,
        tools=ToolSettings(web_search=WebSearchSettings(backend="searxng", url=search, page_hosts=("127.0.0.1",))),
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    loop.add_signal_handler(signal.SIGUSR1, write_census, folder)
    async with make_session(settings.transport) as session, open_store(store) as opened:
        runner = make_runner(make_app(settings, session, opened))
        await runner.setup()
        await web.TCPSite(runner, settings.host, port, backlog=1024).start()
        collect_less()
        await stopped.wait()
        await runner.cleanup()


if __name__ == "__main__":
    logs.configure("error")
    return_memory()
    with asyncio.Runner(loop_factory=uvloop.Loop) as running:
        running.run(serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
