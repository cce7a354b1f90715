"""Strands Agents: an agent with an `OpenAIResponsesModel`."""

from scenarios import Person, play
from strands import Agent, tool
from strands.models.openai_responses import OpenAIResponsesModel


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


REASONS = {"reasoning": {"effort": "low", "summary": "auto"}}


def agent(url, *, stateful=False, params=None, **more):
    connection = {"base_url": url, "api_key": "any", "max_retries": 0}
    model = OpenAIResponsesModel(client_args=connection, model_id="mock", stateful=stateful, params=params or {})
    return Agent(model=model, callback_handler=None, **more)


def texts(result):
    return [block["text"] for block in result.message["content"] if "text" in block]


async def text(url):
    result = await agent(url, system_prompt="Be brief.").invoke_async("Hi")
    return {"texts": texts(result), "input": result.metrics.accumulated_usage["inputTokens"]}


async def stream(url):
    return [event["data"] async for event in agent(url).stream_async("Hi") if "data" in event]


async def thought(url):
    events = agent(url, params=REASONS).stream_async("Think.")
    return "".join([event["reasoningText"] async for event in events if "reasoningText" in event])


async def run_tools(agent):
    return texts(await agent.invoke_async("Weather?"))


async def structured(url):
    result = await agent(url).invoke_async("Invent a person.", structured_output_model=Person)
    return result.structured_output.model_dump()


async def talk(speaker):
    await speaker.invoke_async("My name is Ada.")
    return texts(await speaker.invoke_async("What is my name?"))


play(
    text,
    stream,
    thought,
    structured,
    tools=lambda url: run_tools(agent(url, tools=[weather])),
    tools_with_state=lambda url: run_tools(agent(url, tools=[weather], stateful=True)),
    two_turns=lambda url: talk(agent(url)),
    two_turns_with_state=lambda url: talk(agent(url, stateful=True)),
)
