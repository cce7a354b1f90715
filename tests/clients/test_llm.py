"""The command `llm`: its own models of the Responses API, and those of `llm-openai-plugin`.

The plugin sends no thoughts back, and an empty message of the user before the results of calls.
"""

from support.client_conversations import GREETING, RESULTS, THOUGHT, TWO_CALLS, calls_made, messages
from support.clients import Player
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

CLIENT = "llm"


async def test_a_streamed_thought_is_shown_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    seen = await client.play("stream", gateway)
    assert seen["output"] == "Hello, Ada.\n"
    assert seen["errors"].strip() == THOUGHT


async def test_the_plugin_streams_text(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(GREETING)
    assert await client.play("plugin_stream", gateway) == {"output": "Hello, Ada.\n", "errors": ""}


async def test_the_results_of_the_plugins_calls_are_the_last_that_the_model_reads(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play("plugin_tools", gateway)
    assert seen["output"] == "Sunny.\n"
    assert calls_made(engine.last) == ["call_1", "call_2"]
    assert messages(engine.last)[-2:] == RESULTS
