"""Semantic Kernel: an `OpenAIResponsesAgent`."""

import json
from typing import Annotated

from openai import AsyncOpenAI
from scenarios import Person, play
from semantic_kernel.agents import OpenAIResponsesAgent
from semantic_kernel.functions import kernel_function


class Skills:
    @kernel_function(name="weather", description="The weather of a city")
    def weather(self, city: Annotated[str, "its name"]) -> str:
        return f"sunny in {city}"


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


async def run_tools(agent):
    return str((await agent.get_response("Weather?")).message)


async def streamed_tools(url):
    pieces = agent(url, plugins=[Skills()]).invoke_stream("Weather?")
    return "".join([str(response.message) async for response in pieces])


async def structured(url):
    format = OpenAIResponsesAgent.configure_response_format(Person)
    response = await agent(url, text=format).get_response("Invent a person.")
    return json.loads(str(response.message))


async def talk(speaker):
    first = await speaker.get_response("My name is Ada.")
    return str((await speaker.get_response("What is my name?", thread=first.thread)).message)


play(
    text,
    stream,
    thought,
    streamed_tools,
    structured,
    tools=lambda url: run_tools(agent(url, plugins=[Skills()])),
    tools_without_store=lambda url: run_tools(agent(url, plugins=[Skills()], store_enabled=False)),
    two_turns=lambda url: talk(agent(url)),
    two_turns_without_store=lambda url: talk(agent(url, store_enabled=False)),
)
