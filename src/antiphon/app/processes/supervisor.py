"""Starts the worker processes of a gateway, starts them again when they die, and replaces them one after another.

It serves no request itself. A slot is a place for one worker process: it has sockets of its own, which stay open while its
process is replaced. While a slot has no process, the others accept its connections.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from antiphon.app.processes import CannotServe
from antiphon.app.processes.messages import (
    Answer,
    Ask,
    Counts,
    EngineLost,
    EngineMoved,
    EngineProgressed,
    Member,
    Members,
    Note,
    Ready,
    Reload,
    SharedEngine,
    Start,
    Stop,
    ToSupervisor,
    ToWorker,
    Woken,
)
from antiphon.app.processes.shared_limits import SharedLimits
from antiphon.app.processes.store_writer import StoreWriter
from antiphon.app.processes.supervised import Supervised
from antiphon.child_processes.child import RestartPauses, Restarts
from antiphon.engines.embedded.process import EngineProcess
from antiphon.logs import log
from antiphon.server.metrics.merging import merge_departed
from antiphon.settings.errors import SettingsError
from antiphon.settings.settings import Settings

# Of a process that dies soon after its start.
PAUSES = RestartPauses(first=0.1, longest=30.0, stable_after=10.0)
# Seconds beyond the time for its responses that a process may take to end.
CLOSING_TIME = 15.0
# Seconds that a process that is replaced may take to finish its responses: nobody waits for it to be gone.
REPLACED_WITHIN = 3600.0

UNDER_WAY = "a restart is under way already"
STOPPING = "the gateway is stopping"


class CannotReplace(Exception):
    """A worker process could not be replaced. It serves as before, and so do those that were not reached."""


class Plan(Struct, frozen=True):
    """What every worker process is started with."""

    # By which the settings are read.
    flags: dict[str, Any]
    config: str | None
    # Engines that were found on this machine.
    found: tuple[str, ...] = ()
    embedded: EngineProcess | None = None


class Slot(Struct):
    number: int
    sockets: Sequence[socket.socket]
    worker: Supervised | None = None
    # One process at a time is started for it.
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(each.fileno() for each in self.sockets)


def _shared(engine: EngineProcess) -> SharedEngine:
    return SharedEngine(engine.model, engine.url, engine.key, engine.loading)


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """For Unix sockets, whose paths must be short."""
    folder = Path(tempfile.mkdtemp(prefix="antiphon-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Supervisor:
    def __init__(
        self,
        settings: Settings,
        plan: Plan,
        sockets: Sequence[Sequence[socket.socket]],
        folder: Path,
        load: Callable[[], Settings],
    ) -> None:
        """`folder`: for Unix sockets, private. `load` reads the settings again."""
        self._plan = plan
        self._load = load
        self._folder = folder
        self._slots = [Slot(number, each) for number, each in enumerate(sockets)]
        self._workers: set[Supervised] = set()
        self._started = 0
        self._gateway_started = time.time()
        self._stopping = False
        self._replacing = asyncio.Lock()
        self._settings = settings
        # The counts of processes that have ended.
        self._departed = b""
        self._limits = SharedLimits(settings, self._broadcast)
        self._watching: set[asyncio.Task[None]] = set()
        self._writer = StoreWriter(folder)

    @property
    def embedded(self) -> EngineProcess | None:
        return self._plan.embedded

    # ---- from start to end -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the first worker process is ready; it alone brings the store up to date. Raises CannotServe."""
        if (embedded := self._plan.embedded) is not None:
            embedded.moved = lambda url: self._broadcast(EngineMoved(url))
            embedded.lost = lambda: self._broadcast(EngineLost())
            embedded.progressed = lambda loading: self._broadcast(EngineProgressed(loading))
        first = self._slots[0].worker = await self._spawn(self._slots[0], shows_banner=True)
        if not await first.ready():
            raise CannotServe(await first.end())

    async def run(self) -> None:
        """Until it is cancelled, or stopped."""
        # Not before: the gateway says that it is ready with its first worker, and can be stopped from then on.
        await self._writer.start(self._settings)
        async with asyncio.TaskGroup() as group:
            for slot in self._slots:
                group.create_task(self._keep_running(slot))

    async def stop(self) -> None:
        """Lets the responses of all processes finish."""
        self._stopping = True
        for worker in self._workers:
            worker.send(Stop())
        limit = self._settings.shutdown_timeout + CLOSING_TIME
        await asyncio.gather(*(worker.end_within(limit) for worker in list(self._workers)))
        await self._writer.stop()

    def kill(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._writer.kill()

    async def _keep_running(self, slot: Slot) -> None:
        restarts = Restarts(PAUSES)
        while not self._stopping:
            worker = slot.worker
            if worker is None:
                async with slot.starting:
                    slot.worker = slot.worker or await self._spawn(slot)
                continue
            restarts.begin()
            reason = await worker.end()
            # It was replaced, or everything ends.
            if slot.worker is not worker or self._stopping:
                continue
            pause = restarts.pause()
            log("worker died", level=logging.WARNING, worker=slot.number, reason=reason, restarts_in=pause)
            await asyncio.sleep(pause)
            async with slot.starting:
                if slot.worker is worker:
                    slot.worker = None

    async def _spawn(self, slot: Slot, *, shows_banner: bool = False) -> Supervised:
        self._started += 1
        embedded = self._plan.embedded
        start = Start(
            slot=slot.number,
            workers=len(self._slots),
            flags=self._plan.flags,
            config=self._plan.config,
            found=self._plan.found,
            embedded=_shared(embedded) if embedded is not None else None,
            listening=slot.descriptors,
            others={each.number: each.descriptors for each in self._slots if each is not slot},
            path=str(self._folder / f"{slot.number}-{self._started}"),
            supervisor=os.getpid(),
            gateway_started=self._gateway_started,
            shows_banner=shows_banner,
            writer=self._writer.path,
        )
        worker = await Supervised.spawn(start, self._receive)
        self._workers.add(worker)
        watching = asyncio.create_task(self._watch(worker))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return worker

    async def _watch(self, worker: Supervised) -> None:
        await worker.end()
        self._workers.discard(worker)
        self._departed = merge_departed(self._departed, worker.counts)
        self._limits.release(worker)
        self._share_members()
        # aiohttp leaves it, and a process that was killed does so, too.
        await asyncio.to_thread(Path(worker.path).unlink, missing_ok=True)

    # ---- one after another -------------------------------------------------------------------------------------------

    async def replace(self, within: float = REPLACED_WITHIN) -> AsyncIterator[Supervised]:
        """Yields each new process once the one that it replaces has ended. Raises CannotReplace."""
        if self._replacing.locked():
            raise CannotReplace(UNDER_WAY)
        async with self._replacing:
            if (complaint := self.reload()) is not None:
                raise CannotReplace(complaint)
            for slot in self._slots:
                old = slot.worker
                new = await self._replace(slot)
                if slot is self._slots[0]:
                    # Now the store is up to date for the new code, which this one has, too.
                    await self._writer.start(self._settings)
                if old is not None:
                    old.send(Stop(within))
                    await old.end_within(within + CLOSING_TIME)
                log("worker replaced", worker=slot.number, pid=new.pid)
                yield new

    async def _replace(self, slot: Slot) -> Supervised:
        """The new process accepts connections before the old one stops doing so."""
        async with slot.starting:
            if self._stopping:
                raise CannotReplace(STOPPING)
            new = await self._spawn(slot)
            if not await new.ready():
                raise CannotReplace(await new.end())
            slot.worker = new
            return new

    # ---- what they send each other -----------------------------------------------------------------------------------

    def reload(self) -> str | None:
        """All of them read the settings again. Returns why they cannot be used: nothing changes then."""
        try:
            settings = self._load()
        except SettingsError as invalid:
            log("settings not reloaded", level=logging.ERROR, reason=str(invalid))
            return str(invalid)
        self._settings = settings
        self._limits.change(settings)
        self._broadcast(Reload())
        return None

    def _receive(self, sender: Supervised, message: ToSupervisor) -> None:
        match message:
            case Woken():
                self._broadcast(message, but=sender)
            case Ready() | Counts():
                self._share_members()
            case Ask(number=number, name="departed"):
                leaving = [worker.counts for worker in self._workers if worker.counts]
                sender.send(Answer(number, [self._departed, *leaving]))
            case Ask() | Note():
                self._limits.receive(sender, message)

    def _broadcast(self, message: ToWorker, but: Supervised | None = None) -> None:
        for worker in self._workers:
            if worker is not but:
                worker.send(message)

    def _share_members(self) -> None:
        ready = [worker for worker in self._workers if worker.is_ready and not worker.is_leaving]
        members = [Member(worker.slot, worker.pid, worker.path) for worker in ready]
        self._broadcast(Members(tuple(sorted(members, key=lambda member: (member.slot, member.path)))))
