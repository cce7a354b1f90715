"""Vector stores whose files, texts and index are simple ones, in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from antiphon.files.file_inputs import UnreadableFile
from antiphon.files.vector_stores.indexer import Indexer, IndexerOptions, IndexerParts
from antiphon.files.vector_stores.interfaces import VectorStoreLimits
from antiphon.files.vector_stores.search.found import Found, Piece, Wanted
from antiphon.files.vector_stores.store_files import StoreFiles
from antiphon.files.vector_stores.vector_stores import VectorStores
from antiphon.ids import new_id
from antiphon.store import Store
from antiphon.store.files.records import FileRecord
from antiphon.store.protocol import FileStore


class SimpleFiles:
    def __init__(self) -> None:
        self.records: dict[str, FileRecord] = {}

    def put(self, id: str, owner: str = "ada", **members: Any) -> str:
        record = FileRecord(id=id, owner=owner, created_at=1, size=1, purpose="assistants", filename=f"{id}.txt", **members)
        self.records[id] = record
        return id

    async def find(self, owner: str, ids: Collection[str]) -> dict[str, FileRecord]:
        return {id: self.records[id] for id in ids if id in self.records and self.records[id].owner == owner}

    @asynccontextmanager
    async def local_copy(self, record: FileRecord) -> AsyncIterator[Path]:
        yield Path(record.id)


class SimpleTexts:
    """The text of each file. Those without one wait until they get it."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._changed = asyncio.Condition()
        self.fails: dict[str, Exception] = {}
        # For the first time only.
        self.fails_once: dict[str, Exception] = {}
        # In the order in which they were asked for.
        self.asked: list[str] = []

    async def text_of(self, path: Path, filename: str, content_type: str | None, owner: str) -> str:
        self.asked.append(path.name)
        if path.name in self.fails_once:
            raise self.fails_once.pop(path.name)
        if path.name in self.fails:
            raise self.fails[path.name]
        async with self._changed:
            await self._changed.wait_for(lambda: path.name in self._texts)
        return self._texts[path.name]

    async def set(self, **texts: str) -> None:
        async with self._changed:
            self._texts |= texts
            self._changed.notify_all()


class SimpleIndex:
    """A chunk is found by a word in it."""

    def __init__(self) -> None:
        self.chunks: dict[tuple[str, str], dict[int, str]] = {}
        # Awaited before chunks are added.
        self.before_adding: Callable[[str, str, int], Any] | None = None
        self.wanted: list[Wanted] = []
        # How many chunks have no vector yet.
        self.without_vector = 0
        # How many that were, each time that something was arranged.
        self.arranged: list[int] = []

    async def add(self, store: str, file: str, texts: Sequence[str | Piece], *, first: int = 0) -> None:
        if self.before_adding is not None:
            await self.before_adding(store, file, first)
        self.chunks.setdefault((store, file), {}).update(
            enumerate((each if isinstance(each, str) else each.text for each in texts), first)
        )

    async def count(self, store: str, file: str) -> int:
        return len(self.chunks.get((store, file), {}))

    async def texts(self, store: str, file: str) -> AsyncIterator[list[str]]:
        yield [text for _, text in sorted(self.chunks.get((store, file), {}).items())]

    async def embed_later(self) -> int:
        made, self.without_vector = min(1, self.without_vector), max(0, self.without_vector - 1)
        return made

    def arrange(self) -> None:
        self.arranged.append(self.without_vector)

    async def remove(self, store: str, file: str) -> None:
        self.chunks.pop((store, file), None)

    async def remove_store(self, store: str) -> None:
        for key in [key for key in self.chunks if key[0] == store]:
            del self.chunks[key]

    async def search(self, stores: Sequence[str], queries: Sequence[str], wanted: Wanted) -> list[Found]:
        self.wanted.append(wanted)
        found = [
            Found(store, file, number, 0.5, text)
            for (store, file), texts in self.chunks.items()
            for number, text in texts.items()
            if store in stores and any(query in text for query in queries)
            if wanted.files is None or (store, file) in wanted.files
        ]
        return found[: wanted.most]


class SimpleVectorStores:
    def __init__(
        self, store: Store, options: IndexerOptions | None = None, limits: VectorStoreLimits | None = None, **parts: Any
    ) -> None:
        """`parts`: files, texts and index, if they are those of another one."""
        self.store = store
        self.stored: FileStore = store.files
        self.files: SimpleFiles = parts.get("files") or SimpleFiles()
        self.texts: SimpleTexts = parts.get("texts") or SimpleTexts()
        self.index: SimpleIndex = parts.get("index") or SimpleIndex()
        limits = limits or VectorStoreLimits()
        self.stores = VectorStores(self.stored, self.files, self.index, limits, new_id)
        self.store_files = StoreFiles(self.stores, self.index, self.stored.database, new_id)
        name = new_id("indexer")
        self.indexer = Indexer(
            IndexerParts(
                name,
                self.stored,
                self.files,
                self.texts,
                self.index,
                options or IndexerOptions(retry_interval=0),
                limits.room,
            )
        )

    @classmethod
    def beside(cls, other: "SimpleVectorStores") -> "SimpleVectorStores":
        """Another gateway with the same files."""
        return cls(other.store, files=other.files, texts=other.texts, index=other.index)

    async def file(self, id: str, text: str = "some words", owner: str = "ada") -> str:
        await self.texts.set(**{id: text})
        return self.files.put(id, owner)

    async def content(self, store: str, file: str) -> list[str]:
        return [text async for some in await self.store_files.content("ada", store, file) for text in some]

    async def status(self, store: str, file: str, owner: str = "ada") -> str:
        return (await self.store_files.get(owner, store, file)).status

    async def ended(self, store: str, *files: str, owner: str = "ada") -> list[str]:
        """The statuses of files when none of them is in progress any more."""
        async with asyncio.timeout(20):
            while True:
                statuses = [await self.status(store, file, owner) for file in files]
                if "in_progress" not in statuses:
                    return statuses
                await asyncio.sleep(0.005)


@asynccontextmanager
async def indexed(stores: SimpleVectorStores) -> AsyncIterator[SimpleVectorStores]:
    stores.indexer.start()
    try:
        yield stores
    finally:
        await stores.indexer.close()


def unreadable(code: Any = "unsupported_file") -> UnreadableFile:
    return UnreadableFile(code, "It has no text.")
