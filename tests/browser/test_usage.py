"""The view of what the keys have used."""

import time

from playwright.async_api import Browser, expect
from support.browser import new_page
from support.engine import MockEngine
from support.gateway import running_gateway, started

from antiphon.settings.tables import PriceSettings, UsageSettings
from antiphon.store.account_records import DAY, Counts, UsageEntry, UsageKind

TODAY = int(time.time()) // DAY * DAY
PRICES = UsageSettings(currency="eur", prices={"m": PriceSettings(input=2.0)})


async def test_usage_is_a_chart_of_days_and_a_table_of_keys(browser: Browser) -> None:
    engine = MockEngine()
    async with (
        started(engine),
        running_gateway(engine, keys={"ada": ("a",)}, admin_key=("boss",), usage=PRICES) as gateway,
        new_page(browser, gateway.url, expects=(401,)) as page,
    ):
        await gateway.gateway.store.accounts.add_usage(
            [
                UsageEntry("1", TODAY - DAY, UsageKind("ada", "m", "http"), Counts(3, 1, 1_000_000, 5, 200_000, 6, 2)),
                UsageEntry("2", TODAY, UsageKind("bob <b>", "m", "http"), Counts(1, 0, 10, 0, 5)),
                UsageEntry("3", TODAY - 20 * DAY, UsageKind("eve", "m", "http"), Counts(1)),
            ]
        )
        await page.goto("/#/usage")
        await page.get_by_role("textbox", name="Key").fill("boss")
        await page.keyboard.press("Enter")
        chart = page.get_by_role("img", name="Tokens of each day, by key: 1,200,015 tokens in all")
        await expect(chart).to_be_visible()
        await expect(chart.locator("g.day")).to_have_count(7)
        await expect(chart.locator("rect")).to_have_count(2)
        await expect(page.locator("tbody tr")).to_have_count(2)
        await expect(page.locator("tbody tr").first.locator("td")).to_have_text(
            ["ada", "m", "3", "1", "1,000,000", "5", "200,000", "6", "2", "2.0000 eur"]
        )
        await expect(page.locator("tbody tr").nth(1)).to_contain_text("bob <b>")
        await page.get_by_role("button", name="31 days").click()
        await expect(chart.locator("g.day")).to_have_count(31)
        await expect(page.get_by_role("list", name="Keys").locator("li")).to_have_text(["ada", "bob <b>", "eve"])
        # Another key sees its own.
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("textbox", name="Key").fill("a")
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_it_says_that_nothing_was_used(browser: Browser) -> None:
    engine = MockEngine()
    async with started(engine), running_gateway(engine) as gateway, new_page(browser, gateway.url) as page:
        await page.goto("/#/usage")
        await expect(page.get_by_text("Nothing was used in this time.")).to_be_visible()
