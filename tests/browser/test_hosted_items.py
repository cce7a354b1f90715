"""Tools that the gateway runs: their items, events and results in the inspector."""

import base64
from typing import Any

from playwright.async_api import Browser, Page, expect
from support.browser import faults_for_some_people, new_page, show_panes
from support.conversations import number_of
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, running_gateway
from support.image_mcp_server import png
from support.toy_tool import DICE, Dice

from antiphon.app.parts import Extensions

CITED = {
    "type": "output_text",
    "text": "In Paris ([seine.fr](https://seine.fr)).",
    "annotations": [
        {"type": "url_citation", "start_index": 9, "end_index": 39, "url": "https://seine.fr", "title": "The Seine"},
    ],
}
# One white pixel.
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="
)
# Each with the words that its card begins with, and what is folded in it.
ITEMS: list[tuple[dict[str, Any], str, list[str]]] = [
    (
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "maps", "tools": [{"name": "find", "input_schema": {}}]},
        "mcp tools maps",
        ["1 tool"],
    ),
    (
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "maps",
            "name": "find",
            "arguments": '{"place": "Paris"}',
            "output": "48.9, 2.3",
            "error": None,
            "status": "completed",
        },
        "mcp call maps/find completed",
        ['arguments {"place": "Paris"}', "output 48.9, 2.3"],
    ),
    (
        {
            "type": "mcp_call",
            "id": "mcp_2",
            "server_label": "maps",
            "name": "find",
            "arguments": "{}",
            "output": None,
            "error": {"type": "http_error", "code": 500, "message": "Out of maps"},
            "status": "failed",
        },
        "mcp call maps/find failed",
        ["arguments {}", 'error {"type":"http_error","code":500,"message":"Out of maps"}'],
    ),
    (
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "maps", "name": "delete", "arguments": "{}"},
        "approval wanted maps/delete mcpr_1",
        ["arguments {}"],
    ),
    (
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False, "reason": "Too dangerous"},
        "not approved mcpr_1",
        [],
    ),
    (
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {
                "type": "search",
                "queries": ["rivers", "Paris"],
                "sources": [{"type": "url", "url": "https://seine.fr"}, {"type": "url", "url": "https://b.fr"}],
            },
        },
        "web search search rivers, Paris completed",
        ['2 sources [{"type":"url","url":"https://seine.fr"},'],
    ),
    (
        {
            "type": "web_search_call",
            "id": "ws_2",
            "status": "failed",
            "action": {"type": "find_in_page", "url": "https://seine.fr", "pattern": "bridge"},
        },
        "web search find in page bridge in https://seine.fr failed",
        [],
    ),
    (
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["rivers", "Paris"],
            "results": [{"file_id": "file-1", "filename": "seine.pdf", "score": 0.9, "text": "The Seine", "attributes": {}}],
        },
        "file search rivers, Paris completed",
        ['1 result [{"file_id":"file-1","filename":"seine.pdf"'],
    ),
    (
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "container_id": "cntr_1",
            "code": "print(1)\nplot()",
            "outputs": [
                {"type": "logs", "logs": "1\n<b>bold</b>"},
                {"type": "image", "url": PICTURE},
                {"type": "image", "url": "https://elsewhere.example/picture.png"},
            ],
        },
        "code interpreter cntr_1 completed",
        ["code print(1) plot()", "logs 1 <b>bold</b>"],
    ),
    (
        {
            "type": "shell_call",
            "id": "sh_1",
            "call_id": "call_1",
            "status": "completed",
            "action": {"commands": ["ls -l", "date"], "timeout_ms": 1000},
            "environment": {"type": "container_reference", "container_id": "cntr_1"},
        },
        "shell call_1 cntr_1 completed",
        ["2 commands ls -l date"],
    ),
    (
        {
            "type": "shell_call_output",
            "id": "sho_1",
            "call_id": "call_1",
            "output": [
                {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "too slow", "outcome": {"type": "timeout"}},
            ],
        },
        "result call_1",
        ["stdout a.txt", "stderr too slow"],
    ),
    (
        {"type": "tool_search_call", "id": "t_1", "call_id": None, "status": "completed", "arguments": {"paths": ["maps"]}},
        "tool search completed",
        ['arguments {"paths":["maps"]}'],
    ),
    (
        {"type": "tool_search_output", "id": "t_2", "call_id": None, "tools": [{"type": "function", "name": "find"}]},
        "tools found",
        ["1 tool"],
    ),
    (
        {
            "type": "image_generation_call",
            "id": "ig_1",
            "status": "completed",
            "revised_prompt": "A grey square",
            "output_format": "png",
            "result": base64.b64encode(png()).decode(),
        },
        "image A grey square completed",
        [],
    ),
    (
        {
            "type": "image_generation_call",
            "id": "ig_2",
            "status": "failed",
            "revised_prompt": "A dog",
            "result": None,
            "error": {"type": "image_generation_error", "message": "No paint", "code": None, "param": None},
        },
        "image A dog failed",
        ['error {"type":"image_generation_error","message":"No paint"'],
    ),
    (
        {"type": "image_generation_call", "id": "ig_3", "status": "completed", "result": "[68 characters]"},
        "image completed",
        ["image [68 characters]"],
    ),
    ({"type": "message", "role": "assistant", "content": [CITED]}, "assistant", ["1 citation The Seine https://seine.fr"]),
]
SHOW_CARDS = """async (items) => {
  const { itemCard } = await import("/inspector/page/items.js");
  document.querySelector("main").replaceChildren(...items.map((item) => itemCard(item)));
}"""
GISTS = """async (events) => {
  const { gist } = await import("/inspector/page/timeline.js");
  const entries = events.map((event) => ({ kind: "event", type: event.type, event, note: null }));
  return entries.map((_, index) => gist(entries, { first: index, last: index }));
}"""

ANSWER = """async (events) => {
  const { StreamedAnswer } = await import("/inspector/page/streamed_answer.js");
  const answer = new StreamedAnswer();
  document.querySelector("main").replaceChildren(answer.node);
  for (const event of events) answer.receive(event);
}"""


async def open_first_view(page: Page) -> None:
    """Until it is there, it would take the place of what a test shows."""
    await page.goto("/")
    await expect(page.get_by_role("heading", name="No request yet")).to_be_visible()


async def words(page: Page, selector: str) -> list[str]:
    return [" ".join((await each.inner_text()).split()) for each in await page.locator(selector).all()]


async def test_every_hosted_item_has_a_card_that_says_what_it_is(page: Page) -> None:
    await open_first_view(page)
    await page.evaluate(SHOW_CARDS, [item for item, _, _ in ITEMS])
    cards = page.locator("article.card")
    await expect(cards).to_have_count(len(ITEMS))
    assert await words(page, "article.card > .card-head") == [head for _, head, _ in ITEMS]
    for at, (item, _, folded) in enumerate(ITEMS):
        summaries = [" ".join((await each.inner_text()).split()) for each in await cards.nth(at).locator("summary").all()]
        assert len(summaries) == len(folded), item
        for summary, expected in zip(summaries, folded, strict=True):
            assert summary.startswith(expected)
    await expect(cards.nth(4)).to_contain_text("Too dangerous")
    image = page.locator("img.made-image")
    await expect(image).to_have_count(1)
    await expect(image).to_have_attribute("alt", "A grey square")
    assert await image.evaluate("async (each) => { await each.decode(); return each.naturalWidth; }") == 3
    assert await faults_for_some_people(page) == []


async def test_code_shows_its_pictures_and_loads_none_from_elsewhere(page: Page) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    await open_first_view(page)
    (code,) = [item for item, _, _ in ITEMS if item["type"] == "code_interpreter_call"]
    await page.evaluate(SHOW_CARDS, [code])
    await expect(page.locator("article.card img")).to_have_count(1)
    await expect(page.locator("article.card img")).to_have_js_property("naturalWidth", 1)
    await page.locator("summary", has_text="logs").click()
    await expect(page.locator("article.card pre")).to_have_text("1\n<b>bold</b>")
    assert not [url for url in requested if "elsewhere" in url]


async def test_code_is_shown_while_the_model_writes_it(page: Page) -> None:
    await open_first_view(page)
    begun = {"type": "code_interpreter_call", "id": "ci_1", "status": "in_progress", "container_id": "c", "code": ""}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": 0, "item": begun}]
    events += [
        {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": piece} for piece in ("pri", "nt(1)")
    ]
    await page.evaluate(ANSWER, events)
    await expect(page.locator(".answer article.card pre")).to_have_text("print(1)")


async def test_the_gist_of_an_event_names_the_server_the_tool_and_the_query(page: Page) -> None:
    await open_first_view(page)
    events = [{"type": "response.output_item.done", "output_index": 0, "item": item} for item, _, _ in ITEMS]
    events.append({"type": "response.output_text.annotation.added", "annotation": CITED["annotations"][0]})
    assert await page.evaluate(GISTS, events) == [
        "mcp_list_tools maps 1 tool",
        "mcp_call maps/find",
        "mcp_call maps/find",
        "mcp_approval_request maps/delete",
        "mcp_approval_response",
        "web_search_call rivers, Paris",
        "web_search_call bridge in https://seine.fr",
        "file_search_call rivers, Paris",
        "code_interpreter_call print(1)",
        "shell_call ls -l",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output 1 tool",
        "image_generation_call A grey square",
        "image_generation_call A dog",
        "image_generation_call",
        "message",
        "The Seine https://seine.fr",
    ]


async def test_an_answer_shows_that_a_tool_runs_and_then_what_came_of_it(page: Page) -> None:
    await open_first_view(page)
    firsts = {item["type"]: (item, head) for item, head, _ in reversed(ITEMS)}
    for item, head in (firsts[f"{kind}_call"] for kind in ("mcp", "web_search", "file_search", "image_generation")):
        begun = {**item, "status": "in_progress", "arguments": "", "output": None}
        events = [
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            {"type": "response.mcp_call_arguments.delta", "output_index": 0, "delta": '{"place"'},
        ]
        await page.evaluate(ANSWER, events)
        card = page.locator(".answer article.card")
        await expect(card).to_contain_text("running…")
        await expect(card.locator("pre")).to_have_text('{"place"')
        await page.evaluate(ANSWER, [*events, {"type": "response.output_item.done", "output_index": 0, "item": item}])
        await expect(card).to_have_count(1)
        assert await words(page, ".answer .card-head") == [head]


async def test_a_tool_that_the_gateway_ran_is_in_the_timeline(browser: Browser, engine: MockEngine) -> None:
    engine.will(answer(call("roll", '{"sides": 6}'), finish="tool_calls"), text("A six."))
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        _, response = await gateway.post({"model": "mock", "input": "Roll", "tools": [DICE]})
        async with new_page(browser, gateway.url) as page:
            await page.goto(f"/#/requests/{await number_of(gateway, [{'response': response}])}")
            await show_panes(page)
            rows = page.locator(".event[data-kind=tool]")
            await expect(rows).to_have_count(2)
            await expect(rows.nth(0)).to_contain_text("Runs dice roll.")
            await expect(rows.nth(1)).to_contain_text("dice roll ended after")
            await expect(page.locator(".pane[data-name=engine]")).to_contain_text("tools")
