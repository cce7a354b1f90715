"""One key's attempts on another's objects: each is answered as if they did not exist, and changes nothing."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from support.background import Background, held_back
from support.engine import MockEngine, answer, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected

from antiphon.gateway.state.owners import shown_owner
from antiphon.ids import hash_of_key
from antiphon.settings.tables import PriceSettings, UsageSettings
from antiphon.store.account_records import DAY

ADA: dict[str, Any] = {"headers": {"Authorization": "Bearer ada's"}}
BOB: dict[str, Any] = {"headers": {"Authorization": "Bearer bob's"}}
KEYS: dict[str, Any] = {"keys": {"ada": ("ada's",), "bob": ("bob's",)}}
UNNAMED: dict[str, Any] = {"api_key": ("ada's", "bob's")}
SECRET = "ada's secret"


class Objects(NamedTuple):
    """Ids."""

    response: str
    output_item: str
    thought: str
    running: str
    conversation: str
    item: str


NONE = Objects("resp_none", "msg_none", "rs_none", "resp_nothing", "conv_none", "msg_nothing")


class Attempt(NamedTuple):
    name: str
    path: str
    body: dict[str, Any] | None = None
    method: str = "POST"


def read(name: str, path: str) -> Attempt:
    return Attempt(name, path, method="GET")


def create(name: str, **fields: Any) -> Attempt:
    return Attempt(name, "/v1/responses", {"model": "mock", "input": "Hi", **fields})


def reference(id: str) -> list[dict[str, str]]:
    return [{"type": "item_reference", "id": id}, {"role": "user", "content": "Repeat it"}]


def attempts(on: Objects) -> list[Attempt]:
    response, running = f"/v1/responses/{on.response}", f"/v1/responses/{on.running}"
    conversation = f"/v1/conversations/{on.conversation}"
    message = {"role": "user", "content": "Hi"}
    return [
        read("get a response", response),
        read("get it with seals", response + "?include[]=reasoning.encrypted_content"),
        read("stream it", response + "?stream=true"),
        read("list its input", response + "/input_items"),
        Attempt("delete it", response, method="DELETE"),
        Attempt("cancel it", response + "/cancel"),
        read("get a running response", running),
        read("follow it", running + "?stream=true"),
        read("follow it from an event on", running + "?stream=true&starting_after=0"),
        read("list its input while it runs", running + "/input_items"),
        Attempt("cancel it while it runs", running + "/cancel"),
        Attempt("delete it while it runs", running, method="DELETE"),
        create("continue a response", previous_response_id=on.response),
        create("continue it as a stream", previous_response_id=on.response, stream=True),
        create("continue it in the background", previous_response_id=on.response, background=True),
        create("continue it without storing", previous_response_id=on.response, store=False),
        create("continue a running response", previous_response_id=on.running),
        create("speak in a conversation", conversation=on.conversation),
        create("speak in it as a stream", conversation={"id": on.conversation}, stream=True),
        create("speak in it in the background", conversation=on.conversation, background=True),
        create("refer to an output item", input=reference(on.output_item)),
        create("refer to an item of a conversation", input=reference(on.item)),
        Attempt("compact a response", "/v1/responses/compact", {"model": "mock", "previous_response_id": on.response}),
        Attempt("count a response", "/v1/responses/input_tokens", {"model": "mock", "previous_response_id": on.response}),
        Attempt("count a conversation", "/v1/responses/input_tokens", {"model": "mock", "conversation": on.conversation}),
        read("get a conversation", conversation),
        Attempt("change a conversation", conversation, {"metadata": {"by": "bob"}}),
        Attempt("delete a conversation", conversation, method="DELETE"),
        read("list the items of a conversation", conversation + "/items"),
        Attempt("add to a conversation", conversation + "/items", {"items": [message]}),
        read("get an item of a conversation", f"{conversation}/items/{on.item}"),
        Attempt("delete an item of a conversation", f"{conversation}/items/{on.item}", method="DELETE"),
    ]


NAMES = [attempt.name for attempt in attempts(NONE)]


@asynccontextmanager
async def objects_of_ada(engine: MockEngine, keys: dict[str, Any]) -> AsyncIterator[tuple[GatewayUnderTest, Objects]]:
    """A response with a thought, one that is running until the end, and a conversation."""
    script, go_on = held_back(SECRET, " and more")
    engine.will(answer(chunk({"reasoning": SECRET}), chunk({"content": SECRET})), script)
    async with running_gateway(engine, **keys) as gateway:
        _, response = await gateway.post({"model": "mock", "input": SECRET}, **ADA)
        message = {"role": "user", "content": SECRET}
        _, conversation = await gateway.post({"items": [message]}, "/v1/conversations", **ADA)
        _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items", **ADA)
        background = Background(gateway, **ADA)
        running = await background.create(SECRET)
        async with gateway.client.get(f"{gateway.url}/v1/responses/{running['id']}?stream=true", **ADA) as followed:
            await followed.content.readuntil(b"output_text.delta")
        thought, said = response["output"]
        yield (
            gateway,
            Objects(response["id"], said["id"], thought["id"], running["id"], conversation["id"], items["data"][0]["id"]),
        )
        go_on.set()
        ended = await background.ended(running["id"])
        assert ended["output"][0]["content"][0]["text"] == SECRET + " and more"


async def everything(gateway: GatewayUnderTest, on: Objects) -> list[Any]:
    paths = [f"responses/{on.response}", f"responses/{on.response}/input_items", f"conversations/{on.conversation}"]
    return [await gateway.get(f"/v1/{path}", **ADA) for path in (*paths, f"conversations/{on.conversation}/items")]


async def made(gateway: GatewayUnderTest, attempt: Attempt) -> tuple[int, Any]:
    if attempt.body is None:
        return await gateway.get(attempt.path, method=attempt.method, **BOB)
    return await gateway.post(attempt.body, attempt.path, **BOB)


def hidden(error: dict[str, Any], on: Objects) -> str:
    """Its words, without the ids that the client has sent."""
    said = str(error)
    for id in on:
        said = said.replace(id, "ID")
    return said


@pytest.mark.parametrize("keys", [KEYS, UNNAMED], ids=["named", "unnamed"])
async def test_another_key_gets_the_answer_for_what_does_not_exist(engine: MockEngine, keys: dict[str, Any]) -> None:
    async with objects_of_ada(engine, keys) as (gateway, on):
        asked, before = len(engine.requests), await everything(gateway, on)
        for attempt, on_nothing in zip(attempts(on), attempts(NONE), strict=True):
            status, body = await made(gateway, attempt)
            status_of_nothing, nothing = await made(gateway, on_nothing)
            assert status in (400, 404), attempt.name
            assert (status, hidden(body, on)) == (status_of_nothing, hidden(nothing, NONE)), attempt.name
            assert SECRET not in str(body), attempt.name
        assert await everything(gateway, on) == before
        assert len(engine.requests) == asked, "no engine was asked"
    assert len(NAMES) == len(set(NAMES)) == 32


async def test_another_key_gets_no_thought_by_its_id(engine: MockEngine) -> None:
    async with objects_of_ada(engine, KEYS) as (gateway, on):
        thought = {"type": "reasoning", "id": on.thought, "summary": []}
        question = {"role": "user", "content": "Repeat it"}
        await gateway.post({"model": "mock", "input": [question, thought, question]}, **BOB)
        assert SECRET not in str(engine.last["messages"])
        _, conversation = await gateway.post({"items": [thought]}, "/v1/conversations", **BOB)
        _, items = await gateway.get(f"/v1/conversations/{conversation['id']}/items", **BOB)
        assert SECRET not in str(items)


async def test_another_key_gets_nothing_over_a_websocket(engine: MockEngine) -> None:
    async with objects_of_ada(engine, KEYS) as (gateway, on):
        asked = len(engine.requests)
        async with connected(gateway, **BOB) as socket:
            for fields, code in (
                ({"previous_response_id": on.response}, "previous_response_not_found"),
                ({"previous_response_id": on.running}, "previous_response_not_found"),
                ({"conversation": on.conversation}, "conversation_not_found"),
                ({"input": reference(on.output_item)}, "item_not_found"),
                ({"input": reference(on.item)}, "item_not_found"),
            ):
                assert (await socket.refused(**fields))["error"]["code"] == code
        assert len(engine.requests) == asked


async def test_what_is_not_stored_is_known_to_its_own_websocket_only(engine: MockEngine) -> None:
    engine.will(text(SECRET))
    async with running_gateway(engine, **KEYS) as gateway, connected(gateway, **ADA) as ada:
        response = await ada.create(store=False)
        for options in (BOB, ADA):
            async with connected(gateway, **options) as other:
                error = await other.refused(previous_response_id=response["id"])
                assert error["error"]["code"] == "previous_response_not_found"
        assert (await ada.create(previous_response_id=response["id"]))["status"] == "completed"


async def test_another_keys_ids_cannot_be_taken(engine: MockEngine) -> None:
    """An item with the id of another's item is an item of one's own."""
    async with objects_of_ada(engine, KEYS) as (gateway, on):
        before = await everything(gateway, on)
        forged = {"type": "message", "id": on.item, "role": "user", "content": "Forged"}
        await gateway.post({"items": [forged]}, "/v1/conversations", **BOB)
        await gateway.post({"model": "mock", "input": [forged | {"id": on.output_item}]}, **BOB)
        assert await everything(gateway, on) == before
        await gateway.post({"model": "mock", "input": reference(on.item)}, **ADA)
        assert engine.last["messages"][0]["content"] == SECRET


# How a query may name keys.
NAMINGS = ("api_key_ids", "api_key_ids[]", "api_key_id", "owner", "user_id")


def owners_of(keys: dict[str, Any]) -> tuple[str, ...]:
    hash = hash_of_key(b"ada's")
    return ("ada", "ada,bob", "admin", "*") if "keys" in keys else (hash, shown_owner(hash), "", "*")


@pytest.mark.parametrize("keys", [KEYS, UNNAMED], ids=["named", "unnamed"])
async def test_another_keys_usage_is_not_seen_however_it_is_asked_for(engine: MockEngine, keys: dict[str, Any]) -> None:
    prices = UsageSettings(prices={"*": PriceSettings(input=1.0, output=1.0)})
    async with running_gateway(engine, **keys, usage=prices, admin_key=("boss",)) as gateway:
        for fields in ({}, {"store": False}, {"background": True}):
            await gateway.post({"model": "mock", "input": SECRET, **fields}, **ADA)
        await gateway.post({"model": "mock", "input": SECRET}, "/v1/embeddings", **ADA)
        seen = {}
        for name, options in (("ada", ADA), ("bob", BOB), ("boss", {"headers": {"Authorization": "Bearer boss"}})):
            found: list[Any] = []
            for path in ("usage/completions", "usage/embeddings", "costs"):
                for naming in ("", *(f"&{each}={owner}" for each in NAMINGS for owner in owners_of(keys))):
                    asked = f"/v1/organization/{path}?start_time={int(time.time()) - DAY}&group_by=api_key_id{naming}"
                    status, page = await gateway.get(asked, **options)
                    assert status == 200, page
                    found += [result for bucket in page["data"] for result in bucket["results"]]
            seen[name] = len(found)
        assert seen["bob"] == 0
        assert seen["ada"] > 0
        assert seen["boss"] > 0
