"""Vector stores over HTTP, with the openai SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.app.lifetime import BESIDE

TEXTS = {
    "moon.txt": "The moon is made of basalt and anorthosite.",
    "bread.md": "# Bread\n\nBread is made of flour, water, salt and yeast.",
    "iron.txt": "Iron melts at 1538 degrees.",
}
CLIENTS: list[openai.AsyncOpenAI] = []


@pytest_asyncio.fixture
async def gateway(engine: MockEngine, vector_url: str) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=vector_url) as running:
        yield running


@pytest_asyncio.fixture
async def everywhere(engine: MockEngine, every_vector_url: str) -> AsyncIterator[GatewayUnderTest]:
    """With each kind of store, also where the slow tests are left out."""
    async with running_gateway(engine, store=every_vector_url) as running:
        yield running


@pytest_asyncio.fixture(autouse=True)
async def opened() -> AsyncIterator[None]:
    yield
    while CLIENTS:
        await CLIENTS.pop().close()


def client_of(gateway: GatewayUnderTest, key: str = "none") -> openai.AsyncOpenAI:
    """Closed at the end of the test."""
    CLIENTS.append(openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0))
    return CLIENTS[-1]


async def upload(client: openai.AsyncOpenAI, name: str, text: str | bytes | None = None) -> str:
    content = TEXTS[name] if text is None else text
    return (
        await client.files.create(
            file=(name, content if isinstance(content, bytes) else content.encode()), purpose="assistants"
        )
    ).id


async def test_the_sdk_makes_changes_lists_and_deletes_stores(everywhere: GatewayUnderTest) -> None:
    client = client_of(everywhere)
    made = await client.vector_stores.create(
        name="Notes", description="Mine", metadata={"a": "b"}, expires_after={"anchor": "last_active_at", "days": 7}
    )
    assert (made.object, made.name, made.status, made.metadata, made.usage_bytes) == (
        "vector_store",
        "Notes",
        "completed",
        {"a": "b"},
        0,
    )
    assert made.expires_after is not None
    assert made.expires_at == made.created_at + 7 * 86_400
    changed = await client.vector_stores.update(made.id, name="Papers", metadata={"c": "d"}, expires_after=None)
    assert (changed.name, changed.metadata, changed.expires_after, changed.expires_at) == ("Papers", {"c": "d"}, None, None)
    assert await client.vector_stores.retrieve(made.id) == changed
    same = await client.vector_stores.update(made.id, name=None)
    assert (same.name, same.metadata) == ("Papers", {"c": "d"})
    assert (await client.vector_stores.update(made.id, name="")).name == ""
    other = await client.vector_stores.create()
    assert other.name == ""
    assert {each.id async for each in client.vector_stores.list(limit=1)} == {made.id, other.id}
    gone = await client.vector_stores.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "vector_store.deleted")
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.retrieve(made.id)


async def test_the_sdk_uploads_a_file_and_polls_until_it_is_indexed(everywhere: GatewayUnderTest) -> None:
    client = client_of(everywhere)
    store = await client.vector_stores.create()
    file = await client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("moon.txt", TEXTS["moon.txt"].encode()), attributes={"about": "moon", "year": 1969}
    )
    assert (file.status, file.last_error, file.vector_store_id) == ("completed", None, store.id)
    assert file.usage_bytes == len(TEXTS["moon.txt"])
    assert file.attributes == {"about": "moon", "year": 1969}
    assert file.chunking_strategy is not None
    assert file.chunking_strategy.to_dict() == {
        "type": "static",
        "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400},
    }
    content = [each async for each in client.vector_stores.files.content(file.id, vector_store_id=store.id)]
    assert [(each.type, each.text) for each in content] == [("text", TEXTS["moon.txt"])]
    found = await client.vector_stores.search(store.id, query="What is the moon made of?")
    assert [(row.file_id, row.filename, row.content[0].text) for row in found.data] == [
        (file.id, "moon.txt", TEXTS["moon.txt"])
    ]
    assert 0 < found.data[0].score <= 1
    assert found.data[0].attributes == {"about": "moon", "year": 1969}


async def test_the_sdk_uploads_a_batch_and_polls_until_it_is_indexed(everywhere: GatewayUnderTest) -> None:
    client = client_of(everywhere)
    store = await client.vector_stores.create()
    known = await upload(client, "iron.txt")
    batch = await client.vector_stores.file_batches.upload_and_poll(
        store.id, files=[(name, TEXTS[name].encode()) for name in ("moon.txt", "bread.md")], file_ids=[known]
    )
    assert (batch.object, batch.status, batch.vector_store_id) == ("vector_store.files_batch", "completed", store.id)
    assert batch.file_counts.to_dict() == {"in_progress": 0, "completed": 3, "failed": 0, "cancelled": 0, "total": 3}
    listed = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=2)
    assert len({file.id async for file in listed}) == 3
    assert (await client.vector_stores.retrieve(store.id)).file_counts.completed == 3
    assert (await client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)) == batch
    over = await client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert over.status == "completed"


async def test_a_batch_may_say_something_about_each_file(gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    store = await client.vector_stores.create()
    moon, bread = [await upload(client, name) for name in ("moon.txt", "bread.md")]
    batch = await client.vector_stores.file_batches.create_and_poll(
        store.id, files=[{"file_id": moon, "attributes": {"n": 1}}, {"file_id": bread, "chunking_strategy": STATIC}]
    )
    assert batch.file_counts.completed == 2
    files = {each.id: each async for each in client.vector_stores.files.list(store.id)}
    assert files[moon].attributes == {"n": 1}
    strategy = files[bread].chunking_strategy
    assert strategy is not None
    assert strategy.to_dict() == STATIC


async def test_files_are_added_changed_listed_and_removed(everywhere: GatewayUnderTest) -> None:
    client = client_of(everywhere)
    ids = [await upload(client, name) for name in TEXTS]
    store = await client.vector_stores.create(file_ids=ids[:2])
    files = client.vector_stores.files
    await files.create_and_poll(ids[2], vector_store_id=store.id)
    for id in ids:
        assert (await files.poll(id, vector_store_id=store.id)).status == "completed"
    changed = await files.update(ids[0], vector_store_id=store.id, attributes={"year": 1969.5, "old": True})
    assert changed.attributes == {"year": 1969.5, "old": True}
    assert (await files.update(ids[0], vector_store_id=store.id, attributes=None)).attributes == {}
    assert {each.id async for each in files.list(store.id, limit=1, order="asc")} == set(ids)
    assert [each.id async for each in files.list(store.id, filter="failed")] == []
    gone = await files.delete(ids[0], vector_store_id=store.id)
    assert (gone.id, gone.deleted, gone.object) == (ids[0], True, "vector_store.file.deleted")
    assert (await client.files.retrieve(ids[0])).id == ids[0]
    with pytest.raises(openai.NotFoundError):
        await files.retrieve(ids[0], vector_store_id=store.id)
    # A file that is deleted is in no store.
    await client.files.delete(ids[1])
    assert [each.id async for each in files.list(store.id)] == [ids[2]]


async def test_a_file_without_text_has_failed(gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    store = await client.vector_stores.create()
    id = await upload(client, "noise.bin", bytes(range(256)))
    file = await client.vector_stores.files.create_and_poll(id, vector_store_id=store.id)
    assert file.status == "failed"
    assert file.last_error is not None
    assert file.last_error.code == "unsupported_file"
    batch = await client.vector_stores.file_batches.create_and_poll(store.id, file_ids=[id])
    assert (batch.status, batch.file_counts.failed) == ("failed", 1)


STATIC: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 20}}


async def test_chunks_have_the_size_that_was_asked_for(gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    id = await upload(client, "long.txt", "A sentence of words. " * 100)
    by_store = (await client.vector_stores.create(file_ids=[id], chunking_strategy=STATIC)).id
    by_file, by_batch = [(await client.vector_stores.create()).id for _ in range(2)]
    await client.vector_stores.files.create(by_file, file_id=id, attributes={"a": 1}, chunking_strategy=STATIC)
    batches = client.vector_stores.file_batches
    await batches.create_and_poll(by_batch, file_ids=[id], attributes={"a": 1}, chunking_strategy=STATIC)
    for store, attributes in ((by_store, {}), (by_file, {"a": 1}), (by_batch, {"a": 1})):
        file = await client.vector_stores.files.poll(id, vector_store_id=store)
        assert (file.status, file.attributes) == ("completed", attributes)
        texts = [each.text or "" async for each in client.vector_stores.files.content(id, vector_store_id=store)]
        assert len(texts) > 5
        assert max(map(len, texts)) <= 400


@pytest.mark.parametrize("sentences", [0, 1, 5000])
async def test_the_content_of_a_file_is_sent_as_it_is_read(gateway: GatewayUnderTest, sentences: int) -> None:
    client = client_of(gateway)
    id = await upload(client, "long.txt", "".join(f"Sentence {number}, in words. " for number in range(sentences)) or " ")
    store = (await client.vector_stores.create(file_ids=[id], chunking_strategy=STATIC)).id
    await client.vector_stores.files.poll(id, vector_store_id=store)
    path = f"/v1/vector_stores/{store}/files/{id}/content"
    status, page = await gateway.get(path)
    assert (status, page["object"], page["has_more"]) == (200, "vector_store.file_content.page", False)
    whole = "".join(each["text"] for each in page["data"])
    assert [number for number in range(sentences) if f"Sentence {number}," not in whole] == []
    async with gateway.client.head(gateway.url + path) as answer:
        assert (answer.status, answer.content_type, await answer.read()) == (200, "application/json", b"")
    async with gateway.client.get(gateway.url + path) as answer:
        assert "Content-Length" not in answer.headers


@pytest.mark.parametrize("kind", ["stores", "files", "batch"])
async def test_lists_come_page_by_page_in_both_orders(kind: str, gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    store = (await client.vector_stores.create()).id
    if kind == "stores":
        ids = [store, *[(await client.vector_stores.create()).id for _ in range(2)]]
        path, filter = "/v1/vector_stores", ""
    else:
        ids = [await upload(client, name) for name in TEXTS]
        batch = await client.vector_stores.file_batches.create_and_poll(store, file_ids=ids)
        within = f"/file_batches/{batch.id}" if kind == "batch" else ""
        path, filter = f"/v1/vector_stores/{store}{within}/files", "&filter=completed"

    async def page(query: str) -> tuple[list[int], bool]:
        status, answer = await gateway.get(f"{path}?{query}{filter}")
        assert (status, answer["object"]) == (200, "list")
        found = [ids.index(each["id"]) for each in answer["data"]]
        assert [answer["first_id"], answer["last_id"]] == [ids[found[0]], ids[found[-1]]]
        return found, answer["has_more"]

    # They may have been made in the same second: then their ids, which grow with the time, decide.
    assert await page("limit=2&order=asc") == ([0, 1], True)
    assert await page(f"limit=2&order=asc&after={ids[1]}") == ([2], False)
    assert await page("limit=2") == ([2, 1], True)
    assert await page(f"limit=2&order=desc&before={ids[0]}") == ([2, 1], False)
    assert await page(f"limit=1&order=desc&before={ids[0]}") == ([1], True)


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_what_is_listed_may_be_deleted_meanwhile(everywhere: GatewayUnderTest, order: Any) -> None:
    client = client_of(everywhere)
    files = [await upload(client, "moon.txt") for _ in range(5)]
    store = (await client.vector_stores.create()).id
    # Not in the order in which they were uploaded.
    for id in (files[3], files[0]):
        await client.vector_stores.files.create_and_poll(id, vector_store_id=store)
    await client.vector_stores.file_batches.create_and_poll(store, file_ids=files)
    async for file in client.vector_stores.files.list(store, limit=2, order=order):
        await client.vector_stores.files.delete(file.id, vector_store_id=store)
    assert (await client.vector_stores.files.list(store)).data == []
    for _ in range(4):
        await client.vector_stores.create()
    async for each in client.vector_stores.list(limit=2, order=order):
        await client.vector_stores.delete(each.id)
    assert (await client.vector_stores.list()).data == []


async def test_a_list_goes_on_where_a_store_was_that_is_gone(gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    ids = [(await client.vector_stores.create()).id for _ in range(3)]
    await client.vector_stores.delete(ids[1])
    for query, found in (("after", ids[0]), ("before", ids[2])):
        _, answer = await gateway.get(f"/v1/vector_stores?{query}={ids[1]}")
        assert [each["id"] for each in answer["data"]] == [found]


async def test_a_list_without_anything_in_it_is_empty(gateway: GatewayUnderTest) -> None:
    _, answer = await gateway.get("/v1/vector_stores")
    assert (answer["data"], answer["has_more"]) == ([], False)


async def test_a_batch_is_cancelled(gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    gateway.app[BESIDE].retrieval.indexer.stop()
    store = await client.vector_stores.create()
    ids = [await upload(client, name) for name in TEXTS]
    batch = await client.vector_stores.file_batches.create(store.id, file_ids=ids)
    assert (batch.status, batch.file_counts.in_progress) == ("in_progress", 3)
    cancelled = await client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert (cancelled.status, cancelled.file_counts.cancelled) == ("cancelled", 3)
    listed = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, filter="cancelled")
    assert len([file async for file in listed]) == 3


# ---- search ----------------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def filled(everywhere: GatewayUnderTest) -> tuple[openai.AsyncOpenAI, str]:
    client = client_of(everywhere)
    store = (await client.vector_stores.create()).id
    files: Any = [{"file_id": await upload(client, name), "attributes": {"name": name, "length": len(name)}} for name in TEXTS]
    await client.vector_stores.file_batches.create_and_poll(store, files=files)
    return client, store


async def names(filled: tuple[openai.AsyncOpenAI, str], query: Any = "made", **options: Any) -> list[str]:
    client, store = filled
    return [row.filename for row in (await client.vector_stores.search(store, query=query, **options)).data]


async def test_a_search_takes_several_queries(filled: tuple[openai.AsyncOpenAI, str]) -> None:
    assert set((await names(filled, ["basalt", "yeast"]))[:2]) == {"moon.txt", "bread.md"}
    assert len(await names(filled, ["basalt", "yeast"], max_num_results=1)) == 1


async def test_a_search_is_limited_to_files_by_their_attributes(filled: tuple[openai.AsyncOpenAI, str]) -> None:
    assert set(await names(filled)) >= {"moon.txt", "bread.md"}
    assert await names(filled, filters={"type": "eq", "key": "name", "value": "bread.md"}) == ["bread.md"]
    nested = {
        "type": "and",
        "filters": [
            {"type": "in", "key": "name", "value": ["moon.txt", "iron.txt"]},
            {
                "type": "or",
                "filters": [{"type": "gt", "key": "length", "value": 7}, {"type": "ne", "key": "name", "value": "iron.txt"}],
            },
        ],
    }
    assert (await names(filled, filters=nested))[0] == "moon.txt"
    assert "bread.md" not in await names(filled, filters=nested)
    assert await names(filled, filters={"type": "eq", "key": "name", "value": 5}) == []


async def test_a_search_may_ask_for_a_score(filled: tuple[openai.AsyncOpenAI, str]) -> None:
    assert await names(filled, "basalt", ranking_options={"ranker": "none", "score_threshold": 1.0}) in ([], ["moon.txt"])
    weights: Any = {"ranker": "auto", "hybrid_search": {"embedding_weight": 0, "text_weight": 1}}
    assert (await names(filled, "yeast", ranking_options=weights))[0] == "bread.md"


async def test_the_answer_of_a_search_is_a_page(gateway: GatewayUnderTest) -> None:
    _, store = await gateway.post({}, "/v1/vector_stores")
    status, page = await gateway.post({"query": "x", "rewrite_query": False}, f"/v1/vector_stores/{store['id']}/search")
    assert (status, page) == (
        200,
        {"object": "vector_store.search_results.page", "search_query": ["x"], "data": [], "has_more": False, "next_page": None},
    )


async def test_the_model_writes_queries_once_and_they_are_searched_too(
    engine: MockEngine, filled: tuple[openai.AsyncOpenAI, str]
) -> None:
    client, store = filled
    engine.will(text(json.dumps({"queries": ["basalt anorthosite", "lunar rock"]})))
    asked = len(engine.requests)
    for _ in range(2):
        found = client.vector_stores.search(store, query="What is our night companion built from?", rewrite_query=True)
        page = await found
        assert page.data[0].filename == "moon.txt"
        assert page.model_extra is not None
        assert page.model_extra["search_query"] == [
            "What is our night companion built from?",
            "basalt anorthosite",
            "lunar rock",
        ]
    (request,) = engine.requests[asked:]
    assert request["messages"][-1]["content"] == "What is our night companion built from?"
    assert request["response_format"]["type"] == "json_schema"
    assert not request.get("tools")


@pytest.mark.parametrize("wrong", ["no JSON at all", '{"queries": []}'])
async def test_without_queries_of_the_model_the_question_itself_is_searched_for_with_a_notice(
    everywhere: GatewayUnderTest, engine: MockEngine, filled: tuple[openai.AsyncOpenAI, str], wrong: str
) -> None:
    engine.otherwise = lambda body: text(wrong)
    body = {"query": "yeast", "rewrite_query": True}
    status, page = await everywhere.post(body, f"/v1/vector_stores/{filled[1]}/search")
    assert (status, page["search_query"], page["data"][0]["filename"]) == (200, ["yeast"], "bread.md")
    assert everywhere.notice == "rewrite_query had no effect: no model wrote other queries. The log says why"


@pytest.mark.parametrize(
    ("said", "first"), [('{"best": [2, 99, 2]}', "second"), ('{"best": []}', "first"), ("nothing useful", "first")]
)
async def test_the_model_orders_passages_where_it_is_asked_to(
    engine: MockEngine, filled: tuple[openai.AsyncOpenAI, str], said: str, first: str
) -> None:
    client, store = filled
    query, asked = "bread made of yeast, or the moon made of basalt", len(engine.requests)
    engine.otherwise = lambda body: text(said)
    usual = [row.file_id for row in (await client.vector_stores.search(store, query=query)).data]
    assert len(engine.requests) == asked
    judged: Any = {"ranker": "model"}
    page = await client.vector_stores.search(store, query=query, ranking_options=judged, max_num_results=2)
    assert len(usual) > 1
    assert [row.file_id for row in page.data] == ([usual[1], usual[0]] if first == "second" else usual[:2])
    assert len(engine.requests) > asked


async def test_a_store_that_is_not_there_costs_no_answer_of_the_model(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    asked = len(engine.requests)
    status, _ = await gateway.post({"query": "x", "rewrite_query": True}, "/v1/vector_stores/vs_none/search")
    assert (status, len(engine.requests)) == (404, asked)


# ---- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ("", {"metadata": {"a": "b" * 513}}, "metadata.a"),
        ("", {"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after.anchor"),
        ("", {"expires_after": {"anchor": "last_active_at", "days": 366}}, "expires_after.days"),
        ("", {"file_ids": ["file-1"] * 501}, "file_ids"),
        ("", {"chunking_strategy": {"type": "other"}}, "chunking_strategy.type"),
        (
            "",
            {"chunking_strategy": {"type": "static", "static": {"max_chunk_size_tokens": 99, "chunk_overlap_tokens": 0}}},
            "chunking_strategy.static.max_chunk_size_tokens",
        ),
        ("/files", {}, "file_id"),
        ("/files", {"file_id": "file-1", "attributes": {"a": None}}, "attributes.a"),
        ("/files", {"file_id": "file-1", "attributes": {"a" * 65: 1}}, "attributes"),
        ("/files", {"file_id": "file-1", "attributes": {"a": 10**30}}, "attributes.a"),
        ("/file_batches", {}, "file_ids"),
        ("/file_batches", {"file_ids": []}, "file_ids"),
        ("/file_batches", {"file_ids": ["a"], "files": [{"file_id": "b"}]}, "files"),
        ("/file_batches", {"files": [{"file_id": "a"}, {}]}, "files[1].file_id"),
        ("/file_batches", {"files": [{"file_id": "a", "colour": "red"}]}, "files[0].colour"),
        ("/search", {"query": "x", "ranking_options": {"hybrid": {}}}, "ranking_options.hybrid"),
        ("", {"chunking_strategy": {"type": "auto", "static": {}}}, "chunking_strategy.static"),
        (
            "/search",
            {"query": "x", "ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}},
            "ranking_options.hybrid_search",
        ),
        ("/search", {}, "query"),
        ("/search", {"query": []}, "query"),
        ("/search", {"query": "x", "max_num_results": 51}, "max_num_results"),
        ("/search", {"query": "x", "filters": {"type": "eq", "key": "a"}}, "filters.value"),
        ("/search", {"query": "x", "ranking_options": {"score_threshold": 1.5}}, "ranking_options.score_threshold"),
        ("/search", {"query": "x", "ranking_options": {"ranker": "best"}}, "ranking_options.ranker"),
    ],
)
async def test_what_is_wrong_is_a_400_that_names_it(path: str, body: Any, param: str, gateway: GatewayUnderTest) -> None:
    _, store = await gateway.post({}, "/v1/vector_stores")
    status, answer = await gateway.post(body, f"/v1/vector_stores/{store['id']}{path}" if path else "/v1/vector_stores")
    assert (status, answer["error"]["param"]) == (400, param)
    assert param in answer["error"]["message"]


@pytest.mark.parametrize(
    ("query", "param"),
    [("limit=0", "limit"), ("limit=101", "limit"), ("order=up", "order"), ("filter=done", "filter"), ("after=x", "after")],
)
async def test_a_list_that_cannot_be_made_is_a_400(query: str, param: str, gateway: GatewayUnderTest) -> None:
    _, store = await gateway.post({}, "/v1/vector_stores")
    status, answer = await gateway.get(f"/v1/vector_stores/{store['id']}/files?{query}")
    assert (status, answer["error"]["param"]) == (400, param)


async def test_a_field_that_is_not_known_is_left_out_with_a_notice(gateway: GatewayUnderTest) -> None:
    status, _ = await gateway.post({"colour": "red"}, "/v1/vector_stores")
    assert (status, gateway.notice) == (200, "field colour is unknown and was left out")


async def test_what_is_not_there_is_a_404(gateway: GatewayUnderTest) -> None:
    _, store = await gateway.post({}, "/v1/vector_stores")
    path = f"/v1/vector_stores/{store['id']}"
    for method, missing, code in (
        ("GET", "/v1/vector_stores/vs_none", "vector_store_not_found"),
        ("DELETE", "/v1/vector_stores/vs_none/files/file-1", "vector_store_not_found"),
        ("GET", f"{path}/files/file-1", "file_not_found"),
        ("GET", f"{path}/files/file-1/content", "file_not_found"),
        ("GET", f"{path}/file_batches/vsfb_none", "batch_not_found"),
        ("POST", f"{path}/file_batches/vsfb_none/cancel", "batch_not_found"),
        ("GET", f"{path}/file_batches/vsfb_none/files", "batch_not_found"),
    ):
        status, answer = await gateway.get(missing, method=method)
        assert (status, answer["error"]["code"]) == (404, code)
    status, answer = await gateway.post({"file_id": "file-none"}, f"{path}/files")
    assert (status, answer["error"]["param"]) == (404, "file_id")


async def test_what_is_in_progress_says_when_to_look_again(gateway: GatewayUnderTest) -> None:
    client = client_of(gateway)
    id = await upload(client, "moon.txt")
    store = await client.vector_stores.with_raw_response.create(file_ids=[id])
    assert int(store.headers["openai-poll-after-ms"]) <= 1000
    path = f"/v1/vector_stores/{store.parse().id}/files/{id}"
    await gateway.get(path)
    assert int(gateway.headers["openai-poll-after-ms"]) <= 1000


# ---- keys ------------------------------------------------------------------------------------------------------------


async def test_a_key_sees_and_searches_only_its_own_stores(engine: MockEngine, vector_url: str) -> None:
    keys = {"ada": ("key-a",), "bob": ("key-b",)}
    async with running_gateway(engine, store=vector_url, keys=keys, admin_key=("admin",)) as gateway:
        ada, bob, admin = (client_of(gateway, key) for key in ("key-a", "key-b", "admin"))
        id = await upload(ada, "moon.txt")
        store = await ada.vector_stores.create(file_ids=[id])
        await ada.vector_stores.files.poll(id, vector_store_id=store.id)
        hers = await bob.vector_stores.create()
        for attempt in (
            bob.vector_stores.retrieve(store.id),
            bob.vector_stores.search(store.id, query="moon"),
            bob.vector_stores.files.content(id, vector_store_id=store.id),
            bob.vector_stores.files.create(hers.id, file_id=id),
            bob.vector_stores.create(file_ids=[id]),
            bob.vector_stores.delete(store.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await attempt
        assert [each.id async for each in bob.vector_stores.list()] == [hers.id]
        # The admin key reads and deletes.
        assert (await admin.vector_stores.retrieve(store.id)).id == store.id
        assert (await admin.vector_stores.delete(store.id)).deleted
