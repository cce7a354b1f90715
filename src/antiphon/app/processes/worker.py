"""A worker process: a gateway that is one of several. Its argument is the file descriptor of its channel to the supervisor."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

from antiphon.app.imports import fast_imports

with fast_imports():
    from aiohttp import web
    from msgspec import structs

    from antiphon import logs
    from antiphon.app.app import make_app, make_runner
    from antiphon.app.banner import Address, Banner
    from antiphon.app.checked_settings import load_settings
    from antiphon.app.lifetime import BESIDE
    from antiphon.app.parts import Extensions, WorkerPart
    from antiphon.app.processes.channel import Channel, Questions
    from antiphon.app.processes.listening import AbsentSlots, bind_private
    from antiphon.app.processes.messages import (
        Answer,
        Counts,
        EngineLost,
        EngineMoved,
        EngineProgressed,
        Failed,
        Full,
        Members,
        Ready,
        Reload,
        Start,
        Stop,
        ToWorker,
        Woken,
    )
    from antiphon.app.processes.shared_admission import SharedAdmission
    from antiphon.app.reload import Reloader
    from antiphon.app.start_up import (
        announce_stop,
        collect_less,
        log_listening,
        loop_factory,
        refuse_to_be_open,
        return_memory,
    )
    from antiphon.engines.embedded.process import SharedEngineProcess
    from antiphon.gateway.limits.owner_limits import Admission
    from antiphon.gateway.limits.places import AdmissionLimits
    from antiphon.server.parts import APP
    from antiphon.server.routes.metrics import own_metrics
    from antiphon.server.siblings import Sibling, Siblings
    from antiphon.settings.errors import SettingsError
    from antiphon.settings.settings import Settings, data_directory
    from antiphon.store import CannotOpen, default_url, open_store
    from antiphon.store.wakeups import WakeupRelay
    from antiphon.transport import BACKLOG, make_session

SIZE = 8


class RowNumbers:
    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)

    def next(self) -> int:
        """Few requests a second are recorded: four calls of the system for each are no burden."""
        import fcntl

        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            number = int.from_bytes(os.pread(self._file, SIZE, 0)) + 1
            os.pwrite(self._file, number.to_bytes(SIZE), 0)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        return number


def main() -> None:
    # Both reach every process of a terminal. The supervisor says what is to be done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_work(_inherited(int(sys.argv[1]))))


def _inherited(descriptor: int) -> socket.socket:
    """A socket of the supervisor. Processes that this one starts, such as those of sandboxes, must not get it, too."""
    inherited = socket.socket(fileno=descriptor)
    inherited.set_inheritable(False)
    return inherited


async def _work(end: socket.socket) -> None:
    channel: Channel[ToWorker] = await Channel.over(end, ToWorker)
    start = await channel.receive()
    if not isinstance(start, Start):
        # The supervisor has ended already.
        return
    logs.always["worker"] = start.slot
    try:
        config = Path(start.config) if start.config is not None else None
        settings = refuse_to_be_open(load_settings(start.flags, config))
        logs.configure(settings.log_level, settings.log_format)
        await Worker(channel, start, config).serve(settings)
    except (SettingsError, CannotOpen) as reason:
        channel.send(Failed(str(reason)))
        await channel.flush()
        sys.exit(2)


def share_of(settings: Settings, slot: int, workers: int) -> Settings:
    """Places that need no other process to be counted are divided: so many background responses run, and so many containers
    are there, as in a single process."""
    containers = structs.replace(settings.containers, most=max(1, _part(settings.containers.most, slot, workers)))
    background = _part(settings.background_workers, slot, workers)
    return structs.replace(settings, background_workers=background, containers=containers)


def _part(places: int, slot: int, workers: int) -> int:
    return places // workers + (slot < places % workers)


class Worker:
    def __init__(self, channel: Channel[ToWorker], start: Start, config: Path | None) -> None:
        self._channel = channel
        self._start = start
        self._config = config
        self._stop = asyncio.Event()
        self._within: float | None = None
        self._questions = Questions(channel)
        self._relay = WakeupRelay(lambda topic: channel.send(Woken(topic)))
        self._siblings = Siblings(start.slot, start.supervisor)
        self._siblings.departed = partial(self._questions.ask, "departed")
        shared = start.embedded
        self._embedded = SharedEngineProcess(**structs.asdict(shared)) if shared is not None else None
        self._admission: SharedAdmission | None = None
        self._reloading = asyncio.Event()

    async def serve(self, given: Settings) -> None:
        start = self._start
        settings = share_of(given, start.slot, start.workers)
        if start.found and not given.upstream:
            settings = structs.replace(settings, upstream=start.found)
        url = settings.store or default_url(data_directory(settings))
        async with (
            make_session(settings.transport) as session,
            open_store(url, relay=self._relay, writer=start.writer) as store,
        ):
            app = make_app(settings, session, store, self._embedded, Extensions(downloads=True), part=self._part())
            reloader = Reloader(app, given, refuse_to_be_open)
            runner = make_runner(app)
            await runner.setup()
            try:
                address = await self._listen(runner, settings)
                tasks = self._begin(app, reloader, settings, address)
                await self._stop.wait()
                await self._absent.close()
                # From now on, the others cannot ask this process for what it has counted.
                self._channel.send(Counts(await own_metrics(app)))
                if self._within is not None:
                    app[BESIDE].drain_within = self._within
                announce_stop(app, structs.replace(settings, shutdown_timeout=app[BESIDE].drain_within))
            finally:
                await runner.cleanup()
                self._channel.send(Counts(await own_metrics(app)))
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._channel.flush()

    def _part(self) -> WorkerPart:
        start = self._start
        return WorkerPart(
            self._siblings,
            self._make_admission,
            RowNumbers(Path(start.path).with_name("rows")).next,
            start.slot,
            sweeps=start.slot == 0,
            gateway_started=start.gateway_started,
        )

    def _begin(
        self, app: web.Application, reloader: Reloader, settings: Settings, address: Address
    ) -> list[asyncio.Task[None]]:
        """It listens: the supervisor is followed, and gets to know."""
        tasks = [asyncio.create_task(self._follow_supervisor()), asyncio.create_task(self._reload_when_asked(reloader))]
        if self._start.shows_banner:
            has_inspector = app[APP].inspection.inspector.recordings is not None
            advice = self._advice(settings)
            tasks.append(asyncio.create_task(Banner(address, has_inspector=has_inspector, advice=advice).show(app)))
        log_listening(app, address, self._embedded)
        collect_less()
        self._channel.send(Ready())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.set)
        return tasks

    def _advice(self, settings: Settings) -> str | None:
        if self._embedded is None:
            return None
        # Only here: most gateways have engines of their own.
        from antiphon.engines.embedded.model_choice import better_model

        return better_model(settings, self._embedded.alias)

    def _make_admission(self, limits: AdmissionLimits) -> Admission:
        self._admission = SharedAdmission(self._questions, limits)
        return self._admission

    async def _listen(self, runner: web.AppRunner, settings: Settings) -> Address:
        for descriptor in self._start.listening:
            await web.SockSite(runner, _inherited(descriptor), backlog=BACKLOG).start()
        others = self._start.others.items()
        self._absent = AbsentSlots(runner, {slot: list(map(_inherited, descriptors)) for slot, descriptors in others})
        port = int(runner.addresses[0][1])
        await web.SockSite(runner, bind_private(Path(self._start.path))).start()
        return Address(settings.host, port)

    async def _reload_when_asked(self, reloader: Reloader) -> None:
        """One after another, also if the supervisor asks for it meanwhile."""
        while True:
            await self._reloading.wait()
            self._reloading.clear()
            await reloader.reload(lambda: refuse_to_be_open(load_settings(self._start.flags, self._config)))

    # ---- what the supervisor sends -----------------------------------------------------------------------------------

    async def _follow_supervisor(self) -> None:
        await self._channel.receive_all(self._receive)
        self._questions.close()
        # It was killed: nobody would replace this process, and nobody cleans up behind it.
        await asyncio.to_thread(shutil.rmtree, Path(self._start.path).parent, ignore_errors=True)
        self._stop.set()

    def _receive(self, message: ToWorker) -> Awaitable[None] | None:
        match message:
            case Members(members=members):
                others = (Sibling(each.slot, each.pid, each.path) for each in members if each.path != self._start.path)
                self._siblings.others = tuple(others)
                return self._absent.cover({each.slot for each in members})
            case Woken(topic=topic):
                self._relay.receive(topic)
            case Answer() as answer:
                self._questions.answered(answer)
            case Full() as full if self._admission is not None:
                self._admission.inform(full)
            case Reload():
                self._reloading.set()
            case EngineMoved(url=url) if self._embedded is not None:
                self._embedded.moved(url)
            case EngineLost() if self._embedded is not None:
                self._embedded.lost()
            case EngineProgressed(loading=loading) if self._embedded is not None:
                self._embedded.progressed(loading)
            case Stop(within=within):
                self._within = within
                self._stop.set()
        return None


if __name__ == "__main__":
    main()
