"""The command `llm`: its own models of the Responses API, and those of `llm-openai-plugin`.

Its own send thoughts back sealed. The plugin sends none, and an empty message of the user before the results of calls.
"""

import json

import pytest
from support.client_conversations import (
    GREETING,
    PERSON,
    RESULTS,
    SCHEMA_OF_PERSON,
    THOUGHT,
    TWO_CALLS,
    after_two_calls,
    calls_made,
    messages,
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import Player, PythonScript
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

SCRIPT = PythonScript("llm_command.py", environment="openai3")


@pytest.mark.parametrize("scenario", ["text", "plugin_text"])
async def test_text_arrives(client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str) -> None:
    assert await client.play(scenario, gateway) == {"output": "Hello world\n", "errors": ""}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_a_streamed_thought_is_shown_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    seen = await client.play("stream", gateway)
    assert seen["output"] == "Hello, Ada.\n"
    assert seen["errors"].strip() == THOUGHT


async def test_the_plugin_streams_text(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("plugin_stream", gateway) == {"output": "Hello, Ada.\n", "errors": ""}


async def test_a_conversation_is_continued(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING, text("Ada."))
    seen = await client.play("two_turns", gateway)
    assert seen["output"] == "Ada.\n"
    assert messages(engine.last) == second_turn()


async def test_two_calls_at_once_are_run_and_answered(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play("tools", gateway)
    assert seen["output"] == "Sunny.\n"
    assert messages(engine.last) == after_two_calls()


async def test_the_results_of_the_plugins_calls_are_the_last_that_the_model_reads(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play("plugin_tools", gateway)
    assert seen["output"] == "Sunny.\n"
    assert calls_made(engine.last) == ["call_1", "call_2"]
    assert messages(engine.last)[-2:] == RESULTS


@pytest.mark.parametrize("scenario", ["schema", "plugin_schema"])
async def test_an_object_follows_its_schema(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(PERSON)
    seen = await client.play(scenario, gateway)
    assert json.loads(seen["output"]) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON
