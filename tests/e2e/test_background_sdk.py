"""Background responses as the openai SDK makes, polls, streams, resumes and cancels them."""

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from support.background import held_back
from support.engine import MockEngine, text
from support.gateway import GatewayUnderTest

pytestmark = pytest.mark.timeout(60)


def client_of(gateway: GatewayUnderTest) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0)


async def polled(client: AsyncOpenAI, id: str) -> Any:
    """As the SDK's documentation shows it."""
    response = await client.responses.retrieve(id)
    while response.status in {"queued", "in_progress"}:
        await asyncio.sleep(0.01)
        response = await client.responses.retrieve(id)
    return response


async def test_create_and_poll(gateway: GatewayUnderTest) -> None:
    async with client_of(gateway) as client:
        queued = await client.responses.create(model="mock", input="Hi", background=True)
        assert (queued.status, queued.background) == ("queued", True)
        response = await polled(client, queued.id)
        assert (response.status, response.output_text, response.usage.total_tokens) == ("completed", "Hello world", 17)
        again = await client.responses.create(model="mock", input="Go on", previous_response_id=response.id)
        assert again.previous_response_id == response.id


async def test_stream_and_resume(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    script, go_on = held_back("Hel", "lo")
    engine.will(script)
    seen: list[Any] = []
    async with client_of(gateway) as client:
        stream = await client.responses.create(model="mock", input="Hi", background=True, stream=True)
        async for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        id, cursor = seen[0].response.id, seen[-1].sequence_number
        go_on.set()
        async for event in await client.responses.retrieve(id, stream=True, starting_after=cursor):
            seen.append(event)
        whole = [event async for event in await client.responses.retrieve(id, stream=True)]
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert [event.type for event in seen[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert seen[-1].type == "response.completed"
    assert seen[-1].response.output_text == "Hello"
    assert whole == seen


async def test_the_stream_manager_follows_by_id(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Hel", "lo"))
    async with client_of(gateway) as client:
        queued = await client.responses.create(model="mock", input="Hi", background=True)
        async with client.responses.stream(response_id=queued.id) as stream:
            final = await stream.get_final_response()
        assert (final.id, final.output_text) == (queued.id, "Hello")
        async with client.responses.stream(response_id=queued.id, starting_after=5) as stream:
            events = [event async for event in stream]
        assert events[0].sequence_number == 6
        assert events[-1].type == "response.completed"


async def test_cancel(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    script, _ = held_back("Hel", "lo")
    engine.will(script)
    async with client_of(gateway) as client:
        queued = await client.responses.create(model="mock", input="Hi", background=True)
        await engine.asked.wait()
        cancelled = await client.responses.cancel(queued.id)
        assert (cancelled.id, cancelled.status) == (queued.id, "cancelled")
        assert (await client.responses.retrieve(queued.id)).status == "cancelled"
        await engine.cancelled.wait()
        direct = await client.responses.create(model="mock", input="Hi")
        with pytest.raises(openai.BadRequestError):
            await client.responses.cancel(direct.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.cancel("resp_nowhere")
        await client.responses.delete(queued.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(queued.id)
