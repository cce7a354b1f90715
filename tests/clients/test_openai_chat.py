"""OpenAI's packages over Chat Completions: the events that their helpers make of chunks, and their errors."""

from typing import Any

import pytest
from support.client_conversations import written_calls
from support.clients import Player
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

CLIENT = "openai_chat"
# In Python, the first chunk is an event, too.
PIECES = [
    ("openai_chat", "stream_helper", ["", "Hello", " world"]),
    ("openai_chat_node", "streamHelper", [["Hello", "Hello"], [" world", "Hello world"]]),
]
CALLS = [("openai_chat", "call_events"), ("openai_chat_node", "callEvents")]


@pytest.mark.parametrize(("client", "scenario", "pieces"), PIECES, indirect=["client"])
async def test_the_helpers_read_a_stream_that_was_passed_through(
    client: Player, gateway: GatewayUnderTest, scenario: str, pieces: list[Any]
) -> None:
    assert await client.play(scenario, gateway) == pieces


@pytest.mark.parametrize(("client", "scenario"), CALLS, indirect=["client"])
async def test_the_helpers_read_the_calls_of_a_weak_engine(
    client: Player, gateway: GatewayUnderTest, engine: MockEngine, scenario: str
) -> None:
    engine.will(written_calls())
    assert await client.play(scenario, gateway) == [[0, "weather", {"city": "Paris"}], [1, "weather", {"city": "Rome"}]]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_an_error_names_its_field(client: Player, gateway: GatewayUnderTest, engine: MockEngine, streams: bool) -> None:
    wrong = {"tool_choice": "auto", "temperature": "hot", "stream": streams}
    error = ["BadRequestError", 400, "temperature", "invalid_type", "invalid_request_error"]
    assert await client.play("refused", gateway, **wrong) == error
    assert engine.requests == []
