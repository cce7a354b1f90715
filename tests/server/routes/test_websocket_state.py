"""What a WebSocket knows of the responses before, stored or not."""

from typing import Any

import pytest
from support.engine import MockEngine, chunk
from support.gateway import GatewayUnderTest, running_gateway
from support.sockets import connected
from support.stores import interposed

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("both_transports")]

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


def said(engine: MockEngine) -> list[str]:
    return [message["content"] for message in engine.last["messages"]]


async def test_an_unstored_response_is_continued_on_its_connection(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with connected(gateway) as socket:
        first = await socket.create("One", store=False)
        second = await socket.create("Two", store=False, previous_response_id=first["id"])
        await socket.create("Three", store=False, previous_response_id=second["id"])
        assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]
        # The one before can be continued as well.
        await socket.create("Another", store=False, previous_response_id=first["id"])
        assert said(engine) == ["One", "Hello world", "Another"]


async def test_an_unstored_response_is_unknown_to_other_connections(gateway: GatewayUnderTest) -> None:
    async with connected(gateway) as socket, connected(gateway) as other:
        first = await socket.create("One", store=False)
        error = await other.refused("Two", previous_response_id=first["id"])
        assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
        status, _ = await gateway.post({"input": "Two", "previous_response_id": first["id"]})
        assert status == 400


async def test_a_stored_response_is_known_to_all_connections(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    over_http = await gateway.create("One")
    async with connected(gateway) as socket:
        second = await socket.create("Two", previous_response_id=over_http["id"])
    await gateway.create("Three", previous_response_id=second["id"])
    assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]


async def test_a_stored_response_is_continued_without_being_stored(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    over_http = await gateway.create("One")
    async with connected(gateway) as socket:
        second = await socket.create("Two", store=False, previous_response_id=over_http["id"])
        await socket.create("Three", store=False, previous_response_id=second["id"])
    assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]


async def test_the_store_is_not_asked_for_what_the_connection_knows(engine: MockEngine) -> None:
    asked: list[str] = []
    store, interference = interposed()

    async def watched(owner: str, id: str) -> Any:
        asked.append(id)
        return await interference.store.chain(owner, id)

    interference.instead["chain"] = watched
    async with running_gateway(engine, shares=store) as gateway:
        async with connected(gateway) as socket:
            first = await socket.create("One")
            await socket.create("Two", previous_response_id=first["id"])
        assert asked == []
        async with connected(gateway) as socket:
            await socket.create("Two", previous_response_id=first["id"])
    assert asked == [first["id"]]


@pytest.mark.parametrize("fails", ["before its first event", "after it"])
async def test_a_continuation_that_fails_evicts_what_it_continued(
    gateway: GatewayUnderTest, engine: MockEngine, fails: str
) -> None:
    async with connected(gateway) as socket:
        first = await socket.create("One", store=False)
        if fails == "after it":
            engine.will(chunk({"content": "Hal"}))
            assert (await socket.create("Two", store=False, previous_response_id=first["id"]))["status"] == "failed"
        else:
            await socket.refused("Two", store=False, previous_response_id=first["id"], temperature=5)
        error = await socket.refused("Two", store=False, previous_response_id=first["id"])
        assert error["error"]["code"] == "previous_response_not_found"


async def test_a_conversation_continues_over_a_websocket(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    async with connected(gateway) as socket:
        await socket.create("One", conversation=conversation["id"])
        await socket.create("Two", conversation=conversation["id"], store=False)
    await gateway.create("Three", conversation=conversation["id"])
    assert said(engine) == ["One", "Hello world", "Two", "Hello world", "Three"]


async def test_input_can_be_sent_without_generating_an_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with connected(gateway) as socket:
        await socket.send("Remember this.", generate=False, store=False, tools=TOOLS, tool_choice="required")
        warm = (await socket.turn())[-1]["response"]
        assert warm["status"] == "completed"
        assert warm["output"] == []
        assert not engine.requests
        await socket.create("What?", previous_response_id=warm["id"], store=False)
        assert said(engine) == ["Remember this.", "What?"]
