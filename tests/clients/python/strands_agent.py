"""Strands Agents: an agent with an `OpenAIResponsesModel`."""

from pydantic import BaseModel
from scenarios import play
from strands import Agent, tool
from strands.models.openai_responses import OpenAIResponsesModel


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


class Person(BaseModel):
    """A person."""

    name: str
    age: float


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


async def tools(url):
    return texts(await agent(url, tools=[weather]).invoke_async("Weather?"))


async def tools_with_state(url):
    return texts(await agent(url, tools=[weather], stateful=True).invoke_async("Weather?"))


async def structured(url):
    result = await agent(url).invoke_async("Invent a person.", structured_output_model=Person)
    return result.structured_output.model_dump()


async def talk(speaker):
    await speaker.invoke_async("My name is Ada.")
    return texts(await speaker.invoke_async("What is my name?"))


async def two_turns(url):
    return await talk(agent(url))


async def two_turns_with_state(url):
    return await talk(agent(url, stateful=True))


play(text, stream, thought, tools, tools_with_state, structured, two_turns, two_turns_with_state)
