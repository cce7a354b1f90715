"""Pydantic AI: agents with an `OpenAIResponsesModel`."""

from openai import AsyncOpenAI
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from scenarios import Person, play

# Of models that it does not know, it sends thoughts back as text.
PROFILE = OpenAIModelProfile(openai_supports_encrypted_reasoning_content=True)
REASONS = OpenAIResponsesModelSettings(openai_reasoning_effort="low", openai_reasoning_summary="auto")
STATELESS = OpenAIResponsesModelSettings(openai_store=False, **REASONS)
CHAINED = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
WEBSOCKET = OpenAIResponsesModelSettings(openai_transport="websocket", openai_store=False)


def agent(url, settings=None, **more):
    client = AsyncOpenAI(base_url=url, api_key="any", max_retries=0)
    provider = OpenAIProvider(openai_client=client)
    return Agent(OpenAIResponsesModel("mock", provider=provider, profile=PROFILE, settings=settings), **more)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def text(url):
    result = await agent(url, instructions="Be brief.").run("Hi")
    return {"text": result.output, "input": result.usage.input_tokens}


async def stream(url):
    async with agent(url).run_stream("Hi") as result:
        return [piece async for piece in result.stream_text(delta=True, debounce_by=None)]


async def cut(url):
    answer = (await agent(url, {"max_tokens": 16}).run("Hi")).new_messages()[-1]
    return [answer.text, answer.finish_reason]


async def broken(url):
    try:
        async with agent(url).run_stream("Hi") as result:
            await result.get_output()
    except Exception as error:
        return [type(error).__name__, error.body["message"]]


async def thought(url):
    result = await agent(url, REASONS).run("Think.")
    return [[part.part_kind, part.content] for part in result.new_messages()[-1].parts]


async def run_tools(url, settings=None):
    return (await agent(url, settings, tools=[weather]).run("Weather?")).output


async def streamed_tools(url):
    async with agent(url, STATELESS, tools=[weather]).run_stream("Weather?") as result:
        return await result.get_output()


async def structured(url):
    return (await agent(url, output_type=NativeOutput(Person)).run("Invent a person.")).output.model_dump()


async def structured_by_tool(url):
    return (await agent(url, output_type=Person).run("Invent a person.")).output.model_dump()


async def talk(speaker):
    first = await speaker.run("My name is Ada.")
    return (await speaker.run("What is my name?", message_history=first.all_messages())).output


play(
    text,
    stream,
    cut,
    broken,
    thought,
    streamed_tools,
    structured,
    structured_by_tool,
    tools=run_tools,
    tools_without_store=lambda url: run_tools(url, STATELESS),
    tools_with_previous_response=lambda url: run_tools(url, CHAINED),
    tools_over_websocket=lambda url: run_tools(url, WEBSOCKET),
    two_turns=lambda url: talk(agent(url)),
    two_turns_without_store=lambda url: talk(agent(url, STATELESS)),
    two_turns_with_previous_response=lambda url: talk(agent(url, CHAINED)),
)
