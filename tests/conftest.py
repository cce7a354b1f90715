"""A strict engine, and a gateway in front of it, for every test that wants them."""

from collections.abc import AsyncIterator

import pytest_asyncio
from hypothesis import HealthCheck, settings
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway

# Machines differ in speed; no test depends on timing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("default")


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[MockEngine]:
    mock = MockEngine()
    await mock.start()
    yield mock
    await mock.stop()


@pytest_asyncio.fixture
async def gateway(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine) as running:
        yield running
