"""What searches, and what there is to find."""

from collections.abc import AsyncIterator

import pytest_asyncio
from support.search_services import SearchServices
from support.web_site import WebSite


@pytest_asyncio.fixture
async def services() -> AsyncIterator[SearchServices]:
    async with SearchServices() as running:
        yield running


@pytest_asyncio.fixture
async def site() -> AsyncIterator[WebSite]:
    async with WebSite() as running:
        yield running
