"""One container: what is known of it, its files, and the Python that runs in it."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct, field

from antiphon.sandbox.containers.folder import ContainerFolder
from antiphon.sandbox.containers.kernels import Kernel
from antiphon.sandbox.folder import FolderFile

Source = Literal["user", "assistant"]


class ContainerFile(Struct):
    """`name`: its path below /mnt/data."""

    id: str
    name: str
    size: int
    created_at: int
    source: Source
    version: int


class Container(Struct, eq=False):
    id: str
    owner: str
    name: str
    created_at: int
    last_active_at: float
    # How long it may be idle.
    minutes: int
    memory_limit: str
    folder: ContainerFolder
    # A request made it by itself.
    is_auto: bool = False
    # Its files and its state are gone.
    has_expired: bool = False
    # By their names.
    files: dict[str, ContainerFile] = field(default_factory=dict)
    # Uploaded files that were copied into it: by the upload's id, the name here.
    copied: dict[str, str] = field(default_factory=dict)
    kernel: Kernel | None = None
    # One run, or one change of its files, at a time.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Bytes of uploads that are not whole yet.
    arriving: int = 0
    # How many use it now.
    users: int = 0

    @contextmanager
    def used(self, now: float) -> Iterator[None]:
        """It does not expire meanwhile."""
        self.last_active_at = now
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1

    @property
    def expires_at(self) -> float:
        """If nobody uses it from now on."""
        return self.last_active_at + self.minutes * 60

    def is_idle_too_long(self, now: float) -> bool:
        return self.users == 0 and now >= self.expires_at

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    def note_files(
        self, files: Iterable[FolderFile], source: Source | None, now: float, new_id: Callable[[str], str]
    ) -> list[ContainerFile]:
        """The files as they are now. Those that are new or have changed come from this source, and are returned. `source`: None
        if nothing has changed but what the system says of them."""
        before, self.files = self.files, {}
        changed: list[ContainerFile] = []
        for found in files:
            known = before.get(found.path)
            if known is None:
                id = new_id("cfile")
                known = ContainerFile(id, found.path, found.size, int(now), source or "assistant", found.changed)
                changed.append(known)
            elif known.version != found.changed:
                known.size, known.version, known.source = found.size, found.changed, source or known.source
                changed.append(known)
            self.files[found.path] = known
        return changed

    def file(self, id: str) -> ContainerFile | None:
        return next((file for file in self.files.values() if file.id == id), None)


# ---- ids -------------------------------------------------------------------------------------------------------------
# They say in which worker process a container is: it lives in one process, and dies with it.

# Hexadecimal digits at the end of an id.
DIGITS = 2
PREFIX = "cntr"


def ids_in_slot(slot: int, new_id: Callable[[str], str]) -> Callable[[str], str]:
    """Makes ids as `new_id` does, and those of containers so that `slot_of` finds this slot."""

    def make(prefix: str) -> str:
        id = new_id(prefix)
        return f"{id[:-DIGITS]}{slot:0{DIGITS}x}" if prefix == PREFIX else id

    return make


def slot_of(id: str) -> int | None:
    """None: it is no such id."""
    try:
        return int(id[-DIGITS:], 16) if id.startswith(PREFIX) else None
    except ValueError:
        return None
