"""Whatever was accepted once can be continued: by previous_response_id, and in a conversation."""

from typing import Any

import pytest
from support.engine import MockEngine, answer, call
from support.gateway import GatewayUnderTest

QUESTION = {"role": "user", "content": "Weather?"}
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


def sent(engine: MockEngine) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in engine.last["messages"]]


# ---- what clients repeat ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", ["nothing", "the call", "the user message", "both"])
async def test_a_client_may_repeat_what_it_continues(gateway: GatewayUnderTest, engine: MockEngine, repeats: str) -> None:
    engine.will(answer(call("weather", '{"city": "Oslo"}', id="call_a"), finish="tool_calls"))
    first = await gateway.create([QUESTION], tools=[TOOL])
    again = {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": '{"city":"Oslo"}'}
    output = {"type": "function_call_output", "call_id": "call_a", "output": "Rain"}
    repeated = {"nothing": [], "the call": [again], "the user message": [QUESTION], "both": [QUESTION, again]}[repeats]
    second = await gateway.create([*repeated, output], tools=[TOOL], previous_response_id=first["id"])
    assert sent(engine) == [("user", "Weather?"), ("assistant", ""), ("tool", "Rain")]
    assert ("again" in gateway.notice) is (repeats != "nothing")
    await gateway.create("Thanks", previous_response_id=second["id"])
    assert sent(engine)[:3] == [("user", "Weather?"), ("assistant", ""), ("tool", "Rain")]
