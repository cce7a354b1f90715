"""A page of the browser under test, and whoever watches that it makes no error and asks nobody but the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from support.chromium import axe

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page, Request

Theme = Literal["light", "dark"]
WIDE = (1440, 860)
PHONE = (320, 640)

# What nobody should have to live with. "moderate" and "minor" are advice.
SERIOUS = ("serious", "critical")


class Watch:
    """What a page did that it should not do."""

    def __init__(self, page: Page, url: str) -> None:
        self.problems: list[str] = []
        # Statuses that a test provokes: the browser writes them to the console.
        self.expected: set[int] = set()
        self._home = urlsplit(url).netloc
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"an error in the page: {error}"))
        page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        expected = any(f"status of {status}" in message.text for status in self.expected)
        if message.type in ("error", "warning") and not expected:
            self.problems.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("blob", "data") and parts.netloc != self._home:
            self.problems.append(f"a request to {request.url}")


@asynccontextmanager
async def new_page(
    browser: Browser, url: str, *, size: tuple[int, int] = WIDE, theme: Theme = "light", expects: tuple[int, ...] = ()
) -> AsyncIterator[Page]:
    """A page that nobody has used before. `/` is that of the gateway. It must make no error, but for the statuses expected."""
    context = await browser.new_context(base_url=url, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    page = await context.new_page()
    page.set_default_timeout(20_000)
    watch = Watch(page, url)
    watch.expected.update(expects)
    yield page
    await context.close()
    assert watch.problems == []


async def show_panes(page: Page) -> None:
    """Of an opened request, which shows its conversation first."""
    await page.get_by_role("button", name="Panes", exact=True).click()


async def faults_for_some_people(page: Page) -> list[str]:
    """What axe-core finds that is serious: too little contrast, fields without a name, …"""
    # The content security policy of the page lets no script in; the debugger of the browser may add one.
    await page.evaluate(f"{axe()}; undefined")
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {fault['help']}: {fault['nodes'][0]['html'][:200]} ({len(fault['nodes'])} places)"
        for fault in found["violations"]
        if fault["impact"] in SERIOUS
    ]


async def contents_width(page: Page) -> int:
    """Wider than the window: a phone would have to scroll sideways."""
    width: int = await page.evaluate("document.documentElement.scrollWidth")
    return width
