"""The view of what is stored."""

from pathlib import Path

import msgspec
from openai import AsyncOpenAI
from playwright.async_api import Browser, Page, Route, expect
from support import batches
from support.batches import line, sdk
from support.browser import faults_for_some_people, new_page
from support.engine import MockEngine
from support.gateway import GatewayUnderTest
from support.kernels import ScriptedKernels, interpreting
from support.ways_in import Doors, until


async def test_a_server_without_the_list_is_said_to_have_none(browser: Browser, gateway: GatewayUnderTest) -> None:
    async with new_page(browser, gateway.url, expects=(404,)) as page:
        await page.route("**/inspector/stored/*", lambda route: route.fulfill(status=404, body="{}"))
        await page.goto("/#/stored")
        await expect(page.locator("main").get_by_role("status")).to_contain_text("no list of what is stored")


async def list_one(page: Page, id: str) -> None:
    row = {
        "id": id,
        "created_at": 1_790_000_000,
        "model": "mock",
        "status": "completed",
        "preview": "Hi there",
        "items": 1,
        "owner": "",
    }

    async def answer(route: Route) -> None:
        body = {"data": [row] if "search=nothing" not in route.request.url else [], "has_more": False, "last_id": id}
        await route.fulfill(content_type="application/json", body=msgspec.json.encode(body))

    await page.route("**/inspector/stored/responses*", answer)


async def test_a_stored_response_is_opened_by_its_address(page: Page, gateway: GatewayUnderTest) -> None:
    response = await gateway.create("Hi there")
    await list_one(page, response["id"])
    await page.goto("/#/stored")
    await page.get_by_role("link", name="Hi there").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(response["id"])
    await expect(page.locator(".card[data-kind=user]")).to_contain_text("Hi there")
    await expect(page.locator(".card[data-kind=assistant]")).to_contain_text("Hello world")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("link", name="Hi there")).to_be_focused()


async def test_a_stored_conversation_is_opened_by_its_address(page: Page, gateway: GatewayUnderTest) -> None:
    message = {"type": "message", "role": "user", "content": "Hi there"}
    _, conversation = await gateway.post({"items": [message]}, path="/v1/conversations")
    await page.goto(f"/#/stored/conversations/{conversation['id']}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(conversation["id"])
    await expect(page.locator(".card[data-kind=user]")).to_contain_text("Hi there")


async def test_a_stored_response_is_deleted_only_after_a_question(page: Page, gateway: GatewayUnderTest) -> None:
    response = await gateway.create("Hi there")
    await list_one(page, response["id"])
    await page.goto("/#/stored")
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Keep").click()
    assert (await gateway.get(f"/v1/responses/{response['id']}"))[0] == 200
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.locator(".stored li")).to_have_count(0)
    assert (await gateway.get(f"/v1/responses/{response['id']}"))[0] == 404


async def test_the_search_asks_the_server(page: Page, gateway: GatewayUnderTest) -> None:
    await list_one(page, "resp_1")
    await page.goto("/#/stored")
    await expect(page.locator(".stored li")).to_have_count(1)
    await page.keyboard.press("/")
    await page.keyboard.type("nothing")
    await expect(page.get_by_text("No stored responses.")).to_be_visible()


# ---- files and vector stores -------------------------------------------------------------------------------------------


async def test_an_uploaded_file_is_listed_opened_and_downloaded(page: Page, gateway: GatewayUnderTest) -> None:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
        made = await client.files.create(file=("<b>notes.txt", b"Hello"), purpose="user_data")
    await page.goto("/#/stored/files")
    await expect(page.locator(".stored li")).to_contain_text("user_data · 5 B")
    await page.get_by_role("link", name="<b>notes.txt").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(made.id)
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Download").click()
    assert (await (await saving.value).path()).read_bytes() == b"Hello"
    assert await faults_for_some_people(page) == []


async def test_a_vector_store_shows_its_files_and_what_is_wrong_with_them(page: Page, gateway: GatewayUnderTest) -> None:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
        good = await client.files.create(file=("good.txt", b"The Seine flows through Paris."), purpose="assistants")
        bad = await client.files.create(file=("bad.png", b"\x89PNG\r\n\x1a\n\0"), purpose="assistants")
        store = await client.vector_stores.create(name="Rivers", file_ids=[good.id, bad.id])
        for file in (good, bad):
            await client.vector_stores.files.poll(file.id, vector_store_id=store.id, poll_interval_ms=100)
    await page.goto("/#/stored/vector_stores")
    await expect(page.locator(".stored li")).to_contain_text("completed · 2 files, 1 failed")
    await page.get_by_role("link", name="Rivers").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(store.id)
    await expect(page.get_by_role("row", name=good.id)).to_contain_text("completed")
    await expect(page.get_by_role("row", name=bad.id)).to_contain_text("failed")
    await expect(page.get_by_role("row", name=bad.id)).to_contain_text("unsupported_file: ")
    assert await faults_for_some_people(page) == []
    await page.get_by_role("link", name=good.id).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(good.id)


async def test_a_container_shows_its_files(browser: Browser, engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(), tmp_path) as gateway, new_page(browser, gateway.url) as page:
        async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
            made = await client.containers.create(name="Plots")
            await client.containers.files.create(made.id, file=("data.csv", b"a,b"))
        await page.goto("/#/stored/containers")
        await expect(page.locator(".stored li")).to_contain_text("running · 1 file · 3 B · 1g memory · expires ")
        await page.get_by_role("link", name="Plots").click()
        await expect(page.get_by_role("row", name="/mnt/data/data.csv")).to_contain_text("3 B")
        async with page.expect_download() as saving:
            await page.get_by_role("button", name="Download data.csv").click()
        assert (await (await saving.value).path()).read_bytes() == b"a,b"
        assert await faults_for_some_people(page) == []


async def test_a_batch_shows_how_far_it_is_and_is_cancelled(page: Page, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    doors = Doors(engine)
    async with sdk(gateway) as client:
        made = await batches.begin(client, [line(str(number)) for number in range(8)])
        doors.open(2)
        await until(lambda: len(engine.requests) == 6)
        await page.goto("/#/stored/batches")
        await expect(page.locator(".stored li")).to_contain_text("in_progress · 2 of 8 requests")
        assert await faults_for_some_people(page) == []
        await page.get_by_role("button", name=f"Cancel {made.id}").click()
        await page.get_by_role("button", name="Cancel it").click()
        await expect(page.locator(".stored li")).to_contain_text("cancelling")
        doors.open(100)
        done = await batches.ended(client, made.id)
    await page.get_by_role("link", name="/v1/responses").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(made.id)
    await expect(page.get_by_role("progressbar")).to_have_attribute("value", "6")
    assert await faults_for_some_people(page) == []
    files = {"Input": done.input_file_id, "Output": done.output_file_id, "Errors": done.error_file_id}
    for name, file in files.items():
        await page.get_by_role("link", name=f"{name}: {file}").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(str(file))
        await page.go_back()
