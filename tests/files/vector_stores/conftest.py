"""Vector stores beside every kind of store."""

from collections.abc import AsyncIterator

import pytest_asyncio
from support.vector_stores import SimpleVectorStores, indexed

from antiphon.store import Store


@pytest_asyncio.fixture
async def simple(store: Store) -> SimpleVectorStores:
    """Nothing is indexed."""
    return SimpleVectorStores(store)


@pytest_asyncio.fixture
async def working(simple: SimpleVectorStores) -> AsyncIterator[SimpleVectorStores]:
    async with indexed(simple):
        yield simple
