"""The Agents SDK: a tool, a handoff, a search for tools, streamed and not."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner, ToolSearchTool, function_tool, tool_namespace
from openai import AsyncOpenAI
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest

QUIET = RunConfig(tracing_disabled=True)


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@pytest_asyncio.fixture
async def model(gateway: GatewayUnderTest) -> AsyncIterator[OpenAIResponsesModel]:
    async with AsyncOpenAI(base_url=gateway.url + "/v1", api_key="any", max_retries=0) as client:
        yield OpenAIResponsesModel(model="mock", openai_client=client)


def with_tool(model: OpenAIResponsesModel) -> Agent:
    return Agent(name="Weather", instructions="Use the tool.", tools=[get_weather], model=model)


def with_handoff(model: OpenAIResponsesModel) -> Agent:
    spanish = Agent(name="Spanish", instructions="Speak Spanish.", model=model)
    settings = ModelSettings(parallel_tool_calls=False)
    return Agent(name="Triage", instructions="Hand over.", handoffs=[spanish], model=model, model_settings=settings)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tool_is_called_and_its_result_used(model: OpenAIResponsesModel, engine: MockEngine, streamed: bool) -> None:
    thought = chunk({"reasoning": "I need the weather."})
    engine.will(answer(thought, call("get_weather", '{"city": "Paris"}'), finish="tool_calls"), text("It is ", "sunny."))
    agent = with_tool(model)
    if streamed:
        running = Runner.run_streamed(agent, "Weather in Paris?", run_config=QUIET)
        kinds = [event.type async for event in running.stream_events()]
        assert "raw_response_event" in kinds
        final = running.final_output
    else:
        final = (await Runner.run(agent, "Weather in Paris?", run_config=QUIET)).final_output
    assert final == "It is sunny."
    roles = [message["role"] for message in engine.last["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert engine.last["messages"][3]["content"] == "sunny in Paris"
    assert "I need the weather." in engine.last["messages"][2]["content"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_handoff_changes_the_agent(model: OpenAIResponsesModel, engine: MockEngine, streamed: bool) -> None:
    engine.will(answer(call("transfer_to_spanish", "{}"), finish="tool_calls"), text("Hola."))
    agent = with_handoff(model)
    if streamed:
        running = Runner.run_streamed(agent, "Hola", run_config=QUIET)
        async for _ in running.stream_events():
            pass
        final, last = running.final_output, running.last_agent.name
    else:
        result = await Runner.run(agent, "Hola", run_config=QUIET)
        final, last = result.final_output, result.last_agent.name
    assert (final, last) == ("Hola.", "Spanish")
    assert engine.last["messages"][0] == {"role": "system", "content": "Speak Spanish."}


@function_tool(defer_loading=True)
def list_orders(customer: str) -> str:
    """The open orders of a customer."""
    return f"two orders of {customer}"


@function_tool(defer_loading=True)
def get_time(city: str) -> str:
    """The time in a city."""
    return f"noon in {city}"


@pytest.mark.parametrize("streamed", [False, True])
async def test_tools_that_a_search_has_found_are_called(
    model: OpenAIResponsesModel, engine: MockEngine, streamed: bool
) -> None:
    crm = tool_namespace(name="crm", description="Customers and their orders.", tools=[list_orders])
    agent = Agent(name="Clerk", tools=[ToolSearchTool(), get_time, *crm], model=model)
    engine.will(
        answer(call("tool_search", '{"query": "open orders"}', id="a"), finish="tool_calls"),
        answer(call("crm__list_orders", '{"customer": "Ada"}', id="b"), finish="tool_calls"),
        answer(call("tool_search", '{"query": "time"}', id="c"), finish="tool_calls"),
        answer(call("get_time", '{"city": "Rome"}', id="d"), finish="tool_calls"),
        text("Two, at noon."),
    )
    question = "Orders of Ada, and the time in Rome?"
    if streamed:
        running = Runner.run_streamed(agent, question, run_config=QUIET)
        names = [event.name async for event in running.stream_events() if event.type == "run_item_stream_event"]
        assert names[:2] == ["tool_search_called", "tool_search_output_created"]
        final, items = running.final_output, running.new_items
    else:
        result = await Runner.run(agent, question, run_config=QUIET)
        final, items = result.final_output, result.new_items
    assert final == "Two, at noon."
    found = ["tool_search_call_item", "tool_search_output_item", "tool_call_item", "tool_call_output_item"]
    assert [item.type for item in items] == [*found, *found, "message_output_item"]
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["tool_search", "crm__list_orders", "get_time"]
    outputs = [message["content"] for message in engine.last["messages"] if message["role"] == "tool"]
    assert outputs[1::2] == ["two orders of Ada", "noon in Rome"]
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
