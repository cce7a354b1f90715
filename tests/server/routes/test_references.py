"""Clients send the ids of items instead of the items: whatever their owner has stored takes the place of the id."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.background import Background
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected

Item = dict[str, Any]

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]
KEYS = ({"Authorization": "Bearer one"}, {"Authorization": "Bearer two"})


@pytest_asyncio.fixture(params=["memory:", "sqlite"])
async def gateway(request: pytest.FixtureRequest, engine: MockEngine, tmp_path: Path) -> AsyncIterator[GatewayUnderTest]:
    url = f"sqlite:{tmp_path / 'responses.db'}" if request.param == "sqlite" else request.param
    async with running_gateway(engine, store=url) as running:
        yield running


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def reference(item: Item | str) -> Item:
    return {"type": "item_reference", "id": item if isinstance(item, str) else item["id"]}


def sent(engine: MockEngine) -> list[str]:
    return [message["content"] for message in engine.last["messages"]]


async def input_items(gateway: GatewayUnderTest, response: Item) -> list[Item]:
    _, listed = await gateway.get(f"/v1/responses/{response['id']}/input_items?order=asc")
    items: list[Item] = listed["data"]
    return items


async def empty(gateway: GatewayUnderTest) -> str:
    """The id of a new conversation."""
    _, conversation = await gateway.post({}, "/v1/conversations")
    id: str = conversation["id"]
    return id


async def refused(gateway: GatewayUnderTest, input: Any, **fields: Any) -> Item:
    status, body = await gateway.post({"input": input, **fields})
    assert (status, body["error"]["code"]) == (400, "item_not_found"), body
    error: Item = body["error"]
    return error


async def test_the_second_turn_of_a_chat_refers_to_the_answer_of_the_first(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(text("I am Ada."))
    first = await gateway.create([user("Who are you?")])
    await gateway.create([user("Who are you?"), reference(first["output"][0]), user("Really?")])
    assert sent(engine) == ["Who are you?", "I am Ada.", "Really?"]
    assert gateway.notice == ""
    # The type may be left out.
    await gateway.create([{"id": first["output"][0]["id"]}, user("Really?")])
    assert sent(engine) == ["I am Ada.", "Really?"]


async def test_a_tool_loop_refers_to_the_reasoning_and_the_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    thought = chunk({"reasoning_content": "I should look."})
    engine.will(answer(thought, call("get_weather", "{}", id="c1"), finish="tool_calls"), text("It rains."))
    first = await gateway.create([user("Weather?")], tools=TOOLS)
    output = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    reasoning, made = first["output"]
    await gateway.create([user("Weather?"), reference(reasoning), reference(made), output], tools=TOOLS)
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]
    assert "I should look." in str(engine.last["messages"][1])
    # Reasoning that is only an id is looked up like a reference.
    only_an_id = {"type": "reasoning", "id": reasoning["id"], "summary": []}
    await gateway.create([user("Weather?"), only_an_id, reference(made), output], tools=TOOLS)
    assert "I should look." in str(engine.last["messages"][1])
    assert gateway.notice == ""


async def test_a_client_may_continue_a_response_and_refer_to_its_history_as_well(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    items: list[Item] = [user("Weather?")]
    previous: str | None = None
    for step in range(3):
        thought = chunk({"reasoning_content": f"Thought {step}."})
        engine.will(answer(thought, call("get_weather", "{}", id=f"c{step}"), finish="tool_calls"))
        response = await gateway.create(items, tools=TOOLS, previous_response_id=previous)
        previous = response["id"]
        output = {"type": "function_call_output", "call_id": f"c{step}", "output": f"Output {step}"}
        items += [*map(reference, response["output"]), output]
    await gateway.create(items, tools=TOOLS, previous_response_id=previous)
    assert [message["role"] for message in engine.last["messages"]] == ["user", *["assistant", "tool"] * 3]
    assert [str(engine.last["messages"]).count(f"Thought {step}.") for step in range(3)] == [1, 1, 1]
    assert [message["content"] for message in engine.last["messages"][2::2]] == ["Output 0", "Output 1", "Output 2"]


async def test_reasoning_that_is_not_stored_is_left_out_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    response = await gateway.create([{"type": "reasoning", "id": "rs_gone", "summary": []}, user("Hi")])
    assert sent(engine) == ["Hi"]
    assert gateway.notice == "input[0]: the text of reasoning item 'rs_gone' is not stored here, and was left out"
    assert [item["type"] for item in await input_items(gateway, response)] == ["message"]


async def test_a_thought_that_is_only_an_id_is_looked_up_when_it_is_added_to_a_conversation(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(chunk({"reasoning_content": "I should look."}), chunk({"content": "It rains."})))
    thought, said = (await gateway.create("Weather?"))["output"]
    items = [user("Weather?"), {"type": "reasoning", "id": thought["id"], "summary": []}, said]
    _, created = await gateway.post({"items": items}, "/v1/conversations")
    assert gateway.notice == ""
    _, added = await gateway.post({"items": items[1:2]}, f"/v1/conversations/{(await empty(gateway))}/items")
    assert added["data"] == [thought]
    await gateway.create("Sure?", conversation=created["id"])
    assert "I should look." in sent(engine)[1]
    # If it is not stored, the client learns that.
    await gateway.post({"items": [{"type": "reasoning", "id": "rs_gone", "summary": []}]}, "/v1/conversations")
    assert gateway.notice == "items[0]: the text of reasoning item 'rs_gone' is not stored here, and was left out"


async def test_input_items_and_items_of_conversations_can_be_referred_to(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create([user("A question")])
    _, conversation = await gateway.post({"items": [user("In a conversation")]}, "/v1/conversations")
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items")
    kept = await input_items(gateway, first)
    await gateway.create([reference(kept[0]), reference(listed["data"][0])])
    assert sent(engine) == ["A question", "In a conversation"]


async def test_what_is_stored_are_the_items_themselves(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create([user("One")])
    second = await gateway.create([reference(first["output"][0]), user("Two"), reference(first["output"][0])])
    assert [item["type"] for item in await input_items(gateway, second)] == ["message", "message"]
    assert (await input_items(gateway, second))[0] == first["output"][0]
    await gateway.get(f"/v1/responses/{first['id']}", method="DELETE")
    await gateway.create("Three", previous_response_id=second["id"])
    assert sent(engine) == ["Hello world", "Two", "Hello world", "Three"]
    # The item is stored with the second response too.
    await gateway.create([reference(first["output"][0]), user("Four")])
    assert sent(engine) == ["Hello world", "Four"]


async def test_an_item_of_the_history_is_not_sent_twice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    first = await gateway.create("One")
    references = [reference(first["output"][0]), user("Two")]
    second = await gateway.create(references, previous_response_id=first["id"])
    assert sent(engine) == ["One", "Hello world", "Two"]
    assert len(await input_items(gateway, second)) == 1
    _, conversation = await gateway.post({}, "/v1/conversations")
    third = await gateway.create("Three", conversation=conversation["id"])
    await gateway.create([reference(third["output"][0]), user("Four")], conversation=conversation["id"])
    assert sent(engine) == ["Three", "Hello world", "Four"]


async def test_an_unknown_item_is_an_error_at_its_place_and_unlocks_the_conversation(gateway: GatewayUnderTest) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    for fields in ({}, {"conversation": conversation["id"]}, {"background": True}, {"store": False}):
        assert (await refused(gateway, [user("Hi"), reference("msg_nowhere")], **fields))["param"] == "input[1].id"
    unstored = await gateway.create("Hi", store=False)
    await refused(gateway, [reference(unstored["output"][0])])
    deleted = await gateway.create("Hi")
    await gateway.get(f"/v1/responses/{deleted['id']}", method="DELETE")
    await refused(gateway, [reference(deleted["output"][0])])
    await gateway.create("Hi", conversation=conversation["id"])


async def test_items_of_another_key_do_not_exist(engine: MockEngine) -> None:
    async with running_gateway(engine, api_key=("one", "two")) as gateway:
        body = {"model": "mock", "input": "Hi"}
        _, first = await gateway.post(body, headers=KEYS[0])
        referring = body | {"input": [reference(first["output"][0])]}
        assert (await gateway.post(referring, headers=KEYS[0]))[0] == 200
        status, refusal = await gateway.post(referring, headers=KEYS[1])
        assert (status, refusal["error"]["code"]) == (400, "item_not_found")


async def test_a_background_response_resolves_references_when_it_is_queued(engine: MockEngine) -> None:
    async with running_gateway(engine, background_workers=0) as gateway:
        first = await gateway.create("One")
        queued = await Background(gateway).create([reference(first["output"][0]), user("Two")])
        await gateway.get(f"/v1/responses/{first['id']}", method="DELETE")
        async with running_gateway(engine, shares=gateway.gateway.store) as working:
            response = await Background(working).ended(queued["id"])
            assert response["status"] == "completed"
            assert sent(engine) == ["Hello world", "Two"]
            assert (await input_items(working, response))[0] == first["output"][0]
            # Its own output can be referred to as well.
            await working.create([reference(response["output"][0]), user("Three")])
            assert sent(engine) == ["Hello world", "Three"]


async def test_references_count_in_the_tokens_of_the_input_and_in_a_compaction(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    first = await gateway.create("One")
    body = {"model": "mock", "input": [reference(first["output"][0]), user("Two")]}
    assert (await gateway.post(body, "/v1/responses/input_tokens"))[0] == 200
    assert sent(engine) == ["Hello world", "Two"]
    assert (await gateway.post(body, "/v1/responses/compact"))[0] == 200
    assert sent(engine)[:2] == ["Hello world", "Two"]


async def test_unstored_responses_of_a_websocket_can_be_referred_to_there(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    stored = await gateway.create("Stored")
    async with connected(gateway) as socket, connected(gateway) as other:
        engine.will(text("First."), text("Second."))
        first = await socket.create("One", store=False)
        await socket.create([reference(first["output"][0]), user("Two")], store=False)
        third = [reference(first["output"][0]), reference(stored["output"][0]), user("Three")]
        await socket.create(third, store=False)
        assert sent(engine) == ["First.\n\nHello world", "Three"]
        refusal = await other.refused(third, store=False)
        assert (refusal["error"]["code"], refusal["error"]["param"]) == ("item_not_found", "input[0].id")
