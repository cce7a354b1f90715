"""OpenAI's package for Node: `openai`."""

from support.client_conversations import GREETING, messages, second_turn
from support.clients import Player
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

CLIENT = "openai_node"


async def test_the_events_of_a_stream_arrive_in_order(client: Player, gateway: GatewayUnderTest) -> None:
    seen = await client.play("stream", gateway)
    assert seen["types"] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert seen["numbers"] == list(range(10))
    assert seen["text"] == "Hello world"


async def test_its_own_accumulation_agrees_with_the_response(client: Player, gateway: GatewayUnderTest) -> None:
    seen = await client.play("accumulated", gateway)
    assert seen == {"pieces": [["Hello", "Hello"], [" world", "Hello world"]], "text": "Hello world"}


async def test_a_stored_response_is_read_and_deleted(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stored", gateway) == {"text": "Hello world", "input": "Hi", "gone": 404}


async def test_a_response_without_store_is_continued_on_its_websocket(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play("webSocket", gateway) == ["Ada."]
    assert messages(engine.last) == second_turn()


async def test_an_error_names_its_field(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("refused", gateway) == {
        "status": 400,
        "code": "previous_response_not_found",
        "param": "previous_response_id",
        "type": "invalid_request_error",
    }
    assert engine.requests == []
