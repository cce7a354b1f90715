"""What the routes answer beside messages: counts, models, files, errors; and the parameters that they take."""

import asyncio

import aiohttp
import pytest
from support.engine import MockEngine, Refusal, Writer, text
from support.gateway import GatewayUnderTest, running_gateway
from support.messages import HI, PATH, VERSION, Body, body, create

COUNT = f"{PATH}/count_tokens"
LOOK = {"name": "look", "input_schema": {"type": "object"}}
# Fields that count, and words of the notice for those that do not.
COUNTED: dict[str, tuple[Body, str]] = {
    "system": ({"system": "Be kind."}, ""),
    "tools": ({"tools": [LOOK], "tool_choice": {"type": "auto"}}, ""),
    "thinking": ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, ""),
    "output_format": ({"output_format": {"type": "json_schema", "schema": {"type": "object"}}}, ""),
    "cache_control": ({"cache_control": {"type": "ephemeral"}}, ""),
    "context_management": ({"context_management": {"edits": [{"type": "compact_20260112"}]}}, ""),
    "compaction": ({"compaction": {"type": "summarize"}}, ""),
    "speed": ({"speed": "fast"}, "field speed was left out"),
    "billing_policy": ({"billing_policy": {"type": "billing_policy"}}, "field billing_policy was left out"),
    "mcp_servers": (
        {"mcp_servers": [{"type": "url", "name": "s", "url": "https://s.example"}]},
        "MCP server s were not counted",
    ),
}


async def test_tokens_are_counted_with_all_that_is_part_of_the_prompt(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    for name, (fields, notice) in COUNTED.items():
        engine.will(text("{}"))
        asked = {"model": "mock", "messages": HI, **fields}
        status, counted = await gateway.post(asked, COUNT, headers=VERSION)
        assert (status, counted) == (200, {"input_tokens": 12}), name
        assert notice in gateway.notice, name
    # A summary is not what is counted.
    assert all("hand-over" not in str(request["messages"]) for request in engine.requests)


# ---- models ------------------------------------------------------------------------------------------------------------


async def test_models_are_listed_page_by_page(engine: MockEngine) -> None:
    engine.lists("a", "b", "c")
    async with running_gateway(engine) as gateway:

        async def listed(query: str) -> tuple[list[str], bool]:
            status, page = await gateway.get(f"/v1/models?{query}", headers=VERSION)
            assert status == 200, page
            return [model["id"] for model in page["data"]], page["has_more"]

        assert await listed("limit=1000") == (["a", "b", "c"], False)
        assert await listed("limit=2") == (["a", "b"], True)
        assert await listed("limit=2&after_id=b") == (["c"], False)
        assert await listed("limit=1&before_id=c") == (["b"], True)
        assert await listed("lifecycle[]=active&lifecycle[]=retired") == (["a", "b", "c"], False)
        assert await listed("lifecycle[]=retired") == ([], False)
        status, refused = await gateway.get("/v1/models?after_id=d", headers=VERSION)
        assert (status, "`after_id`" in refused["error"]["message"]) == (400, True)


async def test_a_model_says_how_much_it_reads(engine: MockEngine) -> None:
    engine._models["data"][0] |= {"owned_by": "vllm", "max_model_len": 4096}
    async with running_gateway(engine) as gateway:
        _, model = await gateway.get("/v1/models/mock", headers=VERSION)
    assert (model["max_input_tokens"], model["max_tokens"], model["lifecycle"]) == (4096, 4096, "active")


# ---- files -------------------------------------------------------------------------------------------------------------


async def upload(gateway: GatewayUnderTest, name: str, **fields: str) -> tuple[int, Body]:
    form = aiohttp.FormData()
    for field, value in fields.items():
        form.add_field(field, value)
    form.add_field("file", b"Hello", filename=name, content_type="text/plain")
    async with gateway.client.post(f"{gateway.url}/v1/files", data=form, headers=VERSION) as answered:
        gateway.notice = answered.headers.get("antiphon-notice", "")
        return answered.status, await answered.json()


async def test_a_file_expires_when_its_upload_says_so(gateway: GatewayUnderTest) -> None:
    status, file = await upload(gateway, "a.txt", expires_in_seconds="7776000")
    assert (status, gateway.notice) == (200, "")
    assert (file["expires_at"][:4] >= file["created_at"][:4], file["downloadable"]) == (True, True)
    status, refused = await upload(gateway, "a.txt", expires_in_seconds="60")
    assert (status, "`expires_in_seconds`" in refused["error"]["message"]) == (400, True)


async def test_files_are_listed_by_their_ids_and_page_by_page(gateway: GatewayUnderTest) -> None:
    ids = [(await upload(gateway, name))[1]["id"] for name in ("a.txt", "b.txt", "c.txt")]
    _, page = await gateway.get(f"/v1/files?ids[]={ids[0]}&ids[]={ids[2]}&ids[]=file-none", headers=VERSION)
    assert ([file["id"] for file in page["data"]], page["next_page"]) == ([ids[0], ids[2]], None)
    _, first = await gateway.get("/v1/files?limit=2", headers=VERSION)
    _, second = await gateway.get(f"/v1/files?limit=2&page={first['next_page']}", headers=VERSION)
    assert [file["id"] for file in (*first["data"], *second["data"])] == ids[::-1]


async def test_files_are_scoped_to_no_session(gateway: GatewayUnderTest) -> None:
    await upload(gateway, "a.txt")
    _, page = await gateway.get("/v1/files?scope_id=session_1", headers=VERSION)
    assert page["data"] == []


async def test_a_file_is_retrieved_downloaded_and_deleted(gateway: GatewayUnderTest) -> None:
    _, file = await upload(gateway, "a.txt")
    path = f"/v1/files/{file['id']}"
    assert (await gateway.get(path, headers=VERSION))[1] == file
    async with gateway.client.get(f"{gateway.url}{path}/content", headers=VERSION) as downloaded:
        assert await downloaded.read() == b"Hello"
    assert (await gateway.get(path, method="DELETE", headers=VERSION))[1] == {"id": file["id"], "type": "file_deleted"}


# ---- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "status", "kind"),
    [
        (Refusal(503, {"error": {"message": "Busy."}}), 529, "overloaded_error"),
        (Refusal(429, {"error": {"message": "Slowly."}}), 429, "rate_limit_error"),
        (Refusal(500, {"error": {"message": "Broken."}}), 502, "api_error"),
    ],
)
async def test_an_error_of_an_engine_has_its_type(engine: MockEngine, refusal: Refusal, status: int, kind: str) -> None:
    engine.will(*[refusal] * 3)
    async with running_gateway(engine, retries=0) as gateway:
        answered, error = await gateway.post(body(), PATH, headers=VERSION)
    assert (answered, error["error"]["type"]) == (status, kind)


async def test_an_engine_that_is_silent_is_a_timeout(engine: MockEngine) -> None:
    async def silent(write: Writer) -> None:
        await asyncio.Event().wait()

    engine.will(silent)
    async with running_gateway(engine, first_byte_timeout=0.2, retries=0) as gateway:
        status, error = await gateway.post(body(), PATH, headers=VERSION)
    assert (status, error["error"]["type"]) == (504, "timeout_error")


async def test_a_foreign_page_is_forbidden(gateway: GatewayUnderTest) -> None:
    status, error = await gateway.post(body(), PATH, headers=VERSION | {"Origin": "https://evil.example"})
    assert (status, error["error"]["type"]) == (403, "permission_error")


async def test_a_body_may_be_too_large(engine: MockEngine) -> None:
    async with running_gateway(engine, max_body_bytes=1000) as gateway:
        status, error = await gateway.post(body([{"role": "user", "content": "x" * 2000}]), PATH, headers=VERSION)
    assert (status, error["error"]["type"]) == (413, "request_too_large")


async def test_what_the_model_refuses_is_a_refusal(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("I cannot.", finish="content_filter"))
    message = await create(gateway)
    assert (message["stop_reason"], message["stop_details"]) == ("refusal", None)
