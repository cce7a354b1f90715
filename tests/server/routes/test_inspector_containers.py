"""The inspector lists the containers of a gateway: of a key its own, for the admin key all of them."""

from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from support.engine import MockEngine
from support.gateway import GatewayUnderTest, running_gateway
from support.kernels import ScriptedKernels, interpreting

from antiphon.settings.tables import ContainerSettings

CONTAINERS = "/inspector/stored/containers"
KEYS: dict[str, Any] = {"keys": {"ada": ("key-of-ada",), "bob": ("key-of-bob",)}, "admin_key": ("key-of-admin",)}


async def make(gateway: GatewayUnderTest, name: str, key: str = "any", **files: bytes) -> str:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0) as client:
        made = await client.containers.create(name=name)
        for filename, content in files.items():
            await client.containers.files.create(made.id, file=(filename, content))
        return made.id


async def test_containers_are_listed_with_their_files_and_expiry(engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(), tmp_path) as gateway:
        made = await make(gateway, "Plots", data=b"12345", more=b"6")
        status, page = await gateway.get(CONTAINERS)
    (row,) = page["data"]
    assert (status, page["has_more"]) == (200, False)
    assert (row["id"], row["preview"], row["status"], row["owner"]) == (made, "Plots", "running", "")
    assert (row["files"], row["bytes"], row["memory_limit"]) == (2, 6, "1g")
    assert row["expires_at"] == row["last_active_at"] + 20 * 60


async def test_pages_of_containers_follow_each_other_and_a_search_finds_names(engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(), tmp_path) as gateway:
        made = {await make(gateway, f"Number {number}") for number in range(3)}
        _, first = await gateway.get(CONTAINERS, params={"limit": 2})
        _, second = await gateway.get(CONTAINERS, params={"limit": 2, "after": first["last_id"]})
        _, found = await gateway.get(CONTAINERS, params={"search": "number 1"})
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert {row["id"] for row in [*first["data"], *second["data"]]} == made
    assert [row["preview"] for row in found["data"]] == ["Number 1"]


async def test_a_key_sees_its_own_containers_and_the_admin_key_all(engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(), tmp_path, **KEYS) as gateway:
        for name in ("ada", "bob"):
            await make(gateway, name, key=f"key-of-{name}")
        seen = {}
        for name in ("ada", "bob", "admin"):
            _, page = await gateway.get(CONTAINERS, headers={"Authorization": f"Bearer key-of-{name}"})
            seen[name] = {row["owner"] for row in page["data"]}
        assert (await gateway.get(CONTAINERS))[0] == 401
    assert seen == {"ada": {"ada"}, "bob": {"bob"}, "admin": {"ada", "bob"}}


async def test_names_of_containers_are_hidden_where_bodies_are(engine: MockEngine, tmp_path: Path) -> None:
    async with interpreting(engine, ScriptedKernels(), tmp_path, inspector_bodies=False) as gateway:
        await make(gateway, "secret")
        _, page = await gateway.get(CONTAINERS)
    assert [row["preview"] for row in page["data"]] == ["[6 characters]"]


async def test_a_gateway_without_containers_lists_none(engine: MockEngine) -> None:
    async with running_gateway(engine, containers=ContainerSettings(enabled=False)) as gateway:
        assert await gateway.get(CONTAINERS) == (200, {"object": "list", "data": [], "has_more": False, "last_id": None})
