"""Keys with names: the name owns what is stored and sealed, whichever of its keys was used."""

from collections.abc import AsyncIterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs
from support.background import Background, held_back
from support.engine import MockEngine, answer, chunk, text
from support.gateway import DEFAULTS, GatewayUnderTest, running_gateway
from support.sockets import connected

from antiphon.settings.settings import Settings
from antiphon.store import Store, open_store
from antiphon.store.memory.store import MemoryStore
from antiphon.store.records import Record

SEALED = ["reasoning.encrypted_content"]


def sent(key: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {key}"}}


def hashed(key: str) -> str:
    """As `printf %s KEY | b2sum -l 128` prints it."""
    return "blake2b:" + blake2b(key.encode(), digest_size=16).hexdigest()


@pytest_asyncio.fixture(params=["memory:", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}" if request.param == "sqlite" else request.param) as opened:
        yield opened


async def created(gateway: GatewayUnderTest, key: str, **fields: Any) -> dict[str, Any]:
    status, response = await gateway.post({"model": "mock", "input": "Hi", **fields}, **sent(key))
    assert status == 200, response
    return response


async def status_of(gateway: GatewayUnderTest, key: str, id: str) -> int:
    return (await gateway.get(f"/v1/responses/{id}", **sent(key)))[0]


# ---- names -----------------------------------------------------------------------------------------------------------


async def test_every_key_of_a_name_sees_what_the_others_stored(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": ("old", "new"), "bob": ("other",)}, api_key=("unnamed",)) as gateway:
        id = (await created(gateway, "old"))["id"]
        assert [await status_of(gateway, key, id) for key in ("old", "new", "other", "unnamed", "none")] == [
            200,
            200,
            404,
            404,
            401,
        ]
        assert await gateway.gateway.store.owner_of(id) == "ada"


async def test_a_key_can_be_given_as_a_hash(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": (hashed("secret"),)}, admin_key=(hashed("boss"),)) as gateway:
        id = (await created(gateway, "secret"))["id"]
        assert [await status_of(gateway, key, id) for key in ("secret", "boss")] == [200, 200]
        # The hash itself is no key.
        for wrong in (hashed("secret"), hashed("secret").removeprefix("blake2b:"), "secret "[:-2], "ada"):
            assert await status_of(gateway, wrong, id) == 401


async def test_a_key_with_a_name_is_needed_like_any_other(engine: MockEngine) -> None:
    for keys in ({"keys": {"ada": ("secret",)}}, {"admin_key": ("secret",)}):
        async with running_gateway(engine, **keys) as gateway:
            assert (await gateway.post({"input": "Hi"}))[0] == 401
            await created(gateway, "secret")


# ---- keys that get a name --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [("one", "two"), (hashed("one"), "two")], ids=["plain", "hashed"])
async def test_what_a_key_stored_before_it_had_a_name_belongs_to_the_name(
    engine: MockEngine, store: Store, given: tuple[str, ...]
) -> None:
    async with running_gateway(engine, shares=store, api_key=("one", "eve")) as gateway:
        first = await created(gateway, "one")
        foreign = await created(gateway, "eve")
        _, conversation = await gateway.post(
            {"items": [{"role": "user", "content": "Hello"}]}, "/v1/conversations", **sent("one")
        )
    async with running_gateway(engine, shares=store, keys={"ada": given}, api_key=("eve",)) as gateway:
        # With the new key: the old one is not used any more.
        assert await status_of(gateway, "two", first["id"]) == 200
        assert await status_of(gateway, "two", foreign["id"]) == 404
        assert await status_of(gateway, "eve", foreign["id"]) == 200
        await created(gateway, "two", previous_response_id=first["id"])
        assert [message["content"] for message in engine.last["messages"]] == ["Hi", "Hello world", "Hi"]
        await created(gateway, "two", conversation=conversation["id"])
        assert [message["content"] for message in engine.last["messages"]] == ["Hello", "Hi"]
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        await created(gateway, "two", input=[reference, {"role": "user", "content": "Go on"}])
        assert [message["content"] for message in engine.last["messages"]] == ["Hello world", "Go on"]
    # Without the old key: it was needed only once.
    async with running_gateway(engine, shares=store, keys={"ada": ("two",)}) as gateway:
        assert await status_of(gateway, "two", first["id"]) == 200


async def test_a_key_that_gets_a_name_while_it_is_used_loses_nothing(engine: MockEngine, store: Store) -> None:
    scripts = [held_back("Hel", "lo") for _ in range(3)]
    engine.will(text("First."), *(script for script, _ in scripts))
    async with running_gateway(engine, shares=store, api_key=("one",)) as gateway:
        before = Settings(**(DEFAULTS | {"upstream": (engine.url,), "port": 0, "api_key": ("one",)}))
        first = await created(gateway, "one")
        _, conversation = await gateway.post({}, "/v1/conversations", **sent("one"))
        background = Background(gateway, **sent("one"))
        queued = await background.create()
        await engine.asked.wait()
        fields = [{"previous_response_id": first["id"]}, {"conversation": conversation["id"]}]
        bodies = [{"model": "mock", "input": "Hi", "stream": True, **each} for each in fields]
        async with (
            gateway.client.post(gateway.url + "/v1/responses", json=bodies[0], **sent("one")) as chained,
            gateway.client.post(gateway.url + "/v1/responses", json=bodies[1], **sent("one")) as spoken,
            gateway.client.get(f"{gateway.url}/v1/responses/{queued['id']}?stream=true", **sent("one")) as followed,
        ):
            await chained.content.readuntil(b"output_text.delta")
            await spoken.content.readuntil(b"output_text.delta")
            await followed.content.readuntil(b"output_text.delta")

            await gateway.reload(structs.replace(before, api_key=(), keys={"ada": ("one", "two")}))
            assert await status_of(gateway, "two", first["id"]) == 200
            assert (await background.get(queued["id"]))["status"] == "in_progress"
            for _, go_on in scripts:
                go_on.set()
            for stream in (chained, spoken, followed):
                assert b"event: response.completed" in await stream.content.read()
        assert (await background.ended(queued["id"]))["status"] == "completed"
        _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items", **sent("two"))
        assert len(items["data"]) == 2
        owners = [await store.owner_of(each) for each in (first["id"], queued["id"], conversation["id"])]
        assert owners == ["ada", "ada", "ada"]


async def test_a_key_that_gets_a_name_keeps_the_requests_that_it_has_sent(engine: MockEngine) -> None:
    settings: dict[str, Any] = {"api_key": ("one",), "key_requests_per_minute": 2}
    before = Settings(upstream=(engine.url,), port=0, **(DEFAULTS | settings))
    async with running_gateway(engine, **settings) as gateway:
        await created(gateway, "one")
        await gateway.reload(structs.replace(before, api_key=(), keys={"ada": ("one", "two")}))
        await created(gateway, "two")
        assert gateway.headers["x-ratelimit-remaining-requests"] == "0"
        status, body = await gateway.post({"model": "mock", "input": "Hi"}, **sent("one"))
        assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")


class MovingStore(MemoryStore):
    """Gives what it has to another owner, as soon as it was read once more."""

    def __init__(self) -> None:
        super().__init__()
        self.moves_to: str | None = None

    async def get(self, owner: str, id: str, *, output: bool = True) -> Record | None:
        record = await super().get(owner, id, output=output)
        if record is not None and self.moves_to is not None:
            name, self.moves_to = self.moves_to, None
            await self.move_owner(owner, name)
        return record


@pytest.mark.parametrize("status", ["queued", "completed"])
async def test_a_response_is_deleted_although_its_key_gets_a_name_meanwhile(engine: MockEngine, status: str) -> None:
    store = MovingStore()
    async with running_gateway(engine, shares=store, api_key=("one",), background_workers=0) as gateway:
        response = await Background(gateway, **sent("one")).create() if status == "queued" else await created(gateway, "one")
        store.moves_to = "ada"
        deleted = await gateway.get(f"/v1/responses/{response['id']}", method="DELETE", **sent("one"))
        assert deleted == (200, {"id": response["id"], "object": "response", "deleted": True})
        assert await store.owner_of(response["id"]) is None


async def test_a_response_is_cancelled_although_its_key_gets_a_name_meanwhile(engine: MockEngine) -> None:
    store, (script, _) = MovingStore(), held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, shares=store, api_key=("one",)) as gateway:
        background = Background(gateway, **sent("one"))
        running = await background.create()
        await engine.asked.wait()
        store.moves_to = "ada"
        assert (await background.cancel(running["id"]))["status"] == "cancelled"
        await engine.cancelled.wait()


async def test_a_response_that_ends_after_its_key_got_a_name_can_be_continued_at_once(engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    async with running_gateway(engine, api_key=("one",)) as gateway:
        before = Settings(**(DEFAULTS | {"upstream": (engine.url,), "port": 0, "api_key": ("one",)}))
        body = {"model": "mock", "input": "Hi", "stream": True}
        async with gateway.client.post(gateway.url + "/v1/responses", json=body, **sent("one")) as stream:
            await stream.content.readuntil(b"output_text.delta")

            await gateway.reload(structs.replace(before, keys={"ada": ("one",)}))
            go_on.set()
            raw = await stream.content.read()
        id = raw.partition(b'"response":{"id":"')[2].partition(b'"')[0].decode()
        await created(gateway, "one", previous_response_id=id)
        assert [message["content"] for message in engine.last["messages"]] == ["Hi", "Hello", "Hi"]


# ---- WebSockets ------------------------------------------------------------------------------------------------------


async def test_a_key_that_is_removed_is_refused_on_an_open_websocket_too(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("one", "two")) as gateway:
        settings = Settings(**(DEFAULTS | {"upstream": (engine.url,), "port": 0, "api_key": ("two",)}))
        async with connected(gateway, **sent("one")) as socket:
            await socket.create()
            await gateway.reload(settings)
            error = await socket.refused()
            assert (error["status"], error["error"]["code"]) == (401, "invalid_api_key")
        assert len(engine.requests) == 1


async def test_a_websocket_whose_key_got_a_name_shows_the_rate_of_the_name(engine: MockEngine) -> None:
    before = Settings(upstream=(engine.url,), port=0, api_key=("one",), key_requests_per_minute=2, **DEFAULTS)
    async with (
        running_gateway(engine, api_key=("one",), key_requests_per_minute=2) as gateway,
        connected(gateway, **sent("one")) as socket,
    ):
        await gateway.reload(structs.replace(before, api_key=(), keys={"ada": ("one",)}))
        await socket.create()
        await socket.create()
        error = await socket.refused()
        assert (error["status"], error["headers"]["x-ratelimit-remaining-requests"]) == (429, "0")


# ---- the admin key ---------------------------------------------------------------------------------------------------


async def test_the_admin_key_reads_cancels_and_deletes_what_others_stored(engine: MockEngine) -> None:
    script, _ = held_back("Hel", "lo")
    keys: dict[str, Any] = {"keys": {"ada": ("a",)}, "api_key": ("b",), "admin_key": ("boss",)}
    async with running_gateway(engine, **keys) as gateway:
        boss = sent("boss")
        for key in ("a", "b"):
            response = await created(gateway, key)
            path = f"/v1/responses/{response['id']}"
            assert (await gateway.get(path, **boss))[1] == response
            assert len((await gateway.get(path + "/input_items", **boss))[1]["data"]) == 1
            assert (await gateway.get(path, method="DELETE", **boss))[0] == 200
            assert await status_of(gateway, key, response["id"]) == 404
            _, conversation = await gateway.post(
                {"items": [{"role": "user", "content": "Hello"}, {"role": "user", "content": "Again"}]},
                "/v1/conversations",
                **sent(key),
            )
            path = f"/v1/conversations/{conversation['id']}"
            assert (await gateway.get(path, **boss))[1] == conversation
            items = (await gateway.get(path + "/items", **boss))[1]["data"]
            assert (await gateway.get(f"{path}/items/{items[0]['id']}", **boss))[1] == items[0]
            assert (await gateway.get(f"{path}/items/{items[0]['id']}", method="DELETE", **boss))[0] == 200
            assert len((await gateway.get(path + "/items", **sent(key)))[1]["data"]) == 1
            assert (await gateway.get(path, method="DELETE", **boss))[0] == 200
            assert (await gateway.get(path, **sent(key)))[0] == 404
        engine.will(script)
        queued = await Background(gateway, **sent("a")).create()
        await engine.asked.wait()
        assert (await Background(gateway, **boss).cancel(queued["id"]))["status"] == "cancelled"
        async with gateway.client.get(f"{gateway.url}/v1/responses/{queued['id']}?stream=true", **boss) as stream:
            assert stream.status == 200
            assert b"[DONE]" in await stream.read()


async def test_what_the_admin_key_creates_belongs_to_admin_and_it_does_not_write_as_others(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": ("a",)}, admin_key=("boss",)) as gateway:
        own = await created(gateway, "boss")
        assert await gateway.gateway.store.owner_of(own["id"]) == "admin"
        assert await status_of(gateway, "a", own["id"]) == 404
        await created(gateway, "boss", previous_response_id=own["id"])
        theirs = await created(gateway, "a")
        _, conversation = await gateway.post({}, "/v1/conversations", **sent("a"))
        path = f"/v1/conversations/{conversation['id']}"
        boss, message = sent("boss"), {"role": "user", "content": "Hello"}
        attempts = [
            await gateway.post({"input": "Hi", "previous_response_id": theirs["id"]}, **boss),
            await gateway.post({"input": "Hi", "conversation": conversation["id"]}, **boss),
            await gateway.post({"items": [message]}, path + "/items", **boss),
            await gateway.post({"metadata": {"a": "b"}}, path, **boss),
        ]
        assert [status for status, _ in attempts] == [400, 404, 404, 404]


# ---- seals -----------------------------------------------------------------------------------------------------------

OLD_SEAL = (Path(__file__).parents[1] / "gateway" / "state" / "seals" / "without_owner.txt").read_text().strip()


def thought(seal: str) -> list[dict[str, Any]]:
    kept = {"type": "reasoning", "summary": [], "encrypted_content": seal}
    return [
        {"role": "user", "content": "Hi"},
        kept,
        {"role": "assistant", "content": "Yes"},
        {"role": "user", "content": "So?"},
    ]


async def sealed_by(gateway: GatewayUnderTest, engine: MockEngine, key: str) -> str:
    engine.will(answer(chunk({"reasoning": "I think so."}), chunk({"content": "Yes"})))
    seal: str = (await created(gateway, key, include=SEALED))["output"][0]["encrypted_content"]
    return seal


async def opens(gateway: GatewayUnderTest, engine: MockEngine, key: str, seal: str) -> bool:
    await created(gateway, key, input=thought(seal))
    opened = "I think so." in str(engine.last["messages"])
    assert opened == ("sealed reasoning" not in gateway.notice)
    return opened


async def test_a_seal_opens_for_its_owner_only(engine: MockEngine) -> None:
    keys: dict[str, Any] = {"keys": {"ada": ("a", "a2"), "bob": ("b",)}, "api_key": ("c", "d"), "admin_key": ("boss",)}
    async with running_gateway(engine, **keys) as gateway:
        of_ada, of_c = await sealed_by(gateway, engine, "a"), await sealed_by(gateway, engine, "c")
        assert [await opens(gateway, engine, key, of_ada) for key in ("a", "a2", "b", "c", "boss")] == [
            True,
            True,
            False,
            False,
            False,
        ]
        assert [await opens(gateway, engine, key, of_c) for key in ("c", "d", "a")] == [True, False, False]


async def test_a_seal_that_was_made_before_its_key_got_a_name_still_opens(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("one",)) as gateway:
        seal = await sealed_by(gateway, engine, "one")
    async with running_gateway(engine, keys={"ada": ("one", "two"), "bob": ("b",)}) as gateway:
        assert [await opens(gateway, engine, key, seal) for key in ("one", "two", "b")] == [True, True, False]


async def test_a_seal_of_a_version_without_owners_still_opens(engine: MockEngine) -> None:
    async with running_gateway(engine, keys={"ada": ("a",)}, api_key=("c",)) as gateway:
        assert [await opens(gateway, engine, key, OLD_SEAL) for key in ("a", "c")] == [True, True]
    async with running_gateway(engine) as gateway:
        assert await opens(gateway, engine, "any", OLD_SEAL)


async def test_a_stored_thought_is_sealed_for_the_one_who_fetches_it(engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning": "I think so."}), chunk({"content": "Yes"})))
    async with running_gateway(engine, keys={"ada": ("a",)}, admin_key=("boss",)) as gateway:
        id = (await created(gateway, "a"))["id"]
        _, response = await gateway.get(f"/v1/responses/{id}?include[]={SEALED[0]}", **sent("a"))
        seal = response["output"][0]["encrypted_content"]
        assert [await opens(gateway, engine, key, seal) for key in ("a", "boss")] == [True, False]


async def test_a_compaction_opens_for_its_owner_only(engine: MockEngine) -> None:
    engine.will(text("The user wants a file."))
    async with running_gateway(engine, keys={"ada": ("a",), "bob": ("b",)}) as gateway:
        body = {"model": "mock", "input": [{"role": "user", "content": "Make a file"}]}
        _, compacted = await gateway.post(body, "/v1/responses/compact", **sent("a"))
        window = [*compacted["output"][-1:], {"role": "user", "content": "Go on"}]
        await created(gateway, "a", input=window)
        assert "wants a file" in str(engine.last["messages"])
        await gateway.post({"model": "mock", "input": window}, **sent("b"))
        assert "wants a file" not in str(engine.last["messages"])
