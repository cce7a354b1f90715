"""The list of requests, which changes while one looks at it."""

import asyncio
from typing import Any

import msgspec
from playwright.async_api import Page, Route, expect
from support.browser import show_panes
from support.conversations import QUESTION, first_turn, number_of, second_turn
from support.engine import DONE, USAGE, MockEngine, Refusal, Writer, chunk, text
from support.gateway import GatewayUnderTest
from support.sockets import connected

MOST_ROWS = 100


async def test_a_request_appears_while_it_runs_and_its_numbers_follow(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hel"}))
        await go_on.wait()
        await write(chunk({"content": "lo"}) + chunk(finish="stop") + USAGE + DONE)

    await page.goto("/")
    await expect(page.get_by_role("heading", name="No request yet")).to_be_visible()
    await expect(page.locator("#live")).to_have_text("live")
    engine.will(slow)
    response = asyncio.create_task(gateway.create("Say hello"))
    row = page.locator("tbody tr")
    await expect(row.locator("[data-column=status]")).to_have_text("running")
    await expect(row.locator("[data-column=model]")).to_have_text("mock")
    await expect(row.locator("[data-column=engine]")).to_have_text(engine.url.removeprefix("http://"))
    go_on.set()
    await response
    await expect(row.locator("[data-column=status]")).to_have_text("completed")
    assert await row.locator("[data-column=in]").text_content() == "12"
    assert await row.locator("[data-column=out]").text_content() == "5"
    await expect(row.locator("[data-column=preview]")).to_have_text("Say hello")
    for measured in ("first", "seconds"):
        assert "s" in (await row.locator(f"[data-column={measured}]").text_content() or "")


async def test_a_request_without_words_of_the_user_says_what_it_continues(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await first_turn(gateway, engine)
    await second_turn(gateway, engine, first)
    await page.goto("/")
    number = await number_of(gateway, first)
    await expect(page.locator("td[data-column=preview]")).to_have_text([f"continues #{number}", f"{QUESTION} · 1 call"])


async def test_failed_and_refused_requests_are_in_the_list_with_their_reason(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    await page.goto("/")
    engine.will(Refusal(500, {"error": {"message": "out of memory"}}))
    assert (await gateway.post({"model": "mock", "input": "Hi"}))[0] >= 500
    assert (await gateway.post({"model": "mock", "input": "Hi", "tool_choice": "sometimes"}))[0] == 400
    await gateway.create("Fine")
    await expect(page.locator("tbody tr")).to_have_count(3)
    await page.get_by_role("button", name="Failed").click()
    await expect(page.locator("tbody tr")).to_have_count(2)
    await expect(page.locator("tbody tr[data-status=refused] [data-column=preview]")).to_contain_text("tool_choice")


async def test_the_search_finds_rows_and_new_ones_only_appear_if_they_match(page: Page, gateway: GatewayUnderTest) -> None:
    for words in ("a poem about trains", "a recipe"):
        await gateway.create(words)
    await page.goto("/")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await page.keyboard.press("/")
    await page.keyboard.type("TRAINS")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await gateway.create("another recipe")
    await gateway.create("two trains")
    previews = page.locator("[data-column=preview]").and_(page.locator("td"))
    await expect(previews).to_have_text(["two trains", "a poem about trains"])


async def test_the_list_stays_short_and_older_requests_are_a_page_away(page: Page, gateway: GatewayUnderTest) -> None:
    for at in range(MOST_ROWS - 2):
        await gateway.create(f"number {at}")
    await page.goto("/")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(MOST_ROWS - 2)
    for at in range(5):
        await gateway.create(f"later {at}")
    await expect(page.locator("td[data-column=preview]").first).to_have_text("later 4")
    assert await rows.count() == MOST_ROWS
    await page.get_by_role("button", name="Older").click()
    await expect(rows).to_have_count(3)
    await expect(page.locator("td[data-column=preview]").last).to_have_text("number 0")
    await gateway.create("newest of all")
    await page.get_by_role("button", name="Newest (1 more)").click()
    await expect(page.locator("td[data-column=preview]").first).to_have_text("newest of all")


async def test_the_list_is_read_again_after_the_connection_was_lost(page: Page, gateway: GatewayUnderTest) -> None:
    """The first stream ends at once; what happened before the next one is shown too."""
    connections = 0

    async def lose_the_first(route: Route) -> None:
        nonlocal connections
        connections += 1
        if connections > 1:
            await route.continue_()
            return
        await gateway.create("while nobody was listening")
        await route.fulfill(content_type="text/event-stream", body=": hello\n\n")

    await page.route("**/inspector/live", lose_the_first)
    await page.route("**/inspector/requests*", first_answers_nothing())
    await page.goto("/")
    await expect(page.locator("td[data-column=preview]")).to_have_text("while nobody was listening")
    assert connections == 2


def first_answers_nothing() -> Any:
    asked = False

    async def answer(route: Route) -> None:
        nonlocal asked
        if asked:
            await route.continue_()
            return
        asked = True
        await route.fulfill(content_type="application/json", body=msgspec.json.encode({"data": [], "has_more": False}))

    return answer


async def test_everything_is_forgotten_only_after_a_question(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("one"))
    await gateway.create("Hi")
    await page.goto("/")
    await page.get_by_role("button", name="Forget all").click()
    await page.get_by_role("button", name="Keep").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("button", name="Forget all").click()
    await page.get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No request yet")).to_be_visible()
    assert (await gateway.get("/inspector/requests"))[1]["data"] == []


async def test_what_codex_sends_ahead_is_shown_as_such_and_its_metadata_is_folded(
    page: Page, gateway: GatewayUnderTest
) -> None:
    async with connected(gateway) as socket:
        await socket.create(
            [{"role": "developer", "content": "Be brief."}], generate=False, client_metadata={"thread_id": "t-1"}
        )
    await page.goto("/")
    await expect(page.locator("tbody tr [data-column=preview]")).to_have_text("no engine was asked · websocket")
    await page.locator("tbody tr a").click()
    await show_panes(page)
    client = page.locator(".pane[data-name=client]")
    await expect(client.locator("dt", has_text="client_metadata")).to_have_count(0)
    await client.locator("summary", has_text="client_metadata").click()
    await expect(client.locator("details[open]")).to_contain_text("t-1")
