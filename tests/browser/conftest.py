"""One Chromium for all tests, and for each test a gateway, its engine and a fresh page."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from support.browser import new_page
from support.chromium import FOLDER, chromium
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway, started

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

# `make test-browser` installs it; other tests do without.
collect_ignore_glob = [] if find_spec("playwright") else ["*.py"]

# Milliseconds, for machines that do much else.
PATIENCE = 20_000
# The browser lives in the loop of the session, so everything here does.
IN_SESSION = pytest.mark.asyncio(loop_scope="session")
in_session = pytest_asyncio.fixture(loop_scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(f"{FOLDER}{os.sep}"):
            item.add_marker(pytest.mark.browser)
            item.add_marker(IN_SESSION, append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright, expect

    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        # Root has no sandbox; the only page is ours.
        running = await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield running
        await running.close()


@in_session
async def engine() -> AsyncIterator[MockEngine]:
    async with started(MockEngine()) as mock:
        yield mock


@in_session
async def gateway(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine) as running:
        yield running


@in_session
async def page(browser: Browser, gateway: GatewayUnderTest) -> AsyncIterator[Page]:
    async with new_page(browser, gateway.url) as opened:
        yield opened
