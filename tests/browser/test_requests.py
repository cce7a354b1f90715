"""The list of requests, which changes while one looks at it."""

import asyncio
import re
from typing import Any

import msgspec
from playwright.async_api import Browser, Page, Route, expect
from support.browser import new_page, show_panes
from support.conversations import QUESTION, WEATHER, first_turn, number_of, second_turn
from support.engine import DONE, OWN_FIELDS, USAGE, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway, started
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
    await expect(page.locator("td[data-column=preview]")).to_have_text([f"continues #{number}", QUESTION])


async def test_the_list_shows_the_beginning_of_the_answer_its_calls_and_the_day(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    forecast = call("weather", '{"city": "Oslo"}') + call("weather", '{"city": "Rome"}', id="call_2", index=1)
    engine.will(text("<img src=x onerror=alert(1)> is *text*"), answer(forecast, finish="tool_calls"))
    await page.goto("/")
    await gateway.create("Write HTML")
    await gateway.create("How warm is it?", tools=[WEATHER])
    answers = page.locator("td[data-column=answer]")
    await expect(answers).to_have_text(["2 calls: weather ×2", "<img src=x onerror=alert(1)> is *text*"])
    assert await page.locator("tbody img").count() == 0
    today = await page.evaluate("new Date().toLocaleDateString('en-GB', {day: 'numeric', month: 'short'})")
    await expect(page.locator("td[data-column=at]").first).to_contain_text(re.compile(rf"^{today}, \d\d:\d\d:\d\d$"))


async def test_turns_of_one_conversation_are_one_row_until_it_is_unfolded(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.otherwise = lambda body: text("Yes")
    said = [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Yes"}, {"role": "user", "content": "Milk?"}]
    body = {"model": "mock", "max_tokens": 9}
    first = await gateway.create("One")
    await gateway.post({**body, "messages": said[:1]}, "/v1/messages")
    await gateway.create("Alone")
    await gateway.create("Two", previous_response_id=first["id"])
    await page.goto("/")
    visible = page.locator("tbody tr:visible td[data-column=preview]")
    await expect(visible).to_have_text(["Two", "Alone", "Tea? · messages"])
    # A turn that comes now is the newest of its conversation, which comes first.
    await gateway.post({**body, "messages": said}, "/v1/messages")
    await expect(visible).to_have_text(["Milk? · messages", "Two", "Alone"])
    turns = page.get_by_role("button", name="2 turns of one conversation")
    await expect(turns).to_have_count(2)
    await turns.last.click()
    await expect(turns.last).to_have_attribute("aria-expanded", "true")
    await expect(visible).to_have_text(["Milk? · messages", "Two", "One", "Alone"])
    # The keyboard goes where one sees it; an opened turn is found again.
    for _ in range(3):
        await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("#1")
    await page.keyboard.press("Escape")
    await expect(page.locator("tbody tr[data-number='1'] a")).to_be_focused()
    await turns.last.click()
    await expect(visible).to_have_text(["Milk? · messages", "Two", "Alone"])


async def test_the_focus_stays_at_a_row_whose_conversation_goes_on(page: Page, gateway: GatewayUnderTest) -> None:
    first = await gateway.create("One")
    await gateway.create("Alone")
    await page.goto("/")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await page.locator("tbody tr[data-number='1'] a").focus()
    second = await gateway.create("Two", previous_response_id=first["id"])
    await expect(page.locator("tbody tr[data-number='3'] a")).to_be_focused()
    await page.get_by_role("button", name="2 turns of one conversation").click()
    await page.locator("tbody tr[data-number='1'] a").focus()
    await gateway.create("Three", previous_response_id=second["id"])
    await expect(page.locator("tbody tr")).to_have_count(4)
    await expect(page.locator("tbody tr[data-number='1'] a")).to_be_focused()


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


async def test_how_far_a_long_prompt_is_read_is_seen_in_the_list_the_request_and_the_playground(browser: Browser) -> None:
    go_on = asyncio.Event()

    async def reading(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": None}, prompt_progress={"total": 4, "processed": 1}))
        await go_on.wait()
        await write(text("Done"))

    mock = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    mock.will(reading)
    async with started(mock), running_gateway(mock) as gateway, new_page(browser, gateway.url) as page:
        await page.goto("/#/playground")
        await expect(page.locator("#live")).to_have_text("live")
        await page.get_by_label("Message").fill("word " * 2_000)
        await page.get_by_label("Message").press("Enter")
        await expect(page.locator(".answer-foot")).to_have_text("Reading the prompt: 25 %")
        await page.keyboard.press("Escape")
        await page.keyboard.press("1")
        status = page.locator("tbody tr [data-column=status]")
        await expect(status).to_have_text("reading 25 %")
        await page.locator("tbody tr a").click()
        await expect(page.locator(".request-head .status")).to_have_text("reading 25 %")
        await page.keyboard.press("Escape")
        go_on.set()
        await expect(status).to_have_text("completed")
