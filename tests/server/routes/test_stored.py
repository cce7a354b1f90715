"""A response that was stored can be continued, fetched and deleted, by its owner."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, Refusal, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.stores import DAY, interposed, record

from antiphon.errors import StoreUnavailable
from antiphon.store import open_store

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


# ---- continued -------------------------------------------------------------------------------------------------------


async def test_a_response_is_continued_with_its_whole_history(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("It is Ada."), text("Ada."))
    first = await gateway.create("What is your name?", instructions="Be brief.")
    assert first["store"] is True
    second = await gateway.create("Again?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    # Earlier instructions are not inherited.
    assert engine.last["messages"] == [
        {"role": "user", "content": "What is your name?"},
        {"role": "assistant", "content": "It is Ada."},
        {"role": "user", "content": "Again?"},
    ]


async def test_calls_and_reasoning_are_part_of_the_history(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    thought = chunk({"reasoning_content": "I should look."})
    engine.will(answer(thought, call("get_weather", "{}", id="c1"), finish="tool_calls"), text("It rains."), text("Yes."))
    first = await gateway.create("Weather?", tools=TOOLS)
    output = [{"type": "function_call_output", "call_id": "c1", "output": "rain"}]
    second = await gateway.create(output, tools=TOOLS, previous_response_id=first["id"])
    roles = [message["role"] for message in engine.last["messages"]]
    assert roles == ["user", "assistant", "tool"]
    assert "I should look." in str(engine.last["messages"][1])
    before = engine.last["messages"]
    await gateway.create("Really?", tools=TOOLS, previous_response_id=second["id"])
    assert engine.last["messages"][: len(before)] == before


async def test_the_terminal_event_is_sent_after_the_response_was_stored(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    events = await gateway.stream("Hi")
    engine.will(text("Again."))
    await gateway.create("Again", previous_response_id=events[-1]["response"]["id"])
    assert len(engine.last["messages"]) == 3


async def test_one_response_can_be_continued_twice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create("One")
    for word in ("Two", "Three"):
        await gateway.create(word, previous_response_id=first["id"])
        assert [message["content"] for message in engine.last["messages"]] == ["One", "Hello world", word]


async def test_a_response_that_was_not_stored_cannot_be_continued(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create("Hi", store=False)
    assert first["store"] is False
    for id in (first["id"], "resp_nowhere"):
        status, body = await gateway.post({"input": "Hi", "previous_response_id": id})
        assert status == 400
        assert body["error"]["code"] == "previous_response_not_found"
        assert body["error"]["param"] == "previous_response_id"


async def test_an_output_without_its_call_is_rejected_by_its_place_in_the_input(gateway: GatewayUnderTest) -> None:
    first = await gateway.create("Hi")
    output = [{"type": "function_call_output", "call_id": "nobody", "output": ""}]
    status, body = await gateway.post({"input": output, "previous_response_id": first["id"]})
    assert status == 400
    assert body["error"]["param"] == "input[0].call_id"


async def test_a_failed_response_is_stored_too(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(chunk({"content": "Hal"}))
    failed = (await gateway.stream("Hi"))[-1]["response"]
    assert failed["status"] == "failed"
    status, kept = await gateway.get(f"/v1/responses/{failed['id']}")
    assert (status, kept["status"]) == (200, "failed")


async def test_a_request_that_its_engine_rejects_stores_nothing(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "no"}}))
    status, _ = await gateway.post({"input": "Hi"})
    assert status == 400


# ---- fetched, listed, deleted ----------------------------------------------------------------------------------------


async def test_a_stored_response_is_fetched_as_it_was_sent(gateway: GatewayUnderTest) -> None:
    response = await gateway.create("Hi", metadata={"a": "b"}, tools=TOOLS)
    status, fetched = await gateway.get(f"/v1/responses/{response['id']}")
    assert status == 200
    assert fetched == response


async def test_a_deleted_response_cannot_be_fetched(gateway: GatewayUnderTest) -> None:
    first = await gateway.create("One")
    path = f"/v1/responses/{first['id']}"
    assert await gateway.get(path, method="DELETE") == (200, {"id": first["id"], "object": "response", "deleted": True})
    for method in ("GET", "DELETE"):
        status, body = await gateway.get(path, method=method)
        assert (status, body["error"]["code"]) == (404, "response_not_found")
    status, body = await gateway.post({"input": "Three", "previous_response_id": first["id"]})
    assert (status, body["error"]["code"]) == (400, "previous_response_not_found")


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_a_response_whose_ancestor_was_deleted_cannot_be_continued(
    engine: MockEngine, tmp_path: Path, scheme: str
) -> None:
    async with running_gateway(engine, store=f"{scheme}:{tmp_path / 'responses.db'}") as gateway:
        first = await gateway.create("One")
        second = await gateway.create("Two", previous_response_id=first["id"])
        third = await gateway.create("Three", previous_response_id=second["id"])
        await gateway.get(f"/v1/responses/{first['id']}", method="DELETE")
        for previous in (second, third):
            for fields in ({}, {"background": True}):
                status, body = await gateway.post({"input": "Four", "previous_response_id": previous["id"], **fields})
                assert (status, body["error"]["code"]) == (400, "previous_response_not_found")
                assert body["error"]["param"] == "previous_response_id"
                assert first["id"] in body["error"]["message"]


async def test_a_chain_starts_after_a_response_that_is_no_longer_stored(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    store = gateway.gateway.store
    now = int(time.time())
    link = {"settings": b"{}", "created_at": now, "input": b"[]", "output": b"[]"}
    await store.put(record("resp_2", "", parent="resp_1", expires_at=now + 1000, **link))
    response = await gateway.create("Go on", previous_response_id="resp_2")
    assert [message["content"] for message in engine.last["messages"]] == ["Go on"]
    assert gateway.notice == "the history begins with resp_2: what came before it is no longer stored"
    await gateway.create("Go on", previous_response_id=response["id"], background=True)
    assert "the history begins with resp_2" in gateway.notice


async def expiry(gateway: GatewayUnderTest, *ids: str) -> list[int]:
    """In days from now."""
    records = [await gateway.gateway.store.get("", id) for id in ids]
    return [round((each.expires_at - time.time()) / DAY) for each in records if each is not None]


@pytest.mark.parametrize("fields", [{}, {"background": True}, {"store": False}])
async def test_continuing_a_chain_keeps_all_of_it_stored(gateway: GatewayUnderTest, fields: dict[str, Any]) -> None:
    store, now = gateway.gateway.store, int(time.time())
    ids = ["resp_0", "resp_1", "resp_2"]
    for id, parent, days in zip(ids, [None, *ids], (5, 20, 30), strict=False):
        members = {"settings": b"{}", "created_at": now, "input": b"[]", "output": b"[]"}
        await store.put(record(id, "", parent=parent, expires_at=now + days * DAY, **members))
    if fields.get("background"):
        await Background(gateway).made("Hi", previous_response_id="resp_2")
    else:
        await gateway.create("Hi", previous_response_id="resp_2", **fields)
    assert await expiry(gateway, *ids) == [30, 30, 30]


async def test_a_chain_in_use_is_not_written_with_every_response(engine: MockEngine) -> None:
    kept: list[Any] = []
    store, interference = interposed()
    interference.instead["keep_until"] = lambda *given: kept.append(given)
    async with running_gateway(engine, shares=store) as gateway:
        response = await gateway.create("Hi")
        for _ in range(3):
            response = await gateway.create("Hi", previous_response_id=response["id"])
    assert kept == []


async def test_the_input_is_listed_page_by_page(gateway: GatewayUnderTest) -> None:
    items = [{"role": "user", "content": f"{number}"} for number in range(5)]
    response = await gateway.create(items)
    path = f"/v1/responses/{response['id']}/input_items"
    _, listed = await gateway.get(path)
    assert [item["content"][0]["text"] for item in listed["data"]] == ["4", "3", "2", "1", "0"]
    assert listed["has_more"] is False
    assert {item["type"] for item in listed["data"]} == {"message"}
    _, page = await gateway.get(f"{path}?limit=2&order=asc")
    assert [item["content"][0]["text"] for item in page["data"]] == ["0", "1"]
    assert page["has_more"] is True
    _, rest = await gateway.get(f"{path}?order=asc&after={page['last_id']}")
    assert [item["content"][0]["text"] for item in rest["data"]] == ["2", "3", "4"]
    _, before = await gateway.get(f"{path}?order=asc&limit=1&before={rest['first_id']}")
    assert [item["content"][0]["text"] for item in before["data"]] == ["1"]


@pytest.mark.parametrize(
    ("query", "param"), [("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=nobody", "after")]
)
async def test_an_impossible_page_is_rejected_by_name(gateway: GatewayUnderTest, query: str, param: str) -> None:
    response = await gateway.create("Hi")
    status, body = await gateway.get(f"/v1/responses/{response['id']}/input_items?{query}")
    assert (status, body["error"]["param"]) == (400, param)


async def test_only_a_background_response_can_be_cancelled(gateway: GatewayUnderTest) -> None:
    response = await gateway.create("Hi")
    status, body = await gateway.get(f"/v1/responses/{response['id']}/cancel", method="POST")
    assert (status, body["error"]["code"]) == (400, "not_a_background_response")
    status, body = await gateway.get("/v1/responses/resp_nowhere/cancel", method="POST")
    assert status == 404


# ---- whose it is -----------------------------------------------------------------------------------------------------


async def test_a_response_of_one_key_cannot_be_reached_by_another(engine: MockEngine) -> None:
    ours, theirs = ({"Authorization": f"Bearer {key}"} for key in ("ours", "theirs"))
    async with running_gateway(engine, api_key=("ours", "theirs")) as gateway:
        _, response = await gateway.post({"input": "Hi"}, headers=ours)
        path = f"/v1/responses/{response['id']}"
        for method, more in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
            status, _ = await gateway.get(path + more, method=method, headers=theirs)
            assert status == 404
        status, body = await gateway.post({"input": "Hi", "previous_response_id": response["id"]}, headers=theirs)
        assert (status, body["error"]["code"]) == (400, "previous_response_not_found")
        assert (await gateway.get(path, headers=ours))[0] == 200


# ---- a store that fails ----------------------------------------------------------------------------------------------


async def test_a_response_that_cannot_be_stored_fails(engine: MockEngine) -> None:
    async def fails(record: object) -> None:
        raise StoreUnavailable

    store, interference = interposed()
    interference.instead["put"] = fails
    async with running_gateway(engine, shares=store) as gateway:
        events = await gateway.stream("Hi")
        assert events[-1]["type"] == "response.failed"
        assert "store" in events[-1]["response"]["error"]["message"]
        status, body = await gateway.post({"input": "Hi"})
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        assert gateway.headers["Retry-After"]
        assert (await gateway.create("Hi", store=False))["status"] == "completed"


# ---- kept within bounds ----------------------------------------------------------------------------------------------


async def test_expired_responses_and_those_beyond_the_size_limit_are_removed(
    engine: MockEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = int(time.time())
    async with open_store(f"sqlite:{tmp_path / 'responses.db'}") as store:
        await store.put(record("expired", "", expires_at=now - 1))
        await store.put(record("older", "", expires_at=now + 1000, output=b" " * 200_000))
        await store.put(record("newer", "", expires_at=now + 2000, output=b" " * 200_000))
        async with running_gateway(engine, shares=store, store_max_bytes=350_000):
            while await store.get("", "older") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert await store.get("", "newer") is not None
            assert await store.sweep() == 0
    assert "store_too_large" in caplog.text
