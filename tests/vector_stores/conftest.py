"""Vector stores beside every kind of store."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.postgres import PostgresServer
from support.stores import Clock
from support.vector_stores import SimpleVectorStores, indexed

from antiphon.store import Store, open_store


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        with server.shared_database() as database:
            yield database
    else:
        yield f"sqlite:{tmp_path / 'responses.db'}" if request.param == "sqlite" else "memory:"


@pytest_asyncio.fixture
async def store(url: str, clock: Clock) -> AsyncIterator[Store]:
    async with open_store(url, clock) as opened:
        yield opened


@pytest_asyncio.fixture
async def simple(store: Store) -> SimpleVectorStores:
    """Nothing is indexed."""
    return SimpleVectorStores(store)


@pytest_asyncio.fixture
async def working(simple: SimpleVectorStores) -> AsyncIterator[SimpleVectorStores]:
    async with indexed(simple):
        yield simple
