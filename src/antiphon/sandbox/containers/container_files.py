"""The files of containers: uploaded, copied, looked at, read and removed."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import ParamSpec, Protocol, TypeVar

from msgspec import Struct

from antiphon.errors import InvalidRequest, StoreUnavailable, counted, quoted
from antiphon.sandbox.containers.container import Container, ContainerFile, Source
from antiphon.sandbox.containers.folder import clean_name, free_name
from antiphon.sandbox.runs import MOST_FILES, SandboxLimits
from antiphon.store.files.records import FileRecord

P = ParamSpec("P")
T = TypeVar("T")

PIECE = 256 * 1024
NO_SUCH_FILE = "there is no file {id}"
FULL = "There is no room for {name}: a container may have {most} and {files} files. Delete some of its files."
NOT_WRITTEN = "The file could not be stored: {reason}."


class ContainerExpired(Exception):
    """It has gone while somebody was about to use it."""

    def __init__(self) -> None:
        super().__init__("The container has expired, or was deleted: its files and its variables are gone.")


class ContainerLimits(Struct, frozen=True):
    most: int = 32
    most_per_owner: int = 8
    memory: str = "1g"
    # Of one run.
    seconds: float = 60.0
    # Bytes of all files.
    disk: int = 2**30


class Uploads(Protocol):
    """The uploaded files (`files.library.FileLibrary`)."""

    async def find(self, owner: str, ids: Collection[str]) -> Mapping[str, FileRecord]: ...

    def read(self, record: FileRecord) -> AsyncIterator[bytes]: ...


class ContainerFiles:
    def __init__(
        self, limits: ContainerLimits, uploads: Uploads, new_id: Callable[[str], str], now: Callable[[], float] = time.time
    ) -> None:
        self.limits = limits
        self.uploads = uploads
        self.new_id = new_id
        self._now = now

    @asynccontextmanager
    async def _in_use(self, container: Container) -> AsyncIterator[None]:
        with container.used(self._now()):
            async with container.lock:
                if container.has_expired:
                    raise ContainerExpired
                yield
        container.last_active_at = self._now()

    async def _look(self, container: Container, source: Source | None) -> list[ContainerFile]:
        """Takes note of its files. Those that are new or have changed come from this source, and are returned."""
        return container.note_files(await asyncio.to_thread(container.folder.files), source, self._now(), self.new_id)

    async def add(self, container: Container, filename: str, content: AsyncIterator[bytes]) -> ContainerFile:
        """An upload. One that has the name of another file takes its place."""
        name = clean_name(filename)
        with container.used(self._now()):
            # A client that is slow does not keep code from running.
            async with self._received(container, name, content) as number, self._in_use(container):
                return await self._place(container, number, name, "user")

    async def check_uploads(self, owner: str, ids: Sequence[str], where: str) -> Sequence[FileRecord]:
        """Raises InvalidRequest for one that is not there, or another owner's. `where`: the path of the list."""
        if not ids:
            return ()
        found = await self.uploads.find(owner, set(ids))
        for at, id in enumerate(ids):
            if id not in found:
                problem = f"Invalid `{where}[{at}]`: {NO_SUCH_FILE.format(id=quoted(id))}."
                raise InvalidRequest(problem, param=f"{where}[{at}]", code="file_not_found")
        return [found[id] for id in dict.fromkeys(ids)]

    async def bring(self, container: Container, owner: str, ids: Sequence[str]) -> None:
        """Copies uploaded files that are not there yet."""
        new = [id for id in ids if container.copied.get(id) not in container.files]
        await self.copy(container, await self.check_uploads(owner, new, "file_ids"))

    async def copy(self, container: Container, records: Sequence[FileRecord]) -> list[ContainerFile]:
        """Uploaded files, each once."""
        return [await self._copy(container, record) for record in records]

    async def _copy(self, container: Container, record: FileRecord) -> ContainerFile:
        async with self._in_use(container):
            known = container.files.get(container.copied.get(record.id, ""))
            if known is None:
                name = free_name(clean_name(record.filename), container.files)
                known = await self._write(container, name, self.uploads.read(record), "user")
                container.copied[record.id] = known.name
            return known

    async def _write(self, container: Container, name: str, content: AsyncIterator[bytes], source: Source) -> ContainerFile:
        async with self._received(container, name, content) as number:
            return await self._place(container, number, name, source)

    @asynccontextmanager
    async def _received(self, container: Container, name: str, content: AsyncIterator[bytes]) -> AsyncIterator[str]:
        """The number of a new upload, once all of it has come. Raises InvalidRequest if there is no room for it, also beside
        the others that are arriving."""
        folder, number, size = container.folder, self.new_id("upload"), 0
        room = await self._room(container, name)
        file = await _on_disk(folder.begin_upload, number)
        try:
            async for piece in content:
                size += len(piece)
                container.arriving += len(piece)
                if container.arriving > room:
                    raise self._no_room(name)
                await _on_disk(folder.write, file, piece)
            await _on_disk(file.close)
            yield number
        finally:
            container.arriving -= size
            with suppress(OSError):
                file.close()
            await asyncio.to_thread(folder.drop_upload, number)

    async def _room(self, container: Container, name: str) -> int:
        room = await _on_disk(container.folder.room, name, SandboxLimits(disk=self.limits.disk))
        if room < 0:
            raise self._no_room(name)
        return room

    def _no_room(self, name: str) -> InvalidRequest:
        message = FULL.format(most=counted(self.limits.disk, "byte"), files=MOST_FILES, name=quoted(name))
        return InvalidRequest(message, param="file", code="container_full")

    async def _place(self, container: Container, number: str, name: str, source: Source) -> ContainerFile:
        """`container` is locked: what was placed since the upload began is counted."""
        if await _on_disk(container.folder.size_of, number) > await self._room(container, name):
            raise self._no_room(name)
        try:
            await _on_disk(container.folder.end_upload, number, name)
        except FileExistsError:
            problem = f"The container has a folder with the name {quoted(name)}: give the file another one."
            raise InvalidRequest(problem, param="file", code="invalid_value") from None
        await self._look(container, source)
        if (written := container.files.get(name)) is None:
            raise InvalidRequest("The file is gone: code in the container has removed it.", param="file", code="file_not_found")
        return written

    async def remove_file(self, container: Container, file: ContainerFile) -> None:
        async with self._in_use(container):
            await asyncio.to_thread(container.folder.delete, file.name)
            container.files.pop(file.name, None)

    async def read(self, container: Container, file: ContainerFile) -> AsyncGenerator[bytes]:
        """Raises FileNotFoundError: code has removed it, or put something else in its place."""
        with container.used(self._now()):
            opened = await asyncio.to_thread(container.folder.open, file.name)
            try:
                while piece := await asyncio.to_thread(opened.read, PIECE):
                    yield piece
            finally:
                opened.close()


async def _on_disk(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """In a thread. Raises ContainerExpired if the folder is gone, and StoreUnavailable if the disk is full."""
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except FileNotFoundError:
        raise ContainerExpired from None
    except FileExistsError:
        raise
    except OSError as failed:
        raise StoreUnavailable(NOT_WRITTEN.format(reason=failed.strerror)) from failed
