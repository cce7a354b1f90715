"""The openai SDK's own WebSocket client, `responses.connect`, over a real socket."""

import asyncio
from functools import cache
from typing import Any

import msgspec
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.resources.responses.responses import AsyncResponsesConnection
from openai.types.responses.responses_server_event import ResponsesServerEvent
from pydantic import TypeAdapter
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest, running_gateway
from support.streams import TERMINAL, check_stream


@cache
def server_event() -> TypeAdapter[Any]:
    """To make it takes a third of a second."""
    return TypeAdapter(ResponsesServerEvent)


pytestmark = pytest.mark.timeout(60)

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def client_of(gateway: GatewayUnderTest, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key=key, max_retries=0)


async def turn(connection: AsyncResponsesConnection) -> Any:
    """The next response. Its events are checked, also by the SDK's own types."""
    frames = [await connection.recv_bytes()]
    while msgspec.json.decode(frames[-1])["type"] not in TERMINAL:
        frames.append(await connection.recv_bytes())
    check_stream([msgspec.json.decode(frame) for frame in frames])
    return [server_event().validate_json(frame) for frame in frames][-1].response


async def test_responses_follow_one_another_on_one_connection(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("It is ", "Ada."), text("Ada."))
    async with client_of(gateway) as client, client.responses.connect() as connection:
        await connection.response.create(model="mock", input="What is your name?", store=False)
        first = await turn(connection)
        assert first.output[0].content[0].text == "It is Ada."
        assert first.usage.total_tokens == 17
        await connection.response.create(model="mock", input="Again?", store=False, previous_response_id=first.id)
        assert (await turn(connection)).output[0].content[0].text == "Ada."
    assert [message["content"] for message in engine.last["messages"]] == ["What is your name?", "It is Ada.", "Again?"]


async def test_after_a_call_only_its_result_is_sent(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("get_weather", '{"city": "Bath"}'), finish="tool_calls"), text("It rains."))
    async with client_of(gateway) as client, client.responses.connect() as connection:
        await connection.response.create(model="mock", input="Weather in Bath?", tools=[TOOL], store=False)
        first = await turn(connection)
        made = first.output[0]
        assert (made.type, made.name, made.arguments) == ("function_call", "get_weather", '{"city": "Bath"}')
        result: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "rain"}
        await connection.response.create(model="mock", input=[result], tools=[TOOL], store=False, previous_response_id=first.id)
        assert (await turn(connection)).output[0].content[0].text == "It rains."
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]


async def test_a_warm_up_generates_nothing_and_is_continued(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with client_of(gateway) as client, client.responses.connect() as connection:
        await connection.response.create(model="mock", instructions="Be brief.", input=[], generate=False, store=False)
        warm = await turn(connection)
        assert warm.output == []
        assert not engine.requests
        await connection.response.create(model="mock", input="Hi", store=False, previous_response_id=warm.id)
        assert (await turn(connection)).status == "completed"


async def test_an_error_is_the_sdks_own_and_the_connection_stays_open(gateway: GatewayUnderTest) -> None:
    async with client_of(gateway) as client, client.responses.connect() as connection:
        await connection.response.create(model="mock", input="Hi", previous_response_id="resp_nowhere")
        error: Any = await connection.recv()
        assert (error.type, error.status) == ("error", 400)
        assert error.error.code == "previous_response_not_found"
        assert error.error.param == "previous_response_id"
        await connection.response.create(model="mock", input="Hi")
        assert (await turn(connection)).status == "completed"


async def test_the_key_of_the_client_opens_the_connection(engine: MockEngine) -> None:
    async with (
        running_gateway(engine, api_key=("secret",)) as gateway,
        client_of(gateway, "secret") as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="mock", input="Hi")
        assert (await turn(connection)).status == "completed"


async def test_events_are_dispatched_to_handlers(gateway: GatewayUnderTest) -> None:
    heard: list[str] = []
    async with client_of(gateway) as client, client.responses.connect() as connection:
        connection.on("response.output_text.delta", lambda event: heard.append(event.delta))
        ended = asyncio.Event()
        connection.on("response.completed", lambda event: ended.set())
        await connection.response.create(model="mock", input="Hi")
        dispatching = asyncio.create_task(connection.dispatch_events())
        await ended.wait()
        dispatching.cancel()
    assert "".join(heard) == "Hello world"


async def test_the_synchronous_client_works_too(gateway: GatewayUnderTest) -> None:
    def work() -> str:
        with OpenAI(base_url=gateway.url + "/v1", api_key="any") as client, client.responses.connect() as connection:
            connection.response.create(model="mock", input="Hi")
            event: Any = connection.recv()
            while event.type not in TERMINAL:
                event = connection.recv()
            return str(event.response.output[0].content[0].text)

    assert await asyncio.to_thread(work) == "Hello world"
