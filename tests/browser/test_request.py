"""One request, opened: what the client sent, what the engine got, and the events with their chunks."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
from openai.resources.responses import Responses
from playwright.async_api import Browser, Locator, Page, expect
from support.browser import new_page, show_panes
from support.commands import ANTIPHON
from support.conversations import PIECES, QUESTION, RESULT, THOUGHT, first_turn, number_of, second_turn
from support.engine import DONE, USAGE, MockEngine, Refusal, Writer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway


def pane(page: Page, name: str) -> Locator:
    return page.locator(f".pane[data-name={name}]")


async def opened(page: Page, gateway: GatewayUnderTest, events: list[dict[str, Any]]) -> int:
    number = await number_of(gateway, events)
    await page.goto(f"/#/requests/{number}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"#{number} mock")
    await show_panes(page)
    return number


async def sent(gateway: GatewayUnderTest, path: str, **body: Any) -> None:
    async with gateway.client.post(gateway.url + path, json={"model": "mock", "stream": True, **body}) as answered:
        await answered.read()


# ---- the panes -------------------------------------------------------------------------------------------------------


async def test_three_panes_show_both_sides_of_a_tool_conversation(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await first_turn(gateway, engine)
    second = await second_turn(gateway, engine, first)
    await opened(page, gateway, second)
    client = pane(page, "client")
    await expect(client.locator(".fields")).to_contain_text(first[-1]["response"]["id"])
    await expect(client.locator("details", has_text="history")).to_contain_text("items from the store")
    result = client.locator(".card[data-kind=result]")
    await expect(result).to_contain_text(RESULT)
    assert await result.locator("details").get_attribute("open") is None  # folded

    got = pane(page, "engine")
    await got.get_by_text("unchanged").click()
    cards = got.locator("article.card:not(article.card article.card)")
    await expect(cards).to_have_count(3)
    assert [await card.get_attribute("data-kind") for card in await cards.all()] == ["user", "assistant", "result"]
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]
    await expect(cards.nth(0)).to_contain_text(QUESTION)
    await expect(cards.nth(1).locator("article.card")).to_contain_text("weather")
    await expect(cards.nth(2)).to_contain_text(RESULT)

    assert await event_types(page) == [event["type"].removeprefix("response.") for event in second]


async def test_messages_of_other_protocols_are_shown_as_such(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Sunny."), text("Hello"))
    used = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
    thought = {"type": "thinking", "thinking": "I ask.", "signature": ""}
    messages = [
        {"role": "user", "content": "The weather?"},
        {"role": "assistant", "content": [thought, used]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]},
    ]
    await sent(gateway, "/v1/messages", max_tokens=9, system="Be brief.", messages=messages)
    await sent(gateway, "/v1/chat/completions", messages=[{"role": "user", "content": "Passed on"}])
    await page.goto("/#/requests/1")
    await show_panes(page)
    client = pane(page, "client")
    cards = client.locator("article.card:not(article.card article.card)")
    await expect(cards).to_have_count(3)
    assert [await card.get_attribute("data-kind") for card in await cards.all()] == ["user", "assistant", "user"]
    await expect(cards.nth(1).locator("details").first).to_contain_text("I ask.")
    await expect(cards.nth(1).locator("article.card")).to_contain_text("weather")
    await expect(cards.nth(2).locator("article.card")).to_contain_text("sunny")
    await expect(client.get_by_text("Be brief.")).to_be_visible()
    await page.goto("/#/requests/2")
    await expect(pane(page, "engine")).to_contain_text("What the client sent, as it came")
    await expect(client.locator("article.card")).to_contain_text("Passed on")
    await page.goto("/#/requests")
    shown = page.locator("td[data-column=preview]")
    await expect(shown).to_have_text(["Passed on · chat/completions", "The weather? · messages"])


async def event_types(page: Page) -> list[str]:
    """Of all rows that are events, with those that were folded into one."""
    rows = pane(page, "events")
    for folded in await rows.locator(".event[aria-expanded=false]").all():
        await folded.click()
    events = rows.locator(".event[data-kind=event]:not([aria-expanded])")
    return [await row.get_attribute("data-type") or "" for row in await events.all()]


async def test_a_thought_is_folded_and_opens(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await first_turn(gateway, engine)
    second = await second_turn(gateway, engine, first)
    await opened(page, gateway, second)
    client = pane(page, "client")
    await client.locator("summary", has_text="history").click()
    thought = client.locator(".card[data-kind=thought] details")
    assert await thought.get_attribute("open") is None
    await thought.locator("summary").click()
    await expect(thought.locator("pre")).to_have_text(THOUGHT)


async def test_an_event_leads_to_its_chunk_and_the_chunk_back_to_its_events(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(text(*PIECES))
    await opened(page, gateway, await gateway.stream("Hi"))
    events = pane(page, "events")
    await events.locator(".event", has_text="output_text.delta ×3").click()
    await events.locator(".event.inner").nth(1).click()
    chosen = page.get_by_role("region", name="The chosen event")
    await expect(chosen.get_by_role("heading").first).to_have_text("response.output_text.delta")
    raw = msgspec.json.decode((await chosen.locator(".chunk pre").text_content() or "").removeprefix("data: "))
    assert raw["choices"][0]["delta"] == {"content": PIECES[1]}

    await chosen.get_by_role("button", name="chunk 3, which led to 1 event").click()
    await expect(events.locator(".event[aria-current]")).to_contain_text("3 °C")
    await expect(events.get_by_role("button", name="Chunks")).to_have_attribute("aria-pressed", "true")
    await chosen.get_by_role("button", name="output_text.delta").click()
    await expect(events.get_by_role("button", name="Events")).to_have_attribute("aria-pressed", "true")
    await expect(events.locator(".event[aria-current]")).to_contain_text("3 °C")


async def test_every_ask_has_a_tab(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    """The engine rejects a field, and is asked again without it."""
    engine.will(Refusal(400, {"error": {"message": "reasoning_effort is not supported", "code": 400}}), text("Hi"))
    await opened(page, gateway, await gateway.stream("Hi", reasoning={"effort": "low"}))
    asks = page.get_by_role("group", name="Ask").get_by_role("button")
    assert await asks.count() == len(engine.requests) == 2
    await expect(pane(page, "engine")).to_contain_text("The engine rejected it")
    await asks.nth(1).click()
    await expect(pane(page, "engine")).not_to_contain_text("The engine rejected it")


async def test_an_error_is_explained(page: Page, gateway: GatewayUnderTest) -> None:
    status, _ = await gateway.post({"model": "mock", "input": "Hi", "previous_response_id": "resp_gone"})
    assert status == 400
    await page.goto("/")
    await page.locator("tbody a").click()
    await show_panes(page)
    problem = page.locator(".remark.bad")
    await expect(problem).to_contain_text("previous_response_not_found")
    await expect(problem).to_contain_text("Send the whole history")
    await expect(pane(page, "engine")).to_contain_text("No engine was asked")


async def test_a_notice_is_explained(page: Page, gateway: GatewayUnderTest) -> None:
    events = await gateway.stream("Hi", favourite_colour="blue")
    await opened(page, gateway, events)
    await expect(page.locator(".remark.warn")).to_contain_text("favourite_colour")
    await expect(page.locator(".remark.warn p")).to_have_count(2)


# ---- the prompt cache ------------------------------------------------------------------------------------------------


async def test_no_break_of_the_cache_is_shown_where_the_prompt_only_grew(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await first_turn(gateway, engine, instructions="Be brief.")
    second = await second_turn(gateway, engine, first, instructions="Be brief.")
    number = await opened(page, gateway, second)
    await expect(page.locator(".change-line")).to_have_attribute("data-changed", "no")
    await expect(page.locator(".cache-break")).to_have_count(0)
    await expect(page.locator(".card[data-change=new]")).to_have_count(2)
    await page.locator(".actions").get_by_role("link", name="Previous turn").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"#{number - 1} mock")
    await expect(page.locator(".change-line")).to_have_count(0)  # it has no turn before


async def test_the_break_of_the_cache_is_shown_where_the_prompt_changed(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await first_turn(gateway, engine, instructions="Today is 2026-11-15.")
    second = await second_turn(gateway, engine, first, instructions="Today is 2026-11-16.")
    await opened(page, gateway, second)
    await expect(page.locator(".cache-break")).to_have_count(1)
    await expect(page.locator(".cache-break")).to_contain_text("messages[0].content")
    await expect(page.locator(".cache-break")).to_contain_text("date")
    # It stands right before the message that changed.
    await expect(page.locator(".cache-break + .card")).to_contain_text("Today is 2026-11-16.")
    await page.get_by_text("Before and now").click()
    difference = page.locator(".difference dd")
    await expect(difference).to_have_text(["Today is 2026-11-15.", "Today is 2026-11-16."])
    await expect(difference.locator("mark")).to_have_text(["5", "6"])
    await page.get_by_role("button", name="Show where").click()
    await expect(page.locator(".cache-break")).to_be_focused()
    await page.goto("/#/requests")
    await expect(page.locator("td[data-column=cached]").first).to_contain_text("≠")


async def test_a_break_of_the_cache_in_the_tools_stands_before_them(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await first_turn(gateway, engine)
    other = {"type": "function", "name": "clock", "description": "The time", "parameters": {"type": "object", "properties": {}}}
    second = await second_turn(gateway, engine, first, tools=[other])
    await opened(page, gateway, second)
    await expect(page.locator(".cache-break + .tools")).to_have_count(1)
    await expect(page.locator(".cache-break")).to_contain_text("clock")


# ---- taking it away --------------------------------------------------------------------------------------------------

HARD_TO_QUOTE = 'It\'s "quoted", $HOME, `ls`, \\n and\na new line, 3 °C'


async def copied(page: Page, gateway: GatewayUnderTest, name: str) -> str:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name=name).click()
    await expect(page.locator("#announcement")).to_contain_text("Copied")
    text: str = await page.evaluate("navigator.clipboard.readText()")
    return text


async def output_of(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, stderr=STDOUT, env={**os.environ, "OPENAI_API_KEY": "any"}
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_a_request_copied_as_curl_is_the_same_request(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await opened(page, gateway, await gateway.stream(HARD_TO_QUOTE, instructions=HARD_TO_QUOTE))
    command = await copied(page, gateway, "Copy as curl")
    assert "response.completed" in await output_of("sh", "-c", command)
    assert engine.requests[1] == engine.requests[0]


async def test_a_request_copied_as_python_is_the_same_request(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    fields = {"instructions": HARD_TO_QUOTE, "metadata": None, "store": False, "temperature": 0.5, "favourite_colour": "blue"}
    await opened(page, gateway, await gateway.stream(HARD_TO_QUOTE, **fields))
    code = await copied(page, gateway, "Copy as Python")
    assert "ResponseCompletedEvent" in await output_of(sys.executable, "-c", code)
    assert engine.requests[1] == engine.requests[0]


async def test_the_page_knows_the_parameters_of_the_sdk(page: Page, gateway: GatewayUnderTest) -> None:
    await page.goto("/")
    found = await page.evaluate(
        "import('/inspector/page/code_samples.js').then(({PARAMETERS}) => [[...PARAMETERS.create], [...PARAMETERS.compact]])"
    )
    not_fields = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
    for names, method in zip(found, ("create", "compact"), strict=True):
        assert set(names) == set(signature(getattr(Responses, method)).parameters) - not_fields


async def test_a_downloaded_recording_is_replayed(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path
) -> None:
    engine.will(text(*PIECES))
    await opened(page, gateway, await gateway.stream("Hi"))
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download recording").click()
    file = tmp_path / (await download.value).suggested_filename
    await (await download.value).save_as(file)
    replayed = await output_of(*ANTIPHON, "replay", str(file))
    assert "response.completed" in replayed
    assert PIECES[1] in replayed


async def test_without_bodies_nothing_can_be_taken_away(browser: Browser, engine: MockEngine) -> None:
    secret = "the secret plan"
    async with running_gateway(engine, inspector_bodies=False) as gateway, new_page(browser, gateway.url) as page:
        await opened(page, gateway, await gateway.stream(secret))
        await expect(page.locator(".remark")).to_contain_text("inspector_bodies")
        for name in ("Copy as curl", "Copy as Python", "Download recording"):
            await expect(page.get_by_role("button", name=name)).to_be_disabled()
        assert secret not in await page.content()


# ---- sizes -----------------------------------------------------------------------------------------------------------


async def test_a_text_of_a_megabyte_is_folded_and_shown_whole_on_demand(page: Page, gateway: GatewayUnderTest) -> None:
    long = "\n".join(f"{at:05} " + "a long text, " * 8 for at in range(9_200))
    assert len(long) > 1_000_000
    await opened(page, gateway, await gateway.stream(long))
    shown = pane(page, "engine").locator(".card[data-kind=user]")
    assert len(await shown.text_content() or "") < 5_000
    await shown.get_by_role("button", name="Show all").click()
    assert await shown.locator("pre").text_content() == long
    await shown.get_by_role("button", name="Show less").click()
    assert len(await shown.text_content() or "") < 5_000


async def test_a_stream_of_thousands_of_events_makes_few_rows(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(text(*(f" word{at}" for at in range(3_000))))
    await opened(page, gateway, await gateway.stream("Hi"))
    rows = pane(page, "events").locator(".event")
    assert await rows.count() < 20
    await rows.filter(has_text="output_text.delta ×3,000").click()
    assert await rows.count() == 300
    await pane(page, "events").get_by_role("button", name="Show more").click()
    assert await rows.count() == 600


# ---- a request that still runs ---------------------------------------------------------------------------------------


async def test_an_opened_request_that_ends_is_read_again(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hel"}))
        await go_on.wait()
        await write(chunk({"content": "lo"}) + chunk(finish="stop") + USAGE + DONE)

    engine.will(slow)
    response = asyncio.create_task(gateway.stream("Hi"))
    await page.goto("/")
    await page.locator("tbody a").click()
    await show_panes(page)
    await expect(page.locator(".request-head .status")).to_have_text("running")
    go_on.set()
    await response
    await expect(page.locator(".request-head .status")).to_have_text("completed")
    await expect(pane(page, "events").locator(".event[data-type=completed]")).to_have_count(1)


async def test_a_request_that_was_forgotten_says_so(browser: Browser, gateway: GatewayUnderTest) -> None:
    async with new_page(browser, gateway.url, expects=(404,)) as page:
        await page.goto("/#/requests/4711")
        await expect(page.locator(".empty")).to_contain_text("only the newest requests are kept")
