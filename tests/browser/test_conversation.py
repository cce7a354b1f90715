"""One request, opened: its conversation as a person reads it."""

import asyncio
from base64 import b64decode
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from support.browser import PHONE, contents_width, faults_for_some_people, new_page, show_panes
from support.conversations import PIECES, QUESTION, RESULT, THOUGHT, WEATHER, first_turn, number_of, second_turn
from support.engine import DONE, USAGE, MockEngine, Writer, answer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway

# One white pixel.
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
)
EVIL = '<img src=x onerror="window.owned = 1">'
SHOW = """async (detail) => {
  const { conversation } = await import("/inspector/page/conversation.js");
  document.querySelector("main").replaceChildren(conversation(detail));
}"""


def talk(page: Page) -> Locator:
    return page.get_by_role("region", name="Conversation")


async def kinds(page: Page) -> list[str]:
    return [await each.get_attribute("data-kind") or "thought" for each in await talk(page).locator(".card, .thought").all()]


async def show(page: Page, *items: dict[str, Any], **members: Any) -> None:
    """A conversation whose answer has these items. Until the first view is there, it would take its place."""
    await page.goto("/")
    await expect(page.get_by_role("heading", name="No request yet")).to_be_visible()
    detail = {"row": {"status": "completed"}, "client": {"body": {"input": "Hi"}}, "history": [], "timeline": []}
    await page.evaluate(SHOW, {**detail, "response": {"output": items}, **members})


def said(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": annotations}]
    return {"type": "message", "role": "assistant", "content": content}


async def open_last(page: Page, gateway: GatewayUnderTest) -> None:
    number = (await gateway.get("/inspector/requests"))[1]["data"][0]["number"]
    await page.goto(f"/#/requests/{number}")
    await expect(talk(page).locator(".card")).not_to_have_count(0)


async def test_the_answer_is_shown_with_all_that_led_to_it(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    second = await second_turn(gateway, engine, await first_turn(gateway, engine, instructions="Be brief."))
    await page.goto(f"/#/requests/{await number_of(gateway, second)}")
    cards = talk(page).locator(".card")
    await expect(cards).to_have_count(3)
    assert await kinds(page) == ["user", "thought", "call", "assistant"]
    await expect(cards.nth(0)).to_contain_text(QUESTION)
    await expect(cards.nth(2)).to_contain_text("".join(PIECES))
    # The result is shown with its call, folded as the thought is.
    await expect(cards.nth(1)).to_contain_text("weather")
    assert await talk(page).locator("details[open]").count() == 0
    for folded, words in ((cards.nth(1).locator("details").nth(1), RESULT), (talk(page).locator(".thought details"), THOUGHT)):
        await folded.locator("summary").click()
        await expect(folded.locator("pre")).to_have_text(words)


USED = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
ASSISTANT = {
    "role": "assistant",
    "content": None,
    "reasoning_content": THOUGHT,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}],
}
REQUESTS: dict[str, dict[str, Any]] = {
    "responses": {
        "input": [
            {"role": "user", "content": QUESTION},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": THOUGHT}]},
            {"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call_output", "call_id": "c", "output": RESULT},
        ]
    },
    "messages": {
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": THOUGHT, "signature": ""}, USED]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": RESULT}]},
        ],
    },
    # A field that makes the gateway answer, in place of the engine alone.
    "chat/completions": {
        "store": True,
        "messages": [
            {"role": "user", "content": QUESTION},
            ASSISTANT,
            {"role": "tool", "tool_call_id": "c", "content": RESULT},
        ],
        "tools": [{"type": "function", "function": {name: WEATHER[name] for name in ("name", "parameters")}}],
    },
}


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_conversation_looks_the_same_in_every_protocol(
    page: Page, gateway: GatewayUnderTest, engine: MockEngine, path: str
) -> None:
    engine.will(text(*PIECES))
    async with gateway.client.post(f"{gateway.url}/v1/{path}", json={"model": "mock", **REQUESTS[path]}) as answered:
        assert answered.status == 200, await answered.text()
    await open_last(page, gateway)
    assert await kinds(page) == ["user", "thought", "call", "assistant"]
    await expect(talk(page).locator("summary")).to_contain_text(["thought", "arguments", "result"])
    await expect(talk(page).locator(".card").nth(2).locator(".prose")).to_have_text("".join(PIECES))


async def test_an_answer_that_still_comes_is_shown_so_far(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hel"}))
        await go_on.wait()
        await write(chunk({"content": "lo"}) + chunk(finish="stop") + USAGE + DONE)

    engine.will(slow)
    response = asyncio.create_task(gateway.stream("Hi"))
    await page.goto("/")
    await expect(page.locator("td[data-column=first]")).to_contain_text("s")
    await page.locator("tbody a").click()
    await expect(talk(page).get_by_role("heading", name="Answer so far")).to_be_visible()
    await expect(talk(page).locator(".card").nth(1).locator(".prose")).to_have_text("Hel")
    go_on.set()
    await response
    await expect(talk(page).locator(".card").nth(1).locator(".prose")).to_have_text("Hello")
    await expect(talk(page).get_by_role("heading", name="Answer", exact=True)).to_be_visible()


async def test_what_is_cited_is_a_link_and_nothing_is_loaded(page: Page) -> None:
    linked = "It is cold 🥶 ([met.no](https://met.no/oslo)), they say."
    at = linked.index("(")
    page_cited = {"type": "url_citation", "start_index": at, "end_index": linked.index(",", at), "url": "https://met.no/oslo"}
    script = {"type": "url_citation", "start_index": 0, "end_index": 5, "url": "javascript:alert(1)", "title": "Run me"}
    file = {"type": "file_citation", "index": 3, "file_id": "file-1", "filename": "seine.pdf"}
    await show(page, said(linked, {**page_cited, "title": "The weather"}, script, file))
    links = page.locator(".conversation a")
    await expect(links).to_have_text(["met.no", "The weather", "seine.pdf"])
    assert [await each.get_attribute("href") for each in await links.all()] == [
        "https://met.no/oslo",
        "https://met.no/oslo",
        "#/stored/files/file-1",
    ]
    for link in (links.nth(0), links.nth(1)):
        assert await link.get_attribute("rel") == "noopener noreferrer nofollow"
        assert await link.get_attribute("target") == "_blank"
    await expect(page.locator(".prose").last).to_have_text("It is cold 🥶 met.no, they say.")
    await expect(page.locator(".sources")).to_contain_text("Run me javascript:alert(1)")
    assert await faults_for_some_people(page) == []


async def test_code_its_output_and_its_pictures_are_shown(page: Page) -> None:
    outputs = [
        {"type": "logs", "logs": "42"},
        {"type": "image", "url": PICTURE},
        {"type": "image", "url": "https://a.example/b.png"},
    ]
    ran = {"type": "code_interpreter_call", "container_id": "cntr_1", "code": "print(6 * 7)", "outputs": outputs}
    listing = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    listed = {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 2}}],
    }
    await show(page, ran, listing, listed, said("Look:\n```python\nplot()\n```\n`plot` has **two** lines."))
    cards = page.locator(".conversation .card")
    await expect(cards).to_have_count(4)
    await expect(cards.nth(1).locator("pre")).to_have_text(["print(6 * 7)", "42"])
    await expect(page.locator(".conversation img")).to_have_count(1)
    await expect(page.locator(".conversation img")).to_have_js_property("naturalWidth", 1)
    await expect(cards.nth(1).get_by_role("link")).to_have_attribute("href", "#/stored/containers/cntr_1")
    await expect(cards.nth(2).locator("pre")).to_have_text(["ls", "a.txt"])
    await expect(cards.nth(2)).to_contain_text("exit code 2")
    await expect(cards.nth(3).locator("pre")).to_have_text("plot()")
    await expect(cards.nth(3).locator("p code, p strong")).to_have_text(["plot", "two"])


async def test_a_file_that_code_made_is_shown_if_it_is_a_picture(page: Page) -> None:
    cited = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1", "filename": "plot.svg"}
    plot = {**cited, "file_id": "cfile_2", "filename": "plot.png"}

    async def content(route: Any) -> None:
        assert route.request.url.endswith("/v1/containers/cntr_1/files/cfile_2/content")
        await route.fulfill(content_type="application/octet-stream", body=b64decode(PICTURE.split(",")[1]))

    await page.route("**/v1/containers/**", content)
    await show(page, said("The plot.", cited, plot))
    await expect(page.locator(".conversation img")).to_have_count(1)
    await expect(page.locator(".conversation img")).to_have_js_property("naturalWidth", 1)
    await expect(page.locator(".sources").get_by_role("button", name="Download plot.svg")).to_be_visible()


async def test_what_a_model_writes_stays_text(page: Page) -> None:
    cited = {"type": "url_citation", "start_index": 0, "end_index": len(EVIL), "url": "https://a.example", "title": EVIL}
    words = f"{EVIL}\n```{EVIL}\n{EVIL}\n```\n`{EVIL}` ![a](https://a.example/b.png)"
    attached = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/c.png"}]}
    await show(
        page, said(words, cited), attached, {"type": EVIL, "name": EVIL}, client={"body": {"input": EVIL, "instructions": EVIL}}
    )
    await page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
    await expect(page.locator(".conversation")).to_contain_text("![a](https://a.example/b.png)")
    assert await page.locator("main img, main script").count() == 0
    assert await page.evaluate("window.owned ?? null") is None


async def test_long_histories_are_folded_and_so_is_what_is_long(page: Page) -> None:
    items = [{"type": "message", "role": role, "content": f"{role} {at}"} for at in range(20) for role in ("user", "assistant")]
    await show(page, said("word " * 20_000), client={"body": {"input": [*items, {"role": "user", "content": "The end?"}]}})
    await expect(page.locator(".conversation > .card")).to_have_count(8)
    await expect(page.locator(".conversation .card").last.get_by_role("button", name="Show all")).to_be_visible()
    await page.get_by_text("34 earlier items").click()
    await expect(page.locator(".conversation .card")).to_have_count(42)


async def test_the_form_that_was_chosen_stays(page: Page, gateway: GatewayUnderTest) -> None:
    await gateway.create("one")
    await gateway.create("two")
    await page.goto("/#/requests/1")
    await show_panes(page)
    await expect(talk(page)).to_be_hidden()
    await page.goto("/#/requests/2")
    await expect(page.get_by_role("heading", level=1)).to_have_text("#2 mock")
    await expect(page.locator(".pane:visible")).to_have_count(3)


async def test_without_texts_there_are_lengths(browser: Browser, engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning_content": THOUGHT}), chunk({"content": "the secret plan"})))
    async with running_gateway(engine, inspector_bodies=False) as gateway, new_page(browser, gateway.url, size=PHONE) as page:
        body = {"model": "mock", "max_tokens": 9, "messages": [{"role": "user", "content": "a secret question"}]}
        async with gateway.client.post(gateway.url + "/v1/messages", json=body) as answered:
            assert answered.status == 200
        await open_last(page, gateway)
        await expect(talk(page).locator(".prose")).to_have_text(["[17 characters]", "[15 characters]"])
        assert "secret" not in await page.content()
        assert await contents_width(page) <= PHONE[0]
