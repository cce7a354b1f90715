"""State through the openai SDK, on each route, and through the Agents SDK, in each of its ways."""

from collections.abc import AsyncIterator
from typing import Literal

import openai
import pytest
import pytest_asyncio
from agents import Agent, OpenAIConversationsSession, OpenAIResponsesModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI
from openai.types.responses import EasyInputMessageParam, ResponseReasoningItem, ResponseReasoningItemParam
from openai.types.responses.response_input_param import ItemReference
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest

QUIET = RunConfig(tracing_disabled=True)
SEALED: Literal["reasoning.encrypted_content"] = "reasoning.encrypted_content"


@pytest_asyncio.fixture
async def client(gateway: GatewayUnderTest) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as connected:
        yield connected


def said(engine: MockEngine) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in engine.last["messages"]]


# ---- the openai SDK --------------------------------------------------------------------------------------------------


async def test_stored_responses(client: AsyncOpenAI, engine: MockEngine) -> None:
    first = await client.responses.create(model="mock", input="One")
    second = await client.responses.create(model="mock", input="Two", previous_response_id=first.id)
    assert said(engine) == ["user: One", "assistant: Hello world", "user: Two"]
    assert (await client.responses.retrieve(second.id)).output_text == "Hello world"
    (item,) = [item async for item in client.responses.input_items.list(second.id)]
    assert item.type == "message"
    counted = await client.responses.input_tokens.count(model="mock", input="Three", previous_response_id=second.id)
    assert counted.input_tokens == 12
    await client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError):
        await client.responses.cancel(second.id)


async def test_references_to_stored_items(client: AsyncOpenAI, engine: MockEngine) -> None:
    first = await client.responses.create(model="mock", input="One")
    (asked,) = [item async for item in client.responses.input_items.list(first.id)]
    references = [ItemReference(type="item_reference", id=item.id or "") for item in (asked, first.output[0])]
    again = EasyInputMessageParam(role="user", content="Two")
    second = await client.responses.create(model="mock", input=[*references, again])
    assert said(engine) == ["user: One", "assistant: Hello world", "user: Two"]
    kept = [item.id async for item in client.responses.input_items.list(second.id, order="asc")]
    assert kept[:2] == [asked.id, first.output[0].id]
    with pytest.raises(openai.BadRequestError) as raised:
        await client.responses.create(model="mock", input=[ItemReference(type="item_reference", id="msg_nowhere"), again])
    assert raised.value.code == "item_not_found"


async def test_sealed_reasoning_of_what_is_stored(client: AsyncOpenAI, engine: MockEngine) -> None:
    engine.will(answer(chunk({"reasoning": "I think so."}), chunk({"content": "Yes."})))
    conversation = await client.conversations.create()
    made = await client.responses.create(model="mock", input="Is it?", conversation=conversation.id)
    fetched = await client.responses.retrieve(made.id, include=[SEALED])
    listed = [item async for item in client.conversations.items.list(conversation.id, order="asc", include=[SEALED])]
    item = await client.conversations.items.retrieve(
        fetched.output[0].id or "", conversation_id=conversation.id, include=[SEALED]
    )
    for reasoning in (fetched.output[0], listed[1], item):
        assert isinstance(reasoning, ResponseReasoningItem)
        kept = ResponseReasoningItemParam(
            type="reasoning", id=reasoning.id, summary=[], encrypted_content=reasoning.encrypted_content
        )
        await client.responses.create(model="mock", input=[kept, {"role": "user", "content": "Really?"}], store=False)
        assert "I think so." in said(engine)[0]
    added = await client.conversations.items.create(
        conversation.id,
        items=[{"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}],
        include=[SEALED],
    )
    assert isinstance(added.data[0], ResponseReasoningItem)
    assert added.data[0].encrypted_content
    inputs = [each async for each in client.responses.input_items.list(made.id, include=[SEALED])]
    assert len(inputs) == 1


async def test_conversations(client: AsyncOpenAI, engine: MockEngine) -> None:
    conversation = await client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "One"}], metadata={"topic": "tea"}
    )
    await client.responses.create(model="mock", input="Two", conversation=conversation.id)
    assert said(engine) == ["user: One", "user: Two"]
    changed = await client.conversations.update(conversation.id, metadata={"topic": "coffee"})
    assert (await client.conversations.retrieve(conversation.id)).metadata == changed.metadata == {"topic": "coffee"}
    added = await client.conversations.items.create(
        conversation.id, items=[{"type": "message", "role": "user", "content": "Three"}]
    )
    third = added.data[0].id
    assert third is not None
    listed = [item async for item in client.conversations.items.list(conversation.id, order="asc", limit=2)]
    assert len(listed) == 4, "the pages lead to one another"
    assert (await client.conversations.items.retrieve(third, conversation_id=conversation.id)).type == "message"
    await client.conversations.items.delete(third, conversation_id=conversation.id)
    assert len([item async for item in client.conversations.items.list(conversation.id)]) == 3
    assert (await client.conversations.delete(conversation.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(conversation.id)


# ---- the Agents SDK --------------------------------------------------------------------------------------------------


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@pytest.fixture
def agent(client: AsyncOpenAI) -> Agent:
    return Agent(name="Weather", tools=[get_weather], model=OpenAIResponsesModel(model="mock", openai_client=client))


CALL = answer(call("get_weather", '{"city": "Paris"}', id="c1"), finish="tool_calls")
ROLES = ["user", "assistant", "tool", "assistant", "user"]


async def test_a_run_goes_on_from_an_earlier_one(agent: Agent, engine: MockEngine) -> None:
    engine.will(CALL, text("Sunny."), text("Yes."))
    first = await Runner.run(agent, "Weather in Paris?", run_config=QUIET)
    second = await Runner.run(agent, "Really?", previous_response_id=first.last_response_id, run_config=QUIET)
    assert second.final_output == "Yes."
    assert [message["role"] for message in engine.last["messages"]] == ROLES


async def test_a_run_sends_only_what_is_new(agent: Agent, engine: MockEngine) -> None:
    engine.will(CALL, text("Sunny."))
    result = await Runner.run(agent, "Weather in Paris?", auto_previous_response_id=True, run_config=QUIET)
    assert result.final_output == "Sunny."
    assert [message["role"] for message in engine.last["messages"]] == ROLES[:3]


async def test_runs_in_a_conversation(agent: Agent, client: AsyncOpenAI, engine: MockEngine) -> None:
    engine.will(CALL, text("Sunny."), text("Yes."))
    conversation = await client.conversations.create()
    await Runner.run(agent, "Weather in Paris?", conversation_id=conversation.id, run_config=QUIET)
    await Runner.run(agent, "Really?", conversation_id=conversation.id, run_config=QUIET)
    assert [message["role"] for message in engine.last["messages"]] == ROLES


async def test_a_session_that_is_a_conversation(agent: Agent, client: AsyncOpenAI, engine: MockEngine) -> None:
    engine.will(CALL, text("Sunny."), text("Yes."))
    session = OpenAIConversationsSession(openai_client=client)
    await Runner.run(agent, "Weather in Paris?", session=session, run_config=QUIET)
    await Runner.run(agent, "Really?", session=session, run_config=QUIET)
    assert [message["role"] for message in engine.last["messages"]] == ROLES
    assert len(await session.get_items()) == 6
    popped = await session.pop_item()
    assert popped is not None
    await session.clear_session()
