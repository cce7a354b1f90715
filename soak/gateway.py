"""A gateway as `antiphon serve` runs it, on a store that fails now and then: PORT ENGINE STORE SHARE."""

import asyncio
import gc
import signal
import sys
from random import Random

import uvloop
from aiohttp import web

from antiphon import logs
from antiphon.app.app import make_app, make_runner
from antiphon.settings.settings import Settings
from antiphon.store import open_store
from antiphon.transport import make_session
from soak.flaky_store import flaky

# Background responses that run at once: enough for those that the load asks for.
WORKERS = 200


async def serve(port: int, engine: str, store: str, share: float) -> None:
    settings = Settings(
        port=port,
        upstream=(engine,),
        store=store,
        probe=False,
        seal_key="soak",
        background_workers=WORKERS,
        shutdown_timeout=10,
    )
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with make_session(settings.transport) as session, open_store(store) as opened:
        runner = make_runner(make_app(settings, session, flaky(opened, share, Random(1))))
        await runner.setup()
        await web.TCPSite(runner, settings.host, port, backlog=1024).start()
        gc.freeze()
        await stopped.wait()
        await runner.cleanup()


if __name__ == "__main__":
    logs.configure("error")
    with asyncio.Runner(loop_factory=uvloop.Loop) as running:
        running.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])))
