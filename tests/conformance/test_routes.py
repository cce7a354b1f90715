"""Every route of the API, called once."""

import pytest
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest
from support.sockets import connected

ITEM = {"role": "user", "content": "One"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_created(stream: bool, gateway: GatewayUnderTest) -> None:
    response = (await gateway.stream())[-1]["response"] if stream else await gateway.create()
    assert response["output"][0]["content"][0]["text"] == "Hello world"


async def test_a_response_is_created_over_a_websocket(gateway: GatewayUnderTest) -> None:
    async with connected(gateway) as socket:
        response = await socket.create()
    assert response["output"][0]["content"][0]["text"] == "Hello world"


async def test_a_stored_response_is_fetched_and_deleted(gateway: GatewayUnderTest) -> None:
    response = await gateway.create()
    path = f"/v1/responses/{response['id']}"
    assert (await gateway.get(path))[1]["output"] == response["output"]
    _, items = await gateway.get(f"{path}/input_items")
    assert items["data"][0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert (await gateway.get(path, method="DELETE"))[1]["deleted"]
    assert (await gateway.get(path))[0] == 404


async def test_a_background_response_is_cancelled(gateway: GatewayUnderTest) -> None:
    response = await gateway.create(background=True)
    status, cancelled = await gateway.get(f"/v1/responses/{response['id']}/cancel", method="POST")
    assert status == 200
    assert cancelled["status"] in ("cancelled", "completed")


async def test_input_tokens_are_counted(gateway: GatewayUnderTest) -> None:
    status, counted = await gateway.post({"model": "mock", "input": "Hi"}, "/v1/responses/input_tokens")
    assert (status, counted["object"]) == (200, "response.input_tokens")
    assert counted["input_tokens"] > 0


async def test_a_conversation_is_compacted(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("The user greets."))
    status, compacted = await gateway.post({"model": "mock", "input": [ITEM]}, "/v1/responses/compact")
    assert (status, compacted["object"]) == (200, "response.compaction")
    assert compacted["output"][-1]["type"] == "compaction"


async def test_a_conversation_is_made_changed_and_deleted(gateway: GatewayUnderTest) -> None:
    _, made = await gateway.post({"metadata": {"topic": "a"}}, "/v1/conversations")
    path = f"/v1/conversations/{made['id']}"
    _, changed = await gateway.post({"metadata": {"topic": "b"}}, path)
    assert changed["metadata"] == {"topic": "b"}
    assert (await gateway.get(path))[1] == changed
    assert (await gateway.get(path, method="DELETE"))[1]["deleted"]
    assert (await gateway.get(path))[0] == 404


async def test_the_items_of_a_conversation_are_added_listed_fetched_and_deleted(gateway: GatewayUnderTest) -> None:
    _, made = await gateway.post({}, "/v1/conversations")
    path = f"/v1/conversations/{made['id']}/items"
    _, added = await gateway.post({"items": [ITEM]}, path)
    _, listed = await gateway.get(path)
    assert listed["data"] == added["data"]
    item = f"{path}/{added['first_id']}"
    assert (await gateway.get(item))[1] == added["data"][0]
    status, conversation = await gateway.get(item, method="DELETE")
    assert (status, conversation["id"]) == (200, made["id"])
    assert (await gateway.get(path))[1]["data"] == []


@pytest.mark.usefixtures("without_embeddings")
async def test_models_are_listed_and_fetched(gateway: GatewayUnderTest) -> None:
    _, models = await gateway.get("/v1/models")
    assert [model["id"] for model in models["data"]] == ["mock"]
    assert (await gateway.get("/v1/models/mock"))[1] == models["data"][0]


async def test_models_cannot_be_deleted(gateway: GatewayUnderTest) -> None:
    status, body = await gateway.get("/v1/models/mock", method="DELETE")
    assert (status, body["error"]["type"]) == (405, "invalid_request_error")
