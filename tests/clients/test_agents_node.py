"""OpenAI's Agents SDK for Node: `@openai/agents`."""

from support.client_conversations import messages, system
from support.clients import Player
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

CLIENT = "agents_node"


async def test_a_handoff_changes_the_agent(client: Player, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("transfer_to_Spanish", "{}"), finish="tool_calls"), text("Hola."))
    assert await client.play("handoff", gateway) == {"text": "Hola.", "agent": "Spanish"}
    assert messages(engine.last)[0] == system("Speak Spanish.")
