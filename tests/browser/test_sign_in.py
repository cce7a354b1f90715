"""Where keys are set, the page asks for one."""

import re
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from support.browser import faults_for_some_people, new_page
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway

KEYS = {"ada": ("ada-key",), "bob": ("bob-key",)}


@pytest_asyncio.fixture(loop_scope="session")
async def locked(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    """Ada and Bob have each made a request."""
    async with running_gateway(engine, keys=KEYS, admin_key=("boss",)) as gateway:
        for name in KEYS:
            headers = {"Authorization": f"Bearer {name}-key"}
            status, _ = await gateway.post({"model": "mock", "input": f"from {name}"}, headers=headers)
            assert status == 200
        yield gateway


async def sign_in(page: Page, key: str) -> None:
    await page.get_by_role("textbox", name="Key").fill(key)
    await page.get_by_role("textbox", name="Key").press("Enter")


async def test_a_key_shows_its_requests_and_the_admin_key_all(browser: Browser, locked: GatewayUnderTest) -> None:
    async with new_page(browser, locked.url, expects=(401,)) as page:
        await page.goto("/")
        previews = page.locator("td[data-column=preview]")
        for key, seen in (("ada-key", ["from ada"]), ("boss", ["from bob", "from ada"])):
            await sign_in(page, key)
            await expect(previews).to_have_text(seen)
            await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert await page.evaluate("Object.values(sessionStorage)") == []


async def test_a_wrong_key_is_refused_and_not_kept(browser: Browser, locked: GatewayUnderTest) -> None:
    async with new_page(browser, locked.url, expects=(401,)) as page:
        await page.goto("/")
        await sign_in(page, "wrong")
        await expect(page.get_by_role("alert")).to_contain_text("does not know this key")
        assert await page.evaluate("Object.values(sessionStorage)") == []
        assert await faults_for_some_people(page) == []


async def test_a_reload_keeps_the_key_and_another_tab_does_not_have_it(browser: Browser, locked: GatewayUnderTest) -> None:
    async with new_page(browser, locked.url, expects=(401,)) as page:
        await page.goto("/#/requests/1")
        await sign_in(page, "ada-key")
        await expect(page.locator(".pane[data-name=client]")).to_contain_text("from ada")  # where the address leads
        await page.reload()
        await expect(page.locator(".pane[data-name=client]")).to_contain_text("from ada")
    async with new_page(browser, locked.url, expects=(401,)) as page:
        await page.goto("/")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_the_playground_uses_the_key(browser: Browser, locked: GatewayUnderTest, engine: MockEngine) -> None:
    async with new_page(browser, locked.url, expects=(401,)) as page:
        await page.goto("/#/playground")
        await sign_in(page, "bob-key")
        await page.get_by_label("Message").fill("Hi")
        await page.get_by_label("Message").press("Enter")
        await expect(page.locator(".card[data-kind=assistant] pre")).to_have_text("Hello world")


async def test_a_key_without_a_name_is_shown_by_a_few_letters(browser: Browser, engine: MockEngine) -> None:
    async with (
        running_gateway(engine, api_key=("secret",)) as gateway,
        new_page(browser, gateway.url, expects=(401,)) as page,
    ):
        await page.goto("/")
        await sign_in(page, "secret")
        await expect(page.locator("#recording")).to_have_text(re.compile(r"^unnamed-[0-9a-f]{6} · "))
        sample = page.locator("pre")  # it would get a 401 without a key
        await expect(sample).to_contain_text('-H "Authorization: Bearer $OPENAI_API_KEY"')
