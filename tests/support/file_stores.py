"""Vector stores that are only a list of passages, and a gateway that searches them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from antiphon.app.parts import Extensions
from antiphon.errors import ApiError, NotFound
from antiphon.files.vector_stores.search.found import SearchOptions, SearchRow
from antiphon.tools.file_search.runner import FileSearchRunner, StoreBackend
from support.engine import MockEngine
from support.gateway import CHECKER, GatewayUnderTest, running_gateway

ROWS = [
    SearchRow("file-rome", "rome.pdf", 0.9, {"year": 2026}, "Rome is the capital of Italy [12]."),
    SearchRow("file-tiber", "tiber.txt", 0.5, None, "The Tiber flows through Rome."),
]


class FileStores:
    """Every owner has the stores vs_1 and vs_2."""

    def __init__(self) -> None:
        self.ids = {"vs_1", "vs_2"}
        self.rows: list[SearchRow] = list(ROWS)
        self.checked: list[tuple[str, list[str]]] = []
        self.searched: list[tuple[str, list[str], list[str], SearchOptions]] = []
        self.failure: Exception | None = None
        self.refusal: ApiError | None = None

    async def check(self, owner: str, store_ids: Sequence[str]) -> None:
        self.checked.append((owner, list(store_ids)))
        if self.refusal is not None:
            raise self.refusal
        for id in store_ids:
            if id not in self.ids:
                raise NotFound(f"Vector store with id '{id}' not found.")

    async def search(
        self, owner: str, store_ids: Sequence[str], queries: Sequence[str], options: SearchOptions
    ) -> list[SearchRow]:
        self.searched.append((owner, list(store_ids), list(queries), options))
        if self.failure is not None:
            raise self.failure
        return self.rows[: options.most]


@asynccontextmanager
async def searching_files(engine: MockEngine, stores: FileStores, **settings: Any) -> AsyncIterator[GatewayUnderTest]:
    tools: Any = {"file_search": FileSearchRunner(StoreBackend(stores))}
    async with running_gateway(engine, extensions=Extensions(tools=tools, checker=CHECKER), **settings) as gateway:
        yield gateway
