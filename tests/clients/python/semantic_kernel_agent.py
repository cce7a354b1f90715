"""Semantic Kernel: an `OpenAIResponsesAgent`."""

from typing import Annotated

from openai import AsyncOpenAI
from pydantic import BaseModel
from scenarios import play
from semantic_kernel.agents import OpenAIResponsesAgent
from semantic_kernel.functions import kernel_function


class Skills:
    @kernel_function(name="weather", description="The weather of a city")
    def weather(self, city: Annotated[str, "its name"]) -> str:
        return f"sunny in {city}"


class Person(BaseModel):
    name: str
    age: float


REASONS = {"effort": "low", "summary": "auto"}


def agent(url, **more):
    client = AsyncOpenAI(base_url=url, api_key="any", max_retries=0)
    return OpenAIResponsesAgent(ai_model_id="mock", client=client, name="Assistant", **more)


async def text(url):
    response = await agent(url, instructions="Be brief.").get_response("Hi")
    return str(response.message)


async def stream(url):
    return [str(response.message) async for response in agent(url).invoke_stream("Hi")]


async def thought(url):
    response = await agent(url, reasoning=REASONS).get_response("Think.")
    return [[item.content_type, str(item)] for item in response.message.items]


async def tools(url):
    return str((await agent(url, plugins=[Skills()]).get_response("Weather?")).message)


async def tools_without_store(url):
    return str((await agent(url, plugins=[Skills()], store_enabled=False).get_response("Weather?")).message)


async def streamed_tools(url):
    pieces = agent(url, plugins=[Skills()]).invoke_stream("Weather?")
    return "".join([str(response.message) async for response in pieces])


async def structured(url):
    format = OpenAIResponsesAgent.configure_response_format(Person)
    return str((await agent(url, text=format).get_response("Invent a person.")).message)


async def talk(speaker):
    first = await speaker.get_response("My name is Ada.")
    return str((await speaker.get_response("What is my name?", thread=first.thread)).message)


async def two_turns(url):
    return await talk(agent(url))


async def two_turns_without_store(url):
    return await talk(agent(url, store_enabled=False))


play(text, stream, thought, tools, tools_without_store, streamed_tools, structured, two_turns, two_turns_without_store)
