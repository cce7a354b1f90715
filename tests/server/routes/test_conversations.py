"""Conversations: their items, and the responses that run in them, one at a time."""

import asyncio
from typing import Any

import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter
from support.background import Background, held_back
from support.engine import DONE, MockEngine, Writer, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway

HELLO = {"role": "user", "content": "Hello"}


async def created(gateway: GatewayUnderTest, **body: Any) -> dict[str, Any]:
    status, conversation = await gateway.post(body, "/v1/conversations")
    assert status == 200, conversation
    return conversation


async def texts(gateway: GatewayUnderTest, conversation: dict[str, Any]) -> list[str]:
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    return [item["content"][0]["text"] for item in listed["data"]]


async def test_a_conversation_is_created_changed_and_deleted(gateway: GatewayUnderTest) -> None:
    conversation = await created(gateway, metadata={"topic": "tea"}, items=[HELLO])
    path = f"/v1/conversations/{conversation['id']}"
    assert conversation["object"] == "conversation"
    assert await gateway.get(path) == (200, conversation)
    status, changed = await gateway.post({"metadata": {"topic": "coffee"}}, path)
    assert (status, changed["metadata"]) == (200, {"topic": "coffee"})
    assert await gateway.get(path, method="DELETE") == (
        200,
        {"id": conversation["id"], "object": "conversation.deleted", "deleted": True},
    )
    status, body = await gateway.get(path)
    assert (status, body["error"]["code"]) == (404, "conversation_not_found")


async def test_items_are_added_listed_fetched_and_deleted(gateway: GatewayUnderTest) -> None:
    conversation = await created(gateway)
    path = f"/v1/conversations/{conversation['id']}/items"
    status, added = await gateway.post({"items": [HELLO, {"role": "assistant", "content": "Hi"}]}, path)
    assert status == 200
    assert [item["role"] for item in added["data"]] == ["user", "assistant"]
    assert await texts(gateway, conversation) == ["Hello", "Hi"]
    first = added["data"][0]
    assert await gateway.get(f"{path}/{first['id']}") == (200, first)
    status, body = await gateway.get(f"{path}/{first['id']}", method="DELETE")
    assert (status, body["id"]) == (200, conversation["id"])
    assert await texts(gateway, conversation) == ["Hi"]
    status, body = await gateway.get(f"{path}/{first['id']}")
    assert (status, body["error"]["code"]) == (404, "item_not_found")


async def test_items_are_listed_as_the_api_has_them(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    conversation = await created(gateway, items=[HELLO, {"role": "assistant", "content": "Hi"}])
    engine.will(answer(chunk({"reasoning": "Hm."}), call("f", "{}", id="c"), finish="tool_calls"), text("Fine."))
    await gateway.create("Go on", conversation=conversation["id"], tools=[{"type": "function", "name": "f"}])
    output = {"type": "function_call_output", "call_id": "c", "output": {"type": "text", "text": "done"}}
    response = await gateway.create([output], conversation=conversation["id"])
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    items = [TypeAdapter[Any](ConversationItem).validate_python(item) for item in listed["data"]]
    kinds = ["message", "message", "message", "reasoning", "function_call", "function_call_output", "message"]
    assert [item.type for item in items] == kinds
    _, listed = await gateway.get(f"/v1/responses/{response['id']}/input_items")
    (item,) = (TypeAdapter[Any](ResponseItem).validate_python(item) for item in listed["data"])
    assert (item.id[:4], item.status, item.output[0].text) == ("fco_", "completed", "done")


async def test_a_bad_item_is_rejected_by_its_place(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"items": [HELLO, {"text": "?"}]}, "/v1/conversations")
    assert (status, body["error"]["param"]) == (400, "items[1].type")
    status, body = await gateway.post({"items": [HELLO] * 21}, "/v1/conversations")
    assert (status, body["error"]["param"]) == (400, "items")


async def test_a_response_is_made_in_a_conversation(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    conversation = await created(gateway, items=[HELLO])
    engine.will(text("Hi."), text("Fine."))
    response = await gateway.create("How are you?", conversation=conversation["id"])
    assert response["conversation"] == {"id": conversation["id"]}
    await gateway.stream("And now?", conversation={"id": conversation["id"]})
    contents = [message["content"] for message in engine.last["messages"]]
    assert contents == ["Hello", "How are you?", "Hi.", "And now?"]
    assert await texts(gateway, conversation) == ["Hello", "How are you?", "Hi.", "And now?", "Fine."]


async def test_a_conversation_runs_one_response_at_a_time(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    conversation = await created(gateway)
    go_on = asyncio.Event()

    async def slow(write: Writer) -> None:
        await write(chunk({"content": "Hm"}))
        await go_on.wait()
        await write(chunk(finish="stop") + DONE)

    engine.will(slow)
    first = asyncio.create_task(gateway.create("One", conversation=conversation["id"]))
    await engine.asked.wait()
    status, body = await gateway.post({"input": "Two", "conversation": conversation["id"]})
    assert (status, body["error"]["code"]) == (409, "conversation_locked")
    go_on.set()
    await first
    await gateway.create("Three", conversation=conversation["id"])
    assert await texts(gateway, conversation) == ["One", "Hm", "Three", "Hello world"]


async def test_a_rejected_request_unlocks_its_conversation(gateway: GatewayUnderTest) -> None:
    conversation = await created(gateway)
    bad = [{"type": "function_call_output", "call_id": "nobody", "output": ""}]
    for _ in range(2):
        status, _ = await gateway.post({"input": bad, "conversation": conversation["id"]})
        assert status == 400
    await gateway.create("Hi", conversation=conversation["id"])


async def test_an_unknown_conversation_and_two_histories_are_rejected(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.post({"input": "Hi", "conversation": "conv_nowhere"})
    assert (status, body["error"]["code"]) == (404, "conversation_not_found")
    status, body = await gateway.post({"input": "Hi", "conversation": {"id": 5}})
    assert (status, body["error"]["param"]) == (400, "conversation.id")
    response = await gateway.create("Hi")
    both = {"input": "Hi", "conversation": "conv_x", "previous_response_id": response["id"]}
    status, body = await gateway.post(both)
    assert (status, body["error"]["param"]) == (400, "conversation")


async def test_an_unstored_response_still_adds_to_its_conversation(gateway: GatewayUnderTest) -> None:
    conversation = await created(gateway)
    response = await gateway.create("Hi", conversation=conversation["id"], store=False)
    assert await texts(gateway, conversation) == ["Hi", "Hello world"]
    assert (await gateway.get(f"/v1/responses/{response['id']}"))[0] == 404


@pytest.mark.parametrize("store", [True, False])
async def test_a_failed_response_adds_nothing_to_its_conversation(
    gateway: GatewayUnderTest, engine: MockEngine, store: bool
) -> None:
    conversation = await created(gateway, items=[HELLO])
    engine.will(chunk({"content": "Hal"}))
    events = await gateway.stream("Are you there?", conversation=conversation["id"], store=store)
    failed = events[-1]["response"]
    assert failed["status"] == "failed"
    assert await texts(gateway, conversation) == ["Hello"]
    if store:
        assert (await gateway.get(f"/v1/responses/{failed['id']}"))[1]["status"] == "failed"
    # It is unlocked, and an answer that is cut off by its limit counts.
    engine.will(text("Yes", finish="length"))
    await gateway.create("Are you there?", conversation=conversation["id"], store=store)
    assert await texts(gateway, conversation) == ["Hello", "Are you there?", "Yes"]


async def test_a_response_whose_client_goes_away_adds_nothing_to_its_conversation(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    conversation = await created(gateway, items=[HELLO])
    script, _ = held_back("Hal", "f")
    engine.will(script)
    body = {"model": "mock", "input": "One", "conversation": conversation["id"], "stream": True}
    async with gateway.client.post(gateway.url + "/v1/responses", json=body) as answered:
        await answered.content.readany()
        answered.close()
    await engine.cancelled.wait()
    while (again := await gateway.post({"input": "Two", "conversation": conversation["id"]}))[0] == 409:
        """It is being unlocked."""
    assert again[0] == 200
    assert await texts(gateway, conversation) == ["Hello", "Two", "Hello world"]


async def test_a_background_response_that_failed_or_was_cancelled_adds_nothing(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    background = Background(gateway)
    conversation = await created(gateway, items=[HELLO])
    engine.will(chunk({"content": "Hal"}))
    assert (await background.made("One", conversation=conversation["id"]))["status"] == "failed"
    script, _ = held_back("Hel", "lo")
    engine.asked.clear()
    engine.will(script)
    id = (await background.create("Two", conversation=conversation["id"]))["id"]
    await engine.asked.wait()
    assert (await background.cancel(id))["status"] == "cancelled"
    assert await texts(gateway, conversation) == ["Hello"]
    await gateway.create("Three", conversation=conversation["id"])
    assert await texts(gateway, conversation) == ["Hello", "Three", "Hello world"]


async def test_a_compaction_trigger_is_not_kept(gateway: GatewayUnderTest) -> None:
    conversation = await created(gateway)
    trigger = [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]
    for fields in ({"conversation": conversation["id"]}, {}, {"background": True}):
        _, response = await gateway.post({"input": trigger, **fields})
        _, listed = await gateway.get(f"/v1/responses/{response['id']}/input_items")
        assert [item["type"] for item in listed["data"]] == ["message"]
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items")
    assert [item["type"] for item in listed["data"]] == ["compaction", "message"]


async def test_a_conversation_of_one_key_cannot_be_reached_by_another(engine: MockEngine) -> None:
    ours, theirs = ({"Authorization": f"Bearer {key}"} for key in ("ours", "theirs"))
    async with running_gateway(engine, api_key=("ours", "theirs")) as gateway:
        _, conversation = await gateway.post({"items": [HELLO]}, "/v1/conversations", headers=ours)
        path = f"/v1/conversations/{conversation['id']}"
        _, listed = await gateway.get(f"{path}/items", headers=ours)
        item = listed["data"][0]["id"]
        for method, more in (
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/items"),
            ("GET", f"/items/{item}"),
            ("DELETE", f"/items/{item}"),
        ):
            status, _ = await gateway.get(path + more, method=method, headers=theirs)
            assert status == 404, (method, more)
        assert (await gateway.get(f"{path}/items", headers=theirs))[0] == 404
        assert (await gateway.post({"metadata": {}}, path, headers=theirs))[0] == 404
        assert (await gateway.post({"items": [HELLO]}, f"{path}/items", headers=theirs))[0] == 404
        assert (await gateway.post({"input": "Hi", "conversation": conversation["id"]}, headers=theirs))[0] == 404


DEEP: dict[str, Any] = {"role": "user", "content": [{"type": "input_text", "text": "Hi", "a": {"b": {"c": {"d": {"e": {}}}}}}]}
IMAGE: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "input_image", "image_url": "data:image/png;base64," + "A" * 4000}],
}
NAME: dict[str, Any] = {"type": "function_call", "name": "n" * 30, "call_id": "c", "arguments": "{}"}
TOOLS: dict[str, Any] = {"type": "additional_tools", "tools": [{"type": "function", "name": "n" * 30}]}
TOO_LARGE = {
    "json_above_max_depth": (DEEP, "[0]"),
    "image_above_max_size": (IMAGE, "[0].content[0].image_url"),
    "string_above_max_length": (NAME, "[0].name"),
    "of a tool": (TOOLS, "[0].tools[0].name"),
}


@pytest.mark.parametrize(("item", "where"), TOO_LARGE.values(), ids=TOO_LARGE)
async def test_items_have_the_limits_of_those_of_a_request(engine: MockEngine, item: dict[str, Any], where: str) -> None:
    async with running_gateway(engine, max_nesting=8, max_image_bytes=100, max_name_length=20) as gateway:
        status, refused = await gateway.post({"model": "mock", "input": [item]})
        assert (status, refused["error"]["param"]) == (400, f"input{where}")
        _, conversation = await gateway.post({}, path="/v1/conversations")
        for path in ("/v1/conversations", f"/v1/conversations/{conversation['id']}/items"):
            status, answer = await gateway.post({"items": [item]}, path=path)
            assert (status, answer["error"]["param"]) == (400, f"items{where}")
            assert answer["error"]["code"] == refused["error"]["code"]
