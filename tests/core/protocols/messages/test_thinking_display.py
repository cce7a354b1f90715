"""`thinking.display`: whether the blocks of thoughts have their text."""

from typing import Any

import msgspec
import pytest
from support.client_conversations import GREETING, THOUGHT, messages, second_turn, user
from support.engine import MockEngine
from support.gateway import GatewayUnderTest
from support.messages import parse

PATH = "/v1/messages"


def request(thinking: dict[str, str], *said: Any, **more: Any) -> dict[str, Any]:
    return {"model": "mock", "max_tokens": 16, "messages": [user("My name is Ada."), *said], "thinking": thinking, **more}


@pytest.mark.parametrize(
    ("thinking", "shown"),
    [
        ({"type": "adaptive"}, THOUGHT),
        ({"type": "adaptive", "display": "summarized"}, THOUGHT),
        ({"type": "adaptive", "display": "updates"}, THOUGHT),
        ({"type": "adaptive", "display": "omitted"}, ""),
        ({"type": "enabled", "display": "omitted"}, ""),
        ({"type": "between_tools"}, THOUGHT),
    ],
)
async def test_the_text_of_thoughts_is_shown_unless_it_is_omitted(
    gateway: GatewayUnderTest, engine: MockEngine, thinking: dict[str, str], shown: str
) -> None:
    engine.will(GREETING, GREETING)
    status, message = await gateway.post(request(thinking), PATH)
    assert status == 200
    thought, said = message["content"]
    assert (thought["type"], thought["thinking"], said["text"]) == ("thinking", shown, "Hello, Ada.")
    assert thought["signature"]

    body = msgspec.json.encode(request(thinking, stream=True))
    async with gateway.client.post(gateway.url + PATH, data=body) as answer:
        events = parse(await answer.read())
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == shown
    assert [bool(delta["signature"]) for delta in deltas if delta["type"] == "signature_delta"] == [True]


async def test_a_thought_without_its_text_is_restored_from_its_signature(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    thinking = {"type": "adaptive", "display": "omitted"}
    engine.will(GREETING)
    _, message = await gateway.post(request(thinking), PATH)
    said = {"role": "assistant", "content": message["content"]}
    status, _ = await gateway.post(request(thinking, said, user("What is my name?")), PATH)
    assert status == 200
    assert messages(engine.last) == second_turn()
