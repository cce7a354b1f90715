"""What is seen of a chat request and of its answer, and what is found wrong with one."""

from typing import Any

import pytest
from conformance.chat.watcher import violations
from conformance.recorder import RECORDER, Seen
from support.chat import USER, WEATHER
from support.gateway import GatewayUnderTest

CHUNK: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}


async def test_the_recorder_sees_what_a_test_puts_on_the_wire(
    gateway: GatewayUnderTest, request: pytest.FixtureRequest
) -> None:
    body = {"messages": [{**USER, "name": "ada"}], "tools": [WEATHER], "tool_choice": "auto"}
    await gateway.post(body, path="/v1/chat/completions")
    expected = {
        ("request field", "tool_choice"),
        ("message", "user.name"),
        ("tool", "function.parameters"),
        ("tool choice", "auto"),
        ("completion", "choices.message.content"),
        ("finish reason", "stop"),
    }
    seen = RECORDER.seen[request.node.nodeid]
    assert {Seen("chat", *each) for each in expected} <= seen
    assert Seen("chat", "completion", "choices.message.tool_calls.id") not in seen


def test_what_the_sdk_does_not_allow_is_named() -> None:
    choice = {"index": 0, "delta": {"content": 5}, "finish_reason": "stop"}
    (wrong,) = violations("chunk", {**CHUNK, "choices": [choice]})
    assert wrong.startswith("chunk choices.delta.content: ")


def test_a_difference_that_is_meant_is_none() -> None:
    call = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "run", "input": ""}}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
    assert [*violations("chunk", {**CHUNK, "choices": [choice]})] == []
