"""The playground: a conversation that streams."""

import asyncio
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, FilePayload, Page, Route, expect
from support.browser import PHONE, WIDE, Theme, contents_width, faults_for_some_people, new_page
from support.conversations import PIECES, RESULT, THOUGHT, WEATHER, number_of
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


async def test_the_models_are_those_that_answer_a_conversation(page: Page, gateway: GatewayUnderTest) -> None:
    async with gateway.client.get(gateway.url + "/v1/models") as answer:
        listed = {model["id"] for model in (await answer.json())["data"]}
    # With the model of embeddings that comes with Antiphon.
    assert listed == {"mock", "wordllama-256"}
    await page.goto("/#/playground")
    await expect(page.get_by_role("combobox", name="Model").locator("option")).to_have_text(["mock"])


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


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


class Answered:
    """The gateway's answers to the page's next requests, and what the page has sent."""

    def __init__(self, *outputs: list[dict[str, Any]]) -> None:
        self.bodies: list[Any] = []
        self._outputs = list(outputs)

    async def __call__(self, route: Route) -> None:
        self.bodies.append(route.request.post_data_json)
        output = self._outputs.pop(0)
        response = {"id": f"resp_{len(self.bodies)}", "status": "completed", "output": output}
        done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)]
        added = [{**event, "type": "response.output_item.added"} for event in done]
        sent = [*added, *done, {"type": "response.completed", "response": response}]
        frames = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in sent)
        await route.fulfill(content_type="text/event-stream", body=frames)


def message(said: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": list(annotations)}]
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}


async def test_tools_temperature_and_format_are_switched_on(page: Page) -> None:
    answered = Answered([message("Fine")])
    await page.route("**/v1/responses", answered)
    await page.goto("/#/playground")
    await page.get_by_label("Web search").check()
    await page.get_by_label("Code interpreter").check()
    await page.get_by_label("MCP servers").fill("time\nmaps https://maps.example/mcp")
    await page.get_by_label("Call their tools without asking").check()
    await page.get_by_label("Temperature").fill("0.5")
    await page.get_by_label("Format of the answer").select_option("json_schema")
    await page.get_by_role("textbox", name="Schema").fill(msgspec.json.encode(SCHEMA).decode())
    await say(page, "Hi")
    await expect(page.locator(".turns .card[data-kind=assistant]")).to_contain_text("assistant")
    assert answered.bodies == [
        {
            "model": "mock",
            "input": [{"role": "user", "content": "Hi"}],
            "stream": True,
            "temperature": 0.5,
            "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
            "tools": [
                {"type": "web_search"},
                {"type": "code_interpreter", "container": {"type": "auto"}},
                {"type": "mcp", "server_label": "time", "require_approval": "never"},
                {
                    "type": "mcp",
                    "server_label": "maps",
                    "server_url": "https://maps.example/mcp",
                    "require_approval": "never",
                },
            ],
        }
    ]


@pytest.mark.parametrize(
    ("label", "typed", "problem"),
    [
        ("Temperature", "warm", "a number from 0 to 2"),
        ("Schema", "", "needs the schema"),
        ("Schema", "{", "The schema is not JSON"),
        ("File search", "", "choose one, or drop a file"),
    ],
)
async def test_an_option_that_lacks_something_says_what(
    page: Page, engine: MockEngine, label: str, typed: str, problem: str
) -> None:
    await page.goto("/#/playground")
    if label == "Schema":
        await page.get_by_label("Format of the answer").select_option("json_schema")
    if label == "File search":
        await page.get_by_label(label).check()
    else:
        await page.get_by_role("textbox", name=label).fill(typed)
    await say(page, "Hi")
    await expect(page.get_by_role("alert")).to_contain_text(problem)
    assert engine.requests == []


DROP = """(place) => {
    const data = new DataTransfer();
    data.items.add(new File(["The ferry leaves at noon."], "ferry.txt", {type: "text/plain"}));
    place.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


async def test_a_file_is_dropped_and_searched(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    await page.goto("/#/playground")
    await page.get_by_label("File search").check()
    bus = FilePayload(name="bus.txt", mimeType="text/plain", buffer=b"The bus leaves at one.")
    await page.get_by_label("Files to search").set_input_files(bus)
    place = page.locator(".store-choice")
    await expect(place.get_by_role("status")).to_have_text("bus.txt: can be searched.")
    await page.locator(".drop").evaluate(DROP)
    await expect(place.get_by_role("status")).to_have_text("ferry.txt: can be searched.")
    # Both are in the store that was made for the first.
    (store,) = (await gateway.get("/v1/vector_stores"))[1]["data"]
    assert (store["name"], store["file_counts"]["completed"]) == ("Playground", 2)
    await expect(page.get_by_label("Vector store")).to_have_value(store["id"])
    engine.will(answer(call("file_search", '{"queries": ["ferry"]}'), finish="tool_calls"), text("At noon."))
    await say(page, "When does the ferry leave?")
    await expect(page.locator(".turns .card[data-kind=call]")).to_contain_text("file search")
    await expect(page.locator(".turns .card[data-kind=assistant]")).to_contain_text("At noon.")
    assert "The ferry leaves at noon." in msgspec.json.encode(engine.last["messages"]).decode()


async def test_a_file_that_is_refused_says_why(browser: Browser, gateway: GatewayUnderTest) -> None:
    async with new_page(browser, gateway.url, expects=(413,)) as page:
        refused = {"error": {"message": "The file is too large."}}
        await page.route("**/v1/files", lambda route: route.fulfill(status=413, json=refused))
        await page.goto("/#/playground")
        await page.get_by_label("File search").check()
        await page.locator(".drop").evaluate(DROP)
        await expect(page.locator(".store-choice").get_by_role("status")).to_have_text("ferry.txt: The file is too large.")


@pytest.mark.parametrize(("chosen", "approve"), [("approved", True), ("refused", False)])
async def test_a_call_of_an_mcp_server_is_approved_or_refused(page: Page, chosen: str, approve: bool) -> None:
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "maps", "name": "find", "arguments": "{}"}
    answered = Answered([request], [message("Done")])
    await page.route("**/v1/responses", answered)
    await page.goto("/#/playground")
    await say(page, "Where is Paris?")
    await page.get_by_label("Approval of find").select_option(chosen)
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".turns .card[data-kind=result]")).to_contain_text(chosen)
    assert answered.bodies[1]["input"] == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve}
    ]
    assert answered.bodies[1]["previous_response_id"] == "resp_1"


async def test_what_an_answer_cites_is_a_link_and_markup_stays_text(page: Page) -> None:
    said = "<img src=x> In Paris."
    cited = {
        "type": "url_citation",
        "start_index": 12,
        "end_index": 21,
        "url": "https://seine.fr/",
        "title": "The <b>Seine</b>",
    }
    script = {**cited, "start_index": 0, "end_index": 5, "url": "javascript:alert(1)"}
    await page.route("**/v1/responses", Answered([message(said, cited, script)]))
    await page.goto("/#/playground")
    await say(page, "Where?")
    links = page.locator(".turns .card[data-kind=assistant] a")
    await expect(links.first).to_have_attribute("href", "https://seine.fr/")
    await expect(links.first).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert await page.locator(".turns :is(img, b, a[href^=javascript])").count() == 0
    await expect(page.locator(".turns .card[data-kind=assistant]")).to_contain_text(said)


async def test_an_opened_request_is_continued(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.lists("mock", "other")
    engine.will(text("Oslo."), text("Cold."))
    first = await gateway.stream("Where?", model="other")
    await page.goto(f"/#/requests/{await number_of(gateway, first)}")
    await page.get_by_role("link", name="Continue in the playground").click()
    cards = page.locator(".turns .card")
    await expect(cards).to_contain_text(["Where?", "Oslo."])
    await expect(page.get_by_label("Model")).to_have_value("other")
    await say(page, "How is it?")
    await expect(cards).to_contain_text(["Where?", "Oslo.", "How is it?", "Cold."])
    assert [each["content"] for each in engine.last["messages"]] == ["Where?", "Oslo.", "How is it?"]
    # Who leaves the playground and comes back finds it as it was.
    await page.keyboard.press("Escape")
    await page.keyboard.press("1")
    await page.keyboard.press("2")
    await expect(cards).to_have_count(4)


async def test_a_stored_conversation_is_continued(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    engine.will(text("Oslo."), text("Cold."), text("Yes."))
    await gateway.create("Where?", conversation=conversation["id"])
    await page.goto(f"/#/stored/conversations/{conversation['id']}")
    await page.get_by_role("link", name="Continue in the playground").click()
    cards = page.locator(".turns .card")
    await expect(cards).to_contain_text(["Where?", "Oslo."])
    for turn, words in enumerate(("How is it?", "Really?"), start=1):
        await say(page, words)
        await expect(page.locator(".answer-foot").get_by_role("link")).to_have_count(turn)
    _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    assert len(items["data"]) == 6


async def test_what_is_not_stored_cannot_be_continued(browser: Browser, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create("Where?", store=False)
    async with new_page(browser, gateway.url, expects=(404,)) as page:
        await page.goto("/#/requests/1")
        await expect(page.get_by_role("button", name="Copy as curl")).to_be_visible()
        await expect(page.get_by_role("link", name="Continue in the playground")).to_have_count(0)
        await page.goto(f"/#/playground/{response['id']}")
        await expect(page.get_by_role("alert")).to_contain_text("It cannot be continued.")


SIZES = {"wide": WIDE, "phone": PHONE}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_request_is_shown_as_code(browser: Browser, gateway: GatewayUnderTest, theme: Theme, size: str) -> None:
    async with new_page(browser, gateway.url, size=SIZES[size], theme=theme) as page:
        await page.goto("/#/playground")
        if size == "phone":
            await page.get_by_text("Options").click()
        await page.get_by_label("File search").check()
        await page.get_by_label("Format of the answer").select_option("json_schema")
        assert await faults_for_some_people(page) == []
        assert await contents_width(page) <= SIZES[size][0]
        await page.get_by_label("File search").uncheck()
        await page.get_by_label("Format of the answer").select_option("json_object")
        await page.get_by_label("Temperature").fill("0.5")
        if size == "phone":
            await page.get_by_text("Options").click()
        await page.get_by_role("button", name="Show as code").click()
        code = page.get_by_role("dialog").get_by_label("The request as code")
        await expect(code).to_contain_text("temperature=0.5,")
        await expect(code).to_contain_text('"type": "json_object",')
        await expect(code).to_contain_text('"content": "Hello",')
        await page.get_by_role("button", name="curl", exact=True).click()
        await expect(code).to_contain_text(f"{gateway.url}/v1/responses")
        assert await faults_for_some_people(page) == []
        assert await contents_width(page) <= SIZES[size][0]
