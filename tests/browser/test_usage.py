"""The view of what the keys have used."""

import time

import pytest
from playwright.async_api import Browser, expect
from support.browser import PHONE, Theme, contents_width, faults_for_some_people, new_page
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


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_many_keys_and_models_keep_nobody_out(browser: Browser, theme: Theme) -> None:
    """On a phone, where the table is wider than the window; with what axe-core calls serious."""
    engine = MockEngine()
    async with (
        started(engine),
        running_gateway(engine, admin_key=("boss",), usage=PRICES) as gateway,
        new_page(browser, gateway.url, theme=theme, size=PHONE, expects=(401,)) as page,
    ):
        kinds = [UsageKind(f"key-{at}", f"model-{at % 40}", "http") for at in range(600)]
        used = [UsageEntry(f"{at}", TODAY - at % 7 * DAY, kind, Counts(1, 0, 1000 - at)) for at, kind in enumerate(kinds)]
        await gateway.gateway.store.accounts.add_usage(used)
        await page.goto("/#/usage")
        await page.get_by_role("textbox", name="Key").fill("boss")
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody tr")).to_have_count(500)
        await expect(page.get_by_role("region", name="Keys and models")).to_contain_text("100 rows of less usage")
        shown = page.get_by_role("list", name="Keys").locator("li")
        await expect(shown).to_have_text(["key-0", "key-1", "key-2", "key-3", "key-4", "595 other keys"])
        assert await faults_for_some_people(page) == []
        assert await contents_width(page) <= PHONE[0]


async def test_it_says_that_nothing_was_used(browser: Browser) -> None:
    engine = MockEngine()
    async with started(engine), running_gateway(engine) as gateway, new_page(browser, gateway.url) as page:
        await page.goto("/#/usage")
        await expect(page.get_by_text("Nothing was used in this time.")).to_be_visible()
