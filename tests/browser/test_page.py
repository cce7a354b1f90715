"""The page as a whole: keys, themes, sizes, people who use it without eyes or mouse, and texts that want to be code."""

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import PHONE, WIDE, Theme, contents_width, faults_for_some_people, new_page, show_panes
from support.conversations import first_turn, number_of, second_turn
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway, started

VIEWS = ["requests", "playground", "engines", "stored", "usage"]


# ---- the keyboard ----------------------------------------------------------------------------------------------------


async def test_requests_are_opened_and_closed_by_the_keyboard(page: Page, gateway: GatewayUnderTest) -> None:
    for words in ("one", "two", "three"):
        await gateway.create(words)
    await page.goto("/")
    await expect(page.locator("tbody tr")).to_have_count(3)
    links = page.locator("tbody a")
    await page.keyboard.press("j")
    await expect(links.nth(0)).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await expect(links.nth(1)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Conversation")).to_contain_text("two")
    for _ in range(3):
        await page.keyboard.press("j")
    await expect(page.locator(".event[aria-current]")).to_be_focused()
    await expect(page.get_by_role("region", name="The chosen event").get_by_role("heading").first).to_contain_text("response.")
    await page.keyboard.press("Escape")
    await expect(links.nth(1)).to_be_focused()


async def test_a_row_of_deltas_is_unfolded_by_enter(page: Page, gateway: GatewayUnderTest) -> None:
    events = await gateway.stream("Hi")
    await page.goto(f"/#/requests/{await number_of(gateway, events)}")
    await show_panes(page)
    folded = page.locator(".event[aria-expanded]").first
    await expect(folded).to_be_visible()
    while not await folded.evaluate("row => row === document.activeElement"):
        await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator(".event[aria-expanded=true]")).to_be_focused()
    await page.keyboard.press("j")
    await expect(page.locator(".event.inner").first).to_be_focused()


async def test_numbers_go_to_the_views_and_a_question_mark_lists_the_keys(page: Page) -> None:
    await page.goto("/")
    await expect(page.locator("nav [aria-current=page]")).to_have_text("Requests")
    for key, title in (("2", "Playground"), ("3", "Engines"), ("1", "Requests")):
        await page.keyboard.press(key)
        await expect(page.locator("nav [aria-current=page]")).to_have_text(title)
        await expect(page).to_have_title(f"{title} · Antiphon")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("2?/")  # keys are letters while somebody types
    await expect(page.get_by_role("searchbox")).to_have_value("2?/")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("searchbox")).not_to_be_focused()


# ---- themes, sizes, people -------------------------------------------------------------------------------------------

LIGHTNESS = (
    "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).reduce((sum, each) => sum + Number(each), 0)"
)


@pytest.mark.parametrize(("theme", "other"), [("light", "Dark"), ("dark", "Light")])
async def test_the_theme_follows_the_system_and_the_switch(
    browser: Browser, gateway: GatewayUnderTest, theme: Theme, other: str
) -> None:
    async with new_page(browser, gateway.url, theme=theme) as page:
        await page.goto("/")
        before = await page.evaluate(LIGHTNESS)
        assert (before > 600) == (theme == "light")
        await page.get_by_role("button", name=f"{other} theme").click()
        assert (await page.evaluate(LIGHTNESS) > 600) != (theme == "light")
        await page.reload()  # this tab remembers it
        assert (await page.evaluate(LIGHTNESS) > 600) != (theme == "light")
        await page.keyboard.press("t")
        assert await page.evaluate(LIGHTNESS) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
async def test_nobody_is_kept_out_of_any_view(
    browser: Browser, gateway: GatewayUnderTest, engine: MockEngine, theme: Theme, size: tuple[int, int]
) -> None:
    """What axe-core calls serious, and contents wider than the window."""
    await gateway.post({"model": "mock", "input": "Hi", "tool_choice": "sometimes"})
    first = await first_turn(gateway, engine, instructions="Today is 2026-11-15.")
    second = await second_turn(gateway, engine, first, instructions="Today is 2026-11-16.")
    number = await number_of(gateway, second)
    async with new_page(browser, gateway.url, theme=theme, size=size, expects=(404,)) as page:
        found = {}
        for view in [
            *VIEWS,
            f"requests/{number}",
            f"requests/{number - 2}",
            f"stored/responses/{second[-1]['response']['id']}",
        ]:
            await page.goto(f"/#/{view}")
            await expect(page.get_by_role("heading", level=1)).to_have_count(1)
            await page.wait_for_load_state()
            found[view] = await faults_for_some_people(page)
            assert await contents_width(page) <= size[0], view
            if view == f"requests/{number}":
                await page.keyboard.press("j")
                found["panes"] = await faults_for_some_people(page)
                assert await contents_width(page) <= size[0]
        await page.keyboard.press("?")
        found["keys"] = await faults_for_some_people(page)
        assert {view: faults for view, faults in found.items() if faults} == {}


async def test_on_a_phone_one_pane_is_shown_at_a_time(browser: Browser, gateway: GatewayUnderTest) -> None:
    events = await gateway.stream("Hi")
    async with new_page(browser, gateway.url, size=PHONE) as page:
        await page.goto(f"/#/requests/{await number_of(gateway, events)}")
        for name, title in (("client", "Client sent"), ("engine", "Engine got"), ("events", "Events")):
            await page.locator(".form-switch").get_by_role("button", name=title).click()
            await expect(page.locator(".pane:visible")).to_have_count(1)
            await expect(page.locator(f".pane[data-name={name}]")).to_be_visible()


# ---- texts that want to be code --------------------------------------------------------------------------------------

EVIL = '<img src=x onerror="window.owned = 1"><script>window.owned = 2</script>'


async def test_nothing_that_anybody_wrote_becomes_part_of_the_page(browser: Browser) -> None:
    """In a prompt, the name of a model, a tool, its result, an answer, an error, a stored response."""
    engine = MockEngine()
    engine.lists(EVIL)
    async with started(engine), running_gateway(engine) as gateway, new_page(browser, gateway.url, expects=(404,)) as page:
        engine.otherwise = lambda body: text(EVIL, EVIL)
        tool = {"type": "function", "name": "weather", "description": EVIL, "parameters": {"type": "object", "title": EVIL}}
        events = await gateway.stream(EVIL, model=EVIL, tools=[tool], instructions=EVIL, metadata={"evil": EVIL[:60]})
        refused = {"model": EVIL, "input": "Hi", "tools": [{"type": "function", "name": EVIL}], "tool_choice": EVIL}
        assert (await gateway.post(refused))[0] == 400
        number = await number_of(gateway, events)
        id = events[-1]["response"]["id"]
        for view in [*VIEWS, f"requests/{number}", f"requests/{number + 1}", f"stored/responses/{id}"]:
            await page.goto(f"/#/{view}")
            await expect(page.get_by_role("heading", level=1)).to_have_count(1)
            for _ in range(3):  # what is folded is made when it is opened
                await page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
            if view.startswith("requests/"):
                await page.keyboard.press("j")
            if view == "playground":
                await page.get_by_label("Message").fill(EVIL)
                await page.get_by_label("Message").press("Enter")
                await expect(page.locator(".card[data-kind=assistant] pre")).to_have_text(EVIL + EVIL)
            assert await page.locator("main img, main script").count() == 0, view
            assert await page.evaluate("window.owned ?? null") is None, view
        await page.goto(f"/#/requests/{number}")
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"#{number} {EVIL}")


async def test_scripts_and_styles_come_from_files_only(gateway: GatewayUnderTest) -> None:
    """The policy of the page, which the browser enforces: whatever got into the page would not run."""
    async with gateway.client.get(gateway.url + "/") as answer:
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        page = await answer.text()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert "<style" not in page
    assert " style=" not in page
    assert page.count("<script") == page.count('<script type="module" src="inspector/page/')


async def test_the_page_keeps_nothing_beyond_the_tab(page: Page) -> None:
    await page.goto("/")
    await page.keyboard.press("t")
    kept = await page.evaluate("({local: {...localStorage}, session: Object.keys(sessionStorage), cookies: document.cookie})")
    assert kept == {"local": {}, "session": ["antiphon-theme"], "cookies": ""}
