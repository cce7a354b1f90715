"""The containers of a gateway: made, found, used, expired and removed."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from antiphon.core.hosted.hosted_tool import MEMORY
from antiphon.errors import InvalidRequest, RateLimited, StoreUnavailable
from antiphon.logs import log
from antiphon.sandbox.containers.container import Container, ContainerFile
from antiphon.sandbox.containers.container_files import ContainerExpired as ContainerExpired
from antiphon.sandbox.containers.container_files import ContainerFiles, Uploads
from antiphon.sandbox.containers.container_files import ContainerLimits as ContainerLimits
from antiphon.sandbox.containers.folder import ContainerFolder, free_name, make_own_folder, remove_leftovers
from antiphon.sandbox.containers.kernels import Kernel, Kernels
from antiphon.sandbox.folder import remove_folder
from antiphon.sandbox.runs import KernelRun, ShellRun

# Seconds between two looks for containers that have been idle too long.
SWEEP_INTERVAL = 15.0
# Idle minutes after which a container expires, and the most that a request may ask for.
MINUTES = 20
# Containers that have expired, and are still known.
MOST_EXPIRED = 1_000
# Seconds that a kernel may take beyond the time of its run.
GRACE = 30.0

FULL = "There are too many containers here now: at most {most} at a time{whose}. Delete one, or wait until one has expired."


class Run(NamedTuple):
    """What came of running code. `written`: the files that it made or changed."""

    result: KernelRun
    written: list[ContainerFile]
    files: list[ContainerFile]


class Containers(ContainerFiles):
    """`close()` it at the end. What belongs to another owner is not found."""

    def __init__(
        self,
        kernels: Kernels,
        limits: ContainerLimits,
        folder: Path,
        new_id: Callable[[str], str],
        uploads: Uploads,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`folder`: where the folders of containers are made; other gateways may use the same one."""
        super().__init__(limits, uploads, new_id, now)
        self.kernels = kernels
        self._folder = folder
        # This gateway's own folder in it, once there is a container; and the lock that says that the gateway is alive.
        self._own: Path | None = None
        self._lock: BinaryIO | None = None
        self._containers: dict[str, Container] = {}
        self._expired: dict[str, Container] = {}
        # Whom an owner's key stands for now: it may have got a name since.
        self.current_owner: Callable[[str], str] = lambda owner: owner
        self._making = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def complaint(self) -> str | None:
        """Why code cannot be run here."""
        return await self.kernels.complaint()

    # ---- which there are ---------------------------------------------------------------------------------------------

    @property
    def all(self) -> list[Container]:
        """Of every owner, the oldest first."""
        return list(self._containers.values())

    def of_owner(self, owner: str) -> list[Container]:
        """The oldest first."""
        return [each for each in self._containers.values() if self._is_of(each, owner)]

    def get(self, owner: str, id: str) -> Container | None:
        """None: it is not there, has expired, or is another owner's."""
        container = self._containers.get(id)
        if container is None or not self._is_of(container, owner):
            return None
        if container.is_idle_too_long(self._now()):
            self._expire(container)
            return None
        return container

    def seen(self, owner: str, id: str) -> Container | None:
        """The same, or one that has expired."""
        found = self.get(owner, id) or self._expired.get(id)
        return found if found is not None and self._is_of(found, owner) else None

    def _is_of(self, container: Container, owner: str) -> bool:
        return self.current_owner(container.owner) == self.current_owner(owner)

    # ---- made and removed --------------------------------------------------------------------------------------------

    async def create(
        self,
        owner: str,
        name: str,
        *,
        id: str | None = None,
        minutes: int = MINUTES,
        memory_limit: str = "1g",
        is_auto: bool = False,
    ) -> Container:
        """`id`: one that was promised; if it is there already, it is returned. Raises RateLimited if there are too many."""
        async with self._making:
            if id is not None and (there := self.get(owner, id)) is not None:
                return there
            self._make_room(owner)
            now = self._now()
            id = id or self.new_id("cntr")
            folder = ContainerFolder(await self._own_folder() / id)
            await asyncio.to_thread(folder.make)
            container = Container(id, owner, name, int(now), now, minutes, memory_limit, folder, is_auto)
            self._containers[id] = container
            return container

    def _make_room(self, owner: str) -> None:
        self.sweep()
        limits, own = self.limits, self.of_owner(owner)
        is_own_limit = len(own) >= limits.most_per_owner
        if not is_own_limit and len(self._containers) < limits.most:
            return
        # Nobody has asked for these by name. The one that was used longest ago gives way.
        idle = [each for each in own if each.is_auto and not each.users]
        if not idle:
            most, whose = (limits.most_per_owner, " for one key") if is_own_limit else (limits.most, "")
            raise RateLimited(FULL.format(most=most, whose=whose), retry_after=60)
        self._expire(min(idle, key=lambda each: each.last_active_at))

    async def delete(self, owner: str, id: str) -> bool:
        container = self.seen(owner, id)
        if container is None:
            return False
        self._expired.pop(id, None)
        if self._containers.pop(id, None) is not None:
            container.has_expired = True
            await self._end(container)
        return True

    def _expire(self, container: Container) -> None:
        self._containers.pop(container.id, None)
        container.has_expired = True
        self._expired[container.id] = container
        while len(self._expired) > MOST_EXPIRED:
            del self._expired[next(iter(self._expired))]
        task = asyncio.create_task(self._end(container))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, container: Container) -> None:
        await _stop(container)
        container.files.clear()
        await asyncio.to_thread(container.folder.remove)

    def sweep(self) -> int:
        """Ends containers that have been idle too long. How many there were."""
        now = self._now()
        idle = [each for each in self._containers.values() if each.is_idle_too_long(now)]
        for container in idle:
            self._expire(container)
        return len(idle)

    async def watch(self, interval: float = SWEEP_INTERVAL) -> None:
        self.kernels.begin()
        try:
            await asyncio.to_thread(remove_leftovers, self._folder)
        except OSError as failed:
            # Another gateway may be removing them, too.
            log("leftovers_not_removed", level=logging.WARNING, reason=str(failed))
        while True:
            await asyncio.sleep(interval)
            self.sweep()

    async def close(self) -> None:
        for container in self.all:
            self._expire(container)
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self.kernels.close()
        if self._own is not None:
            await asyncio.to_thread(remove_folder, self._own)
        if self._lock is not None:
            self._lock.close()

    async def _own_folder(self) -> Path:
        if self._own is not None:
            return self._own
        made, self._lock = await asyncio.to_thread(make_own_folder, self._folder)
        self._own = made
        return made

    # ---- runs --------------------------------------------------------------------------------------------------------

    async def run(self, container: Container, code: str) -> Run:
        """A run that is cancelled ends the container's Python: its variables are lost, its files are not."""
        async with self._in_use(container):
            seconds = self.limits.seconds
            async with self._running(container, seconds) as kernel:
                result = await kernel.run(code, seconds)
            if container.has_expired:
                raise ContainerExpired
            written = await self._look(container, "assistant")
            for image in result.images:
                written += await self._keep_image(container, image)
            return Run(result, written, list(container.files.values()))

    async def run_commands(
        self, container: Container, commands: Sequence[str], seconds: float, most_output: int
    ) -> list[ShellRun]:
        """Shell commands, one after another. `seconds`, and `most_output` in characters: of each."""
        async with self._in_use(container):
            async with self._running(container, seconds * len(commands)) as kernel:
                ran = [await kernel.shell(command, seconds, most_output) for command in commands]
            if container.has_expired:
                raise ContainerExpired
            await self._look(container, "assistant")
            return ran

    @asynccontextmanager
    async def _running(self, container: Container, seconds: float) -> AsyncIterator[Kernel]:
        try:
            async with asyncio.timeout(seconds + GRACE):
                kernel = await self._kernel(container)
                yield kernel
        except BaseException:
            await asyncio.shield(_stop(container))
            raise
        if not kernel.is_alive:
            await _stop(container)

    async def _kernel(self, container: Container) -> Kernel:
        if container.kernel is None or not container.kernel.is_alive:
            await _stop(container)
            if not await asyncio.to_thread(container.folder.data.is_dir):
                # Somebody has cleaned up the disk.
                self._expire(container)
                raise ContainerExpired
            container.kernel = await self.kernels.start(container.folder.data, MEMORY[container.memory_limit])
            # The sandbox may have given the files to another user, which is no change of them.
            await self._look(container, None)
        return container.kernel

    async def _keep_image(self, container: Container, image: bytes) -> list[ContainerFile]:
        """Nothing if there is no room for it: what code has printed and drawn is shown all the same."""
        name = free_name("image.png", container.files)
        with suppress(InvalidRequest, StoreUnavailable):
            return [await self._write(container, name, _pieces(image), "assistant")]
        return []


async def _stop(container: Container) -> None:
    kernel, container.kernel = container.kernel, None
    if kernel is None:
        return
    try:
        await kernel.close()
    except Exception as failed:
        log("kernel_not_closed", level=logging.WARNING, exc_info=failed, container=container.id)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
