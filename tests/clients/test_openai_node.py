"""OpenAI's package for Node: `openai`."""

import pytest
from support.client_conversations import (
    BROKEN,
    GREETING,
    PERSON,
    SCHEMA_OF_PERSON,
    THINKS,
    THOUGHT,
    TWO_CALLS,
    after_two_calls,
    assistant,
    messages,
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import NodeScript, Player
from support.engine import MockEngine, answer, chunk, text
from support.gateway import GatewayUnderTest

SCRIPT = NodeScript("openai_node.mjs")


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12, "output": 5}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


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


async def test_a_failure_has_the_response_so_far(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(BROKEN)
    seen = await client.play("broken", gateway)
    assert seen == {"type": "response.failed", "status": "failed", "code": "server_error", "text": "Hel"}


async def test_a_thought_is_a_summary_where_one_was_asked_for(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(answer(THINKS, chunk({"content": "Done."})))
    thought, message = await client.play("reasoning", gateway)
    assert thought == {"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]}
    assert message == {"type": "message"}
    assert engine.last["reasoning_effort"] == "low"


@pytest.mark.parametrize("scenario", ["continuedCalls", "statelessCalls"])
async def test_two_calls_at_once_are_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play(scenario, gateway) == "Sunny."
    assert messages(engine.last) == after_two_calls()


async def test_a_conversation_keeps_its_items(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING, text("Ada."))
    seen = await client.play("conversation", gateway)
    assert seen == {"text": "Ada.", "items": ["message", "reasoning", "message", "message", "message"]}
    assert messages(engine.last) == second_turn()


async def test_a_response_is_continued_from_its_compaction(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(text("Hello, Ada."), text("The user is called Ada."), text("Ada."))
    assert await client.play("compacted", gateway) == "Ada."
    summarized, continued = engine.requests[1:]
    assert messages(summarized)[:2] == [user("My name is Ada."), assistant("Hello, Ada.")]
    assert "The user is called Ada." in messages(continued)[0]["content"]
    assert messages(continued)[-1] == user("What is my name?")


async def test_an_answer_is_parsed_by_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("parsed", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


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
