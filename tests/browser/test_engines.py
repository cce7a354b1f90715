"""The view of the engines."""

import asyncio

from playwright.async_api import Browser, Page, expect
from support.browser import new_page
from support.engine import OWN_FIELDS, MockEngine, Writer, chunk
from support.gateway import GatewayUnderTest, running_gateway, started


async def test_engines_show_their_health_their_models_and_what_is_known(browser: Browser) -> None:
    engine = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    async with started(engine), running_gateway(engine) as gateway, new_page(browser, gateway.url) as page:
        await gateway.create("Hi")
        known = (await gateway.get("/inspector/engines"))[1]["engines"][0]["models"][0]["facts"]
        await page.goto("/#/engines")
        section = page.locator("section.engine").first
        await expect(section.get_by_role("heading", level=2)).to_have_text(engine.url.removeprefix("http://"))
        await expect(section.locator(".status")).to_have_text("ready")
        await expect(section.get_by_role("heading", level=3)).to_have_text("mock")
        await section.locator("summary").click()
        await expect(section.locator("tbody tr")).to_have_count(len(known))
        for shown in (known[0]["name"], known[0]["source"], known[0]["meaning"]):
            await expect(section.locator("tbody tr").first).to_contain_text(shown)


async def test_a_running_response_is_listed_while_it_runs(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": "Hel"}))
        await go_on.wait()
        await write(chunk({"content": "lo"}, finish="stop"))

    engine.will(slow)
    await page.goto("/#/engines")
    await expect(page.get_by_text("No response is running.")).to_be_visible()
    response = asyncio.create_task(gateway.stream("Hi"))
    await expect(page.get_by_role("region", name="Running responses")).to_contain_text("mock")
    go_on.set()
    await response
    await expect(page.get_by_text("No response is running.")).to_be_visible()


async def test_an_engine_that_went_away_is_shown_with_the_reason(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    await gateway.create("Hi")
    await engine.stop()
    await gateway.post({"model": "mock", "input": "Hi"})
    await page.goto("/#/engines")
    await expect(page.locator("section.engine .status").first).to_have_attribute("data-status", "unavailable")
