"""The playground: a conversation that streams."""

import asyncio

import msgspec
from playwright.async_api import Page, expect
from support.conversations import PIECES, RESULT, THOUGHT, WEATHER
from support.engine import DONE, USAGE, MockEngine, Refusal, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest


async def say(page: Page, words: str) -> None:
    await page.get_by_label("Message").fill(words)
    await page.get_by_label("Message").press("Enter")


async def test_text_and_reasoning_stream_in(page: Page, engine: MockEngine) -> None:
    steps = [asyncio.Event(), asyncio.Event()]

    async def slow(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": None}) + chunk({"reasoning_content": THOUGHT}))
        await steps[0].wait()
        await write(chunk({"content": "Hel"}))
        await steps[1].wait()
        await write(chunk({"content": "lo"}) + chunk(finish="stop") + USAGE + DONE)

    engine.will(slow)
    await page.goto("/#/playground")
    await say(page, "Hi")
    await expect(page.locator(".turns .card[data-kind=thought] pre")).to_have_text(THOUGHT)
    steps[0].set()
    said = page.locator(".turns .card[data-kind=assistant] pre")
    await expect(said).to_have_text("Hel")
    await expect(page.get_by_role("button", name="Stop")).to_be_enabled()
    steps[1].set()
    await expect(said).to_have_text("Hello")
    await expect(page.locator(".answer-foot")).to_contain_text("12 → 5 tokens")
    await expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    await page.locator(".answer-foot").get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("mock")
    # The conversation is still there afterwards.
    await page.keyboard.press("2")
    await expect(said).to_have_text("Hello")


async def test_the_conversation_goes_on_and_a_new_one_begins_empty(page: Page, engine: MockEngine) -> None:
    await page.goto("/#/playground")
    foot = page.locator(".answer-foot")
    for turn, words in enumerate(("One", "Two"), start=1):
        await say(page, words)
        await expect(foot.get_by_role("link")).to_have_count(turn)
    assert [message["content"] for message in engine.last["messages"] if message["role"] == "user"] == ["One", "Two"]
    await page.get_by_role("button", name="New conversation").click()
    await say(page, "Three")
    await expect(foot.get_by_role("link")).to_have_count(1)
    assert [message["content"] for message in engine.last["messages"] if message["role"] == "user"] == ["Three"]


async def test_the_options_are_sent(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.lists("mock", "other")
    await page.goto("/#/playground")
    await page.get_by_label("Instructions").fill("Be brief.")
    await page.get_by_label("Effort").select_option("low")
    await page.get_by_label("Max output tokens").fill("77")
    await page.get_by_label("Tools, as JSON").fill(msgspec.json.encode([WEATHER]).decode())
    await say(page, "Hi")
    await expect(page.locator(".answer-foot").get_by_role("link")).to_have_count(1)
    sent = (await gateway.get("/inspector/requests"))[1]["data"][0]["number"]
    body = (await gateway.get(f"/inspector/requests/{sent}"))[1]["client"]["body"]
    assert body == {
        "model": "mock",
        "input": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "instructions": "Be brief.",
        "reasoning": {"effort": "low"},
        "max_output_tokens": 77,
        "tools": [WEATHER],
    }


async def test_options_that_cannot_be_sent_are_named(page: Page, engine: MockEngine) -> None:
    await page.goto("/#/playground")
    await page.get_by_label("Tools, as JSON").fill("[{]")
    await say(page, "Hi")
    await expect(page.get_by_role("alert")).to_contain_text("The tools are not JSON")
    await page.get_by_label("Tools, as JSON").fill("")
    await page.get_by_label("Max output tokens").fill("many")
    await say(page, "Hi")
    await expect(page.get_by_role("alert")).to_contain_text("must be a whole number")
    assert engine.requests == []


async def test_the_result_of_a_call_is_typed_and_sent_back(page: Page, engine: MockEngine) -> None:
    engine.will(answer(call("weather", '{"city": "Oslo"}'), finish="tool_calls"), text(*PIECES))
    await page.goto("/#/playground")
    await page.get_by_label("Tools, as JSON").fill(msgspec.json.encode(WEATHER).decode())
    await say(page, "How warm is it?")
    await expect(page.locator(".card[data-kind=call]")).to_contain_text("weather")
    await page.get_by_label("Result of weather").fill(RESULT)
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".card[data-kind=assistant] pre")).to_have_text("".join(PIECES))
    assert engine.last["messages"][-1]["content"] == RESULT


async def test_stopping_an_answer_stops_the_engine(page: Page, engine: MockEngine) -> None:
    async def endless(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hel"}))
        await asyncio.Event().wait()

    engine.will(endless)
    await page.goto("/#/playground")
    await say(page, "Hi")
    await expect(page.locator(".card[data-kind=assistant] pre")).to_have_text("Hel")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator(".remark")).to_contain_text("Stopped")
    await asyncio.wait_for(engine.cancelled.wait(), 20)


async def test_an_error_of_the_engine_is_shown(page: Page, engine: MockEngine) -> None:
    async def breaks_off(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hel"}))
        await write(b'data: {"error": {"message": "out of memory", "code": 500}}\n\n')

    engine.will(breaks_off, Refusal(200, {}))
    await page.goto("/#/playground")
    await say(page, "Hi")
    await expect(page.locator(".remark.bad")).to_contain_text("out of memory")
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
