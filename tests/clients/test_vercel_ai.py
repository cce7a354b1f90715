"""The AI SDK of Vercel: `ai` with `@ai-sdk/openai`.

With `store`, which is its default, it sends references to the items of earlier answers; without, the items themselves.
"""

import json
from pathlib import Path

import pytest
from support.client_conversations import (
    BROKEN,
    CUT_OFF,
    GREETING,
    PERSON,
    SCHEMA_OF_PERSON,
    THOUGHT,
    TWO_CALLS,
    after_two_calls,
    messages,
    schema_of,
    second_turn,
    system,
    user,
)
from support.clients import NodeScript, Player
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

SCRIPT = NodeScript("vercel_ai.mjs")

STREAMS = Path(__file__).parents[1] / "golden" / "streams"


async def test_text_and_its_usage_arrive(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("text", gateway) == {"text": "Hello world", "input": 12, "output": 5}
    assert messages(engine.last) == [system("Be brief."), user("Hi")]


async def test_text_is_streamed(client: Player, gateway: GatewayUnderTest) -> None:
    assert await client.play("stream", gateway) == ["Hello", " world"]


@pytest.mark.parametrize("scenario", ["twoTurns", "twoTurnsStateless"])
async def test_a_second_turn_knows_the_first(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(GREETING, text("Ada."))
    first, second = await client.play(scenario, gateway)
    assert first == {"text": "Hello, Ada.", "reasoning": THOUGHT}
    assert second == {"text": "Ada."}
    assert messages(engine.last) == second_turn()


async def test_a_response_is_continued_by_its_id(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING, text("Ada."))
    assert await client.play("continued", gateway) == "Ada."
    assert messages(engine.last) == second_turn()


@pytest.mark.parametrize("scenario", ["toolLoop", "toolLoopStateless"])
async def test_two_calls_at_once_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    assert await client.play(scenario, gateway) == {"text": "Sunny.", "results": ["sunny in Paris", "sunny in Rome"]}
    assert messages(engine.last) == after_two_calls()


@pytest.mark.parametrize("scenario", ["streamedToolLoop", "streamedToolLoopStateless"])
async def test_a_streamed_loop_shows_the_thought_the_results_and_the_answer(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play(scenario, gateway)
    assert seen == {"reasoning": THOUGHT, "results": ["sunny in Paris", "sunny in Rome"], "text": "Sunny."}
    assert messages(engine.last) == after_two_calls()


async def test_the_commands_of_a_shell_are_run(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("shell", '{"commands": ["ls", "pwd"]}'), finish="tool_calls"), text("Done."))
    assert await client.play("shell", gateway) == "Done."
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "shell", "arguments": {"commands": ["ls", "pwd"]}}
    assert [run["stdout"] for run in json.loads(result["content"])] == ["ran ls", "ran pwd"]


async def test_a_patch_is_applied(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    patch = {"type": "create_file", "path": "new.txt", "diff": "+new\n"}
    engine.will(answer(call("apply_patch", json.dumps(patch)), finish="tool_calls"), text("Done."))
    assert await client.play("patch", gateway) == "Done."
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "apply_patch", "arguments": patch}
    assert result["content"] == "create_file new.txt"


async def test_the_input_of_a_custom_tool_is_plain_text(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("sql", '{"input": "select 1"}'), finish="tool_calls"), text("One."))
    assert await client.play("custom", gateway) == "One."
    called, result = messages(engine.last)[1:]
    assert called["tool_calls"][0]["function"] == {"name": "sql", "arguments": {"input": "select 1"}}
    assert result["content"] == "rows of select 1"


async def test_an_image_is_passed_on(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    assert await client.play("image", gateway) == "Hello world"
    said, shown = engine.last["messages"][0]["content"]
    assert said == {"type": "text", "text": "What is it?"}
    assert shown == {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}


async def test_the_recorded_calls_of_an_engine_are_run_and_answered(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will((STREAMS / "lc_chat_toolcall_parallel_stream.sse").read_bytes(), text("Warm at noon."))
    assert await client.play("recorded", gateway) == "Warm at noon."
    asked, called, weather, time = messages(engine.last)
    assert asked == user("Weather and time?")
    made = [each["function"] for each in called["tool_calls"]]
    assert made == [
        {"name": "get_weather", "arguments": {"city": "Paris", "unit": "c"}},
        {"name": "get_time", "arguments": {"tz": "UTC"}},
    ]
    assert [weather["content"], time["content"]] == ["20 c in Paris", "noon UTC"]


async def test_a_text_that_was_cut_off_is_marked(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(CUT_OFF)
    assert await client.play("cut", gateway) == {"text": "Hello", "finishReason": "length"}
    assert engine.last["max_tokens"] == 16


async def test_an_engine_that_fails_in_its_answer_is_an_error(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(BROKEN)
    seen = await client.play("broken", gateway)
    assert seen == {"text": "Hel", "finishReason": "error", "errors": ["The engine failed: out of memory"]}


async def test_an_object_follows_its_schema(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    assert await client.play("object", gateway) == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON


async def test_an_object_is_streamed(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(PERSON)
    seen = await client.play("objectStream", gateway)
    assert seen["object"] == {"name": "Ada", "age": 36}
    assert seen["partial"][-1] == {"name": "Ada", "age": 36}
    assert schema_of(engine.last) == SCHEMA_OF_PERSON
