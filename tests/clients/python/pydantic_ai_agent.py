"""Pydantic AI: agents with an `OpenAIResponsesModel`."""

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from scenarios import play


class Person(BaseModel):
    name: str
    age: float


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
        return [type(error).__name__, str(error)]


async def thought(url):
    result = await agent(url, REASONS).run("Think.")
    return [[part.part_kind, part.content] for part in result.new_messages()[-1].parts]


async def ask_for_weather(url, settings):
    result = await agent(url, settings, tools=[weather]).run("Weather?")
    return result.output


async def tools(url):
    return await ask_for_weather(url, None)


async def tools_without_store(url):
    return await ask_for_weather(url, STATELESS)


async def tools_with_previous_response(url):
    return await ask_for_weather(url, CHAINED)


async def tools_over_websocket(url):
    return await ask_for_weather(url, WEBSOCKET)


async def streamed_tools(url):
    async with agent(url, STATELESS, tools=[weather]).run_stream("Weather?") as result:
        return await result.get_output()


async def structured(url):
    return (await agent(url, output_type=NativeOutput(Person)).run("Invent a person.")).output.model_dump()


async def structured_by_tool(url):
    return (await agent(url, output_type=Person).run("Invent a person.")).output.model_dump()


async def talk(url, settings):
    speaker = agent(url, settings)
    first = await speaker.run("My name is Ada.")
    return (await speaker.run("What is my name?", message_history=first.all_messages())).output


async def two_turns(url):
    return await talk(url, None)


async def two_turns_without_store(url):
    return await talk(url, STATELESS)


async def two_turns_with_previous_response(url):
    return await talk(url, CHAINED)


play(
    text,
    stream,
    cut,
    broken,
    thought,
    tools,
    tools_without_store,
    tools_with_previous_response,
    tools_over_websocket,
    streamed_tools,
    structured,
    structured_by_tool,
    two_turns,
    two_turns_without_store,
    two_turns_with_previous_response,
)
