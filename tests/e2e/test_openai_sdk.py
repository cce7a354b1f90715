"""The openai SDK, in all its ways, over a real socket."""

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from support.engine import MockEngine, Refusal, answer, call, chunk, text
from support.gateway import GatewayUnderTest

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


class Person(BaseModel):
    name: str
    age: int


def sync_client(gateway: GatewayUnderTest, **options: Any) -> OpenAI:
    return OpenAI(base_url=gateway.url + "/v1", api_key="any", **{"max_retries": 0, **options})


def async_client(gateway: GatewayUnderTest) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0)


async def in_thread(work: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(work)


async def test_create(gateway: GatewayUnderTest) -> None:
    def work() -> Any:
        with sync_client(gateway) as client:
            return client.responses.create(model="mock", input="Hi")

    response = await in_thread(work)
    assert response.output_text == "Hello world"
    assert response.usage.total_tokens == 17
    async with async_client(gateway) as client:
        assert (await client.responses.create(model="mock", input="Hi")).output_text == "Hello world"


async def test_create_streamed(gateway: GatewayUnderTest) -> None:
    def work() -> list[Any]:
        with sync_client(gateway) as client:
            return list(client.responses.create(model="mock", input="Hi", stream=True))

    events = await in_thread(work)
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello world"
    async with async_client(gateway) as client:
        stream = await client.responses.create(model="mock", input="Hi", stream=True)
        assert [event.type async for event in stream] == [event.type for event in events]


async def test_the_stream_manager_follows_every_event(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    parts = chunk({"reasoning_content": "hm"}), chunk({"content": "Let me see."}), call("get_weather", '{"city": "Paris"}')
    engine.will(answer(*parts), answer(*parts))

    def work() -> Any:
        with sync_client(gateway) as client, client.responses.stream(model="mock", input="Hi", tools=[TOOL]) as stream:
            kinds = [event.type for event in stream]
            return kinds, stream.get_final_response()

    kinds, response = await in_thread(work)
    assert kinds[-1] == "response.completed"
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert response.output[2].parsed_arguments == {"city": "Paris"}
    async with async_client(gateway) as client, client.responses.stream(model="mock", input="Hi", tools=[TOOL]) as stream:
        assert [event.type async for event in stream] == kinds


async def test_parse_gives_a_pydantic_model(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(*[text('{"name": "Ada", ', '"age": 36}')] * 3)

    def work() -> Any:
        with sync_client(gateway) as client:
            return client.responses.parse(model="mock", input="Who?", text_format=Person).output_parsed

    assert await in_thread(work) == Person(name="Ada", age=36)
    schema = engine.last["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("Person", True)
    async with async_client(gateway) as client:
        parsed = await client.responses.parse(model="mock", input="Who?", text_format=Person)
        assert parsed.output_parsed == Person(name="Ada", age=36)
        async with client.responses.stream(model="mock", input="Who?", text_format=Person) as stream:
            final = await stream.get_final_response()
        assert final.output_parsed == Person(name="Ada", age=36)


async def test_errors_are_the_sdks_own(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    async with async_client(gateway) as client:
        with pytest.raises(openai.BadRequestError) as bad:
            await client.responses.create(model="mock", input="Hi", temperature=7)
        assert bad.value.param == "temperature"
        engine.will(Refusal(429, {"error": {"message": "slow down"}}, {"Retry-After": "60"}))
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="mock", input="Hi")
        engine.will(Refusal(500, {"error": {"message": "out of memory"}}))
        with pytest.raises(openai.InternalServerError, match="out of memory"):
            await client.responses.create(model="mock", input="Hi")


async def test_a_conversation_with_a_tool_carries_its_whole_history(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(answer(call("get_weather", '{"city": "Paris"}', id="c1"), finish="tool_calls"), text("Sunny."))
    async with async_client(gateway) as client:
        history: list[Any] = [{"role": "user", "content": "Weather in Paris?"}]
        first = await client.responses.create(model="mock", input=history, tools=[TOOL])
        history += first.output
        history.append({"type": "function_call_output", "call_id": "c1", "output": "sunny"})
        second = await client.responses.create(model="mock", input=history, tools=[TOOL])
    assert second.output_text == "Sunny."
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.usefixtures("without_embeddings")
async def test_models(gateway: GatewayUnderTest) -> None:
    async with async_client(gateway) as client:
        assert [model.id async for model in client.models.list()] == ["mock"]
        assert (await client.models.retrieve("mock")).id == "mock"
