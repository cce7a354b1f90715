"""Haystack: `OpenAIResponsesChatGenerator`, in an agent."""

from support.client_conversations import RESULTS, THOUGHT_SENT_BACK, TWO_CALLS, messages, user
from support.clients import Player
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

CLIENT = "haystack"


async def test_a_streamed_agent_runs_two_calls_at_once(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(TWO_CALLS, text("Sunny."))
    seen = await client.play("streamed_agent", gateway)
    assert seen == {"text": "Sunny.", "results": ["sunny in Paris", "sunny in Rome"]}
    asked, called, *results = messages(engine.last)
    assert [asked, called["content"]] == [user("Weather?"), THOUGHT_SENT_BACK]
    # It sorts the calls of a stream by the ids of their items.
    assert sorted(results, key=lambda each: str(each["tool_call_id"])) == RESULTS
