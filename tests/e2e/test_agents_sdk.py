"""The Agents SDK: a tool, a handoff, streamed and not."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner, function_tool
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
