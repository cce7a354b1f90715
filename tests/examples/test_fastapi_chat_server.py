"""The example as its readers run it: uvicorn, a strict engine behind it, and the openai SDK in front."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from pydantic import BaseModel
from support.engine import MockEngine, Refusal, Writer, answer, call, chunk, text

EXAMPLES = Path(__file__).parents[2] / "examples"

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


@pytest_asyncio.fixture
async def client(engine: MockEngine) -> AsyncIterator[AsyncOpenAI]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, fd = listening.getsockname()[1], listening.fileno()
        command = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--fd", str(fd), "fastapi_chat_server:app"]
        server = await asyncio.create_subprocess_exec(*command, env={"ENGINE_URL": f"{engine.url}/v1"}, pass_fds=[fd])
    # The socket listens already: the first request waits in it for the server.
    async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0) as made:
        yield made
    server.terminate()
    await server.wait()


async def test_a_whole_response(client: AsyncOpenAI) -> None:
    response = await client.responses.create(model="mock", input="Hi")
    assert response.status == "completed"
    assert response.output_text == "Hello world"
    assert response.usage is not None
    assert response.usage.total_tokens == 17
    assert response.model_dump()["store"] is False


async def test_a_streamed_response(client: AsyncOpenAI) -> None:
    events = [event async for event in await client.responses.create(model="mock", input="Hi", stream=True)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Hello world"


async def test_a_tool_call_and_its_result(client: AsyncOpenAI, engine: MockEngine) -> None:
    engine.will(answer(call("get_weather", '{"city": "Paris"}', id="c1"), finish="tool_calls"), text("Sunny."))
    history: list[Any] = [{"role": "user", "content": "Weather in Paris?"}]
    async with client.responses.stream(model="mock", input=history, tools=[TOOL]) as stream:
        first = await stream.get_final_response()
    assert [item.type for item in first.output] == ["function_call"]
    history += [*first.output, {"type": "function_call_output", "call_id": "c1", "output": "sunny"}]
    second = await client.responses.create(model="mock", input=history, tools=[TOOL])
    assert second.output_text == "Sunny."
    assert [message["role"] for message in engine.last["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_breaks_its_schema_is_asked_for_again(
    client: AsyncOpenAI, engine: MockEngine, streams: bool
) -> None:
    engine.will(text('{"name": "Ada"}'), text('{"name": "Ada", "age": 36}'))
    if streams:
        async with client.responses.stream(model="mock", input="Who?", text_format=Person) as stream:
            response = await stream.get_final_response()
    else:
        response = await client.responses.parse(model="mock", input="Who?", text_format=Person)
    assert response.output_parsed == Person(name="Ada", age=36)
    assert len(engine.requests) == 2
    assert response.usage is not None
    assert response.usage.total_tokens == 34


@pytest.mark.parametrize("streams", [False, True])
async def test_what_the_engine_rejects_is_an_http_error(client: AsyncOpenAI, engine: MockEngine, streams: bool) -> None:
    engine.will(Refusal(400, {"error": {"message": "no such sampler", "type": "invalid_request_error"}}))
    with pytest.raises(openai.BadRequestError, match="no such sampler"):
        await client.responses.create(model="mock", input="Hi", stream=streams)


async def test_invalid_requests_name_the_field(client: AsyncOpenAI, engine: MockEngine) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        await client.responses.create(model="mock", input="Hi", temperature=7)
    assert bad.value.param == "temperature"
    schema: Any = {"format": {"type": "json_schema", "name": "p", "schema": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError) as bad:
        await client.responses.create(model="mock", input="Hi", text=schema, stream=True)
    assert bad.value.param == "text.format.schema"
    with pytest.raises(openai.BadRequestError, match="stores no responses"):
        await client.responses.create(model="mock", input="Hi", previous_response_id="resp_1")
    assert engine.requests == []


async def test_an_engine_that_is_away_is_a_503(client: AsyncOpenAI, engine: MockEngine) -> None:
    await engine.stop()
    for streams in (False, True):
        with pytest.raises(openai.InternalServerError) as away:
            await client.responses.create(model="mock", input="Hi", stream=streams)
        assert away.value.status_code == 503


async def test_an_answer_that_is_cut_off_ends_as_failed(client: AsyncOpenAI, engine: MockEngine) -> None:
    engine.will(chunk({"content": "Hello"}))
    stream = await client.responses.create(model="mock", input="Hi", stream=True)
    assert [event.type async for event in stream][-1] == "response.failed"


async def test_a_client_that_leaves_ends_the_engines_work(client: AsyncOpenAI, engine: MockEngine) -> None:
    async def script(write: Writer) -> None:
        await write(chunk({"content": "Hello"}))
        await asyncio.Event().wait()

    engine.will(script)
    stream = await client.responses.create(model="mock", input="Hi", stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    assert await engine.cancelled.wait()


async def test_usage_that_the_engine_does_not_report_is_null(client: AsyncOpenAI, engine: MockEngine) -> None:
    engine.will(b"".join([chunk({"content": "Hi"}), chunk(finish="stop"), b"data: [DONE]\n\n"]))
    response = await client.responses.create(model="mock", input="Hi")
    assert (response.output_text, response.usage) == ("Hi", None)
