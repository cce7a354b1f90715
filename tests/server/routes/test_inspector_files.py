"""The inspector lists uploaded files and vector stores: of a key its own, for the admin key all of them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from openai import AsyncOpenAI
from support import batches
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.store.files import files as file_operations
from antiphon.store.files import vector_store_files, vector_stores
from antiphon.store.files.records import AddedFile, FileRecord, VectorStoreRecord
from antiphon.store.files.vector_store_files import Addition
from antiphon.store.operations import Change, Operation
from antiphon.store.records import ROWS

FILES = "/inspector/stored/files"
STORES = "/inspector/stored/vector_stores"
KEYS: dict[str, Any] = {"keys": {"ada": ("key-of-ada",), "bob": ("key-of-bob",)}, "admin_key": ("key-of-admin",)}


@pytest_asyncio.fixture
async def gateway(url: str, engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    async with running_gateway(engine, store=url) as running:
        yield running


async def upload(gateway: GatewayUnderTest, name: str, content: bytes = b"Hello", key: str = "any", **options: Any) -> str:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0) as client:
        made = await client.files.create(file=(name, content), purpose="user_data", **options)
        return made.id


async def add_store(gateway: GatewayUnderTest, id: str, owner: str = "", **members: Any) -> None:
    record = VectorStoreRecord(id=id, owner=owner, created_at=members.pop("created_at", 1), last_active_at=5, **members)
    await gateway.gateway.store.files.database.write(vector_stores.create(record, 100))


def failed(store: str, file: str) -> Operation[None]:
    addition = Addition([AddedFile(file=file)], 100, vector_stores.Room(None, 100), lambda: "vsdoc_1", None)
    yield from vector_store_files.add("", store, addition, 7.0)
    yield Change("UPDATE vector_store_files SET status = 'failed', size = 12 WHERE store = $1", (store,))


def bearing(name: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer key-of-{name}"}}


# ---- files -----------------------------------------------------------------------------------------------------------


async def test_a_gateway_without_files_lists_none(gateway: GatewayUnderTest) -> None:
    for path in (FILES, STORES):
        assert await gateway.get(path) == (200, {"object": "list", "data": [], "has_more": False, "last_id": None})


async def test_files_are_listed_with_their_size_and_expiry(gateway: GatewayUnderTest) -> None:
    kept = await upload(gateway, "größe.txt", b"four")
    brief = await upload(gateway, "brief.txt", b"", expires_after={"anchor": "created_at", "seconds": 3600})
    status, page = await gateway.get(FILES)
    assert status == 200
    rows = {row["id"]: row for row in page["data"]}
    assert (rows[kept]["preview"], rows[kept]["bytes"], rows[kept]["purpose"]) == ("größe.txt", 4, "user_data")
    assert (rows[kept]["expires_at"], rows[kept]["owner"]) == (None, "")
    assert rows[brief]["expires_at"] == rows[brief]["created_at"] + 3600


async def test_pages_of_files_follow_each_other(gateway: GatewayUnderTest) -> None:
    made = {await upload(gateway, f"{number}.txt") for number in range(5)}
    seen: list[str] = []
    after = ""
    for has_more in (True, True, False):
        _, page = await gateway.get(FILES, params={"limit": 2, **({"after": after} if after else {})})
        seen += [row["id"] for row in page["data"]]
        assert page["has_more"] is has_more
        after = page["last_id"]
    assert set(seen) == made
    assert len(seen) == 5


async def test_files_are_found_by_their_names_in_any_case(gateway: GatewayUnderTest) -> None:
    found = await upload(gateway, "Übersicht 2026.pdf")
    await upload(gateway, "other.txt")
    for words in ("übersicht", "2026.PDF", found):
        _, page = await gateway.get(FILES, params={"search": words})
        assert [row["id"] for row in page["data"]] == [found]
    _, page = await gateway.get(FILES, params={"search": "nothing"})
    assert (page["data"], page["has_more"]) == ([], False)


def add_files(count: int) -> Operation[None]:
    for number in range(count):
        record = FileRecord(id=f"file-{number}", owner="", created_at=number, size=1, purpose="x", filename=f"no {number}.txt")
        yield from file_operations.add(record, None, 2 * count, 0)


async def test_a_search_that_has_not_read_everything_says_where_to_go_on(gateway: GatewayUnderTest) -> None:
    await gateway.gateway.store.files.database.write(add_files(ROWS + 1))
    _, page = await gateway.get(FILES, params={"search": "no 0.txt"})
    assert (page["data"], page["has_more"]) == ([], True)
    _, page = await gateway.get(FILES, params={"search": "no 0.txt", "after": page["last_id"]})
    assert ([row["id"] for row in page["data"]], page["has_more"]) == (["file-0"], False)


# ---- vector stores ---------------------------------------------------------------------------------------------------


async def test_vector_stores_are_listed_with_the_state_of_their_files(gateway: GatewayUnderTest) -> None:
    await add_store(gateway, "vs_1", name="Handbook", created_at=2)
    await add_store(gateway, "vs_2", created_at=1, expires_after_days=1, expires_at=86_405)
    await gateway.gateway.store.files.database.write(failed("vs_1", "file-1"))
    _, page = await gateway.get(STORES)
    first, second = page["data"]
    assert (first["id"], first["preview"], first["status"], first["bytes"]) == ("vs_1", "Handbook", "completed", 12)
    assert first["file_counts"] == {"in_progress": 0, "completed": 0, "failed": 1, "cancelled": 0, "total": 1}
    assert (second["preview"], second["status"], second["expires_at"], second["last_active_at"]) == (None, "expired", 86_405, 5)


async def test_vector_stores_are_found_by_their_names(gateway: GatewayUnderTest) -> None:
    await add_store(gateway, "vs_1", name="Handbook")
    await add_store(gateway, "vs_2", metadata={"topic": "Kitchen"})
    for words, found in (("handBOOK", "vs_1"), ("kitchen", "vs_2"), ("vs_2", "vs_2")):
        _, page = await gateway.get(STORES, params={"search": words})
        assert [row["id"] for row in page["data"]] == [found]


# ---- who sees what ---------------------------------------------------------------------------------------------------


async def test_a_key_sees_its_own_files_and_stores_and_the_admin_key_all(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        for name in ("ada", "bob"):
            await upload(gateway, f"{name}.txt", key=f"key-of-{name}")
            await add_store(gateway, f"vs_{name}", owner=name, name=name)
        for path in (FILES, STORES):
            seen = {}
            for name in ("ada", "bob", "admin"):
                _, page = await gateway.get(path, **bearing(name))
                seen[name] = {row["owner"] for row in page["data"]}
            assert seen == {"ada": {"ada"}, "bob": {"bob"}, "admin": {"ada", "bob"}}
            _, page = await gateway.get(f"{path}?search=bob", **bearing("ada"))
            assert page["data"] == []
            assert (await gateway.get(path))[0] == 401


async def test_names_are_hidden_where_bodies_are(engine: MockEngine) -> None:
    async with running_gateway(engine, inspector_bodies=False) as gateway:
        await upload(gateway, "secret.txt")
        await add_store(gateway, "vs_1", name="secret")
        for path, shown in ((FILES, "[10 characters]"), (STORES, "[6 characters]")):
            _, page = await gateway.get(path)
            assert [row["preview"] for row in page["data"]] == [shown]
            status, answer = await gateway.get(f"{path}?search=secret")
            assert (status, answer["error"]["param"]) == (400, "search")


async def test_a_wrong_query_is_a_400_that_names_the_field(gateway: GatewayUnderTest) -> None:
    for path in (FILES, STORES):
        for query, param in (("limit=0", "limit"), ("after=x", "after"), (f"search={'x' * 201}", "search")):
            status, answer = await gateway.get(f"{path}?{query}")
            assert (status, answer["error"]["param"]) == (400, param)


async def test_nothing_is_listed_where_the_inspector_is_off(engine: MockEngine) -> None:
    async with running_gateway(engine, inspector=False) as gateway:
        for path in (FILES, STORES):
            status, answer = await gateway.get(path)
            assert (status, answer["error"]["code"]) == (404, "inspector_off")


async def test_batches_are_listed_with_their_progress(engine: MockEngine) -> None:
    async with running_gateway(engine, **KEYS) as gateway:
        for key in ("ada", "bob"):
            async with batches.sdk(gateway, f"key-of-{key}") as client:
                await batches.run(client, [batches.line("a"), b"broken"])
        path, rows = "/inspector/stored/batches", dict[str, Any]()
        for key in ("ada", "admin"):
            _, listed = await gateway.get(path, headers={"Authorization": f"Bearer key-of-{key}"})
            rows[key] = [
                {name: value for name, value in row.items() if name not in ("id", "created_at")} for row in listed["data"]
            ]
        counts = {"total": 2, "completed": 1, "failed": 1, "can_be_cancelled": False}
        of_ada = {"owner": "ada", "preview": "/v1/responses mock", "status": "completed", **counts}
        assert rows == {"ada": [of_ada], "admin": [of_ada | {"owner": "bob"}, of_ada]}
        _, found = await gateway.get(f"{path}?search=nothing", headers={"Authorization": "Bearer key-of-ada"})
        assert found["data"] == []
