"""`antiphon serve` with several worker processes: this one supervises them."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from antiphon import __version__, logs
from antiphon.app import running_gateways
from antiphon.app.checked_settings import load_settings
from antiphon.app.processes.control import serve_control
from antiphon.app.processes.listening import bind_slots
from antiphon.app.processes.supervisor import Plan, Supervisor, private_folder
from antiphon.app.start_up import loop_factory, refuse_to_be_open
from antiphon.cli.serve import cannot_listen, choose_engines, end_task, until_stopped, worker_count
from antiphon.settings.settings import Settings
from antiphon.transport import make_session


def supervise_forever(settings: Settings, flags: dict[str, Any], config: Path | None) -> None:
    refuse_to_be_open(settings)
    logs.configure(settings.log_level, settings.log_format)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_supervise(settings, flags, config))


async def _supervise(given: Settings, flags: dict[str, Any], config: Path | None) -> None:
    async with make_session(given.transport) as session:
        settings, embedded = await choose_engines(given, session)
    plan = Plan(
        flags={name: value for name, value in flags.items() if value is not None},
        config=str(config) if config is not None else None,
        found=settings.upstream if settings.upstream != given.upstream else (),
        embedded=embedded,
    )
    try:
        sockets = bind_slots(settings.host, settings.port, worker_count(settings))
    except OSError as failed:
        raise cannot_listen(settings.host, settings.port, failed) from None
    with private_folder() as folder:
        supervisor = Supervisor(settings, plan, sockets, folder, lambda: _load(flags, config))
        url = running_gateways.local_url(settings.host, sockets[0][0].getsockname()[1])
        await _run(supervisor, url, folder / "control")


async def _run(supervisor: Supervisor, url: str, control: Path) -> None:
    embedded = supervisor.embedded
    running = asyncio.create_task(embedded.run()) if embedded is not None else None
    keeping: asyncio.Task[None] | None = None

    async def reload() -> None:
        supervisor.reload()

    # From now on it can be stopped: the first worker says that the gateway is ready before `start()` returns.
    stopped = asyncio.create_task(until_stopped(running, reload))
    starting = asyncio.create_task(supervisor.start())
    try:
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            keeping = asyncio.create_task(supervisor.run())
            async with serve_control(supervisor, control):
                with running_gateways.announce(url, __version__, control=str(control)):
                    await stopped
        else:
            await stopped
    finally:
        # At the next Ctrl-C nothing is waited for.
        await end_task(stopped)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _end_at_once, supervisor)
        if not starting.done():
            await end_task(starting)
        if keeping is not None:
            await end_task(keeping)
        await supervisor.stop()
        # Last, because running streams needed the engine until here.
        if running is not None:
            await end_task(running)


def _load(flags: dict[str, Any], config: Path | None) -> Settings:
    new = refuse_to_be_open(load_settings(flags, config))
    worker_count(new)
    return new


def _end_at_once(supervisor: Supervisor) -> None:
    supervisor.kill()
    os._exit(128 + signal.SIGINT)
