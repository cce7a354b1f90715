"""Pydantic AI: agents with an `OpenAIChatModel`."""

from openai import AsyncOpenAI
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIChatModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from scenarios import Person, play

REASONS = OpenAIChatModelSettings(openai_reasoning_effort="low")


def agent(url, settings=None, **more):
    client = AsyncOpenAI(base_url=url, api_key="any", max_retries=0)
    model = OpenAIChatModel("mock", provider=OpenAIProvider(openai_client=client), settings=settings)
    return Agent(model, **more)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def text(url):
    result = await agent(url, instructions="Be brief.").run("Hi")
    return {"text": result.output, "input": result.usage.input_tokens}


async def stream(url):
    async with agent(url).run_stream("Hi") as result:
        return [piece async for piece in result.stream_text(delta=True, debounce_by=None)]


async def cut(url, **more):
    answer = (await agent(url, {"max_tokens": 16}, **more).run("Hi")).new_messages()[-1]
    return [answer.text, answer.finish_reason]


async def broken(url, **more):
    try:
        async with agent(url, **more).run_stream("Hi") as result:
            await result.get_output()
    except Exception as error:
        return [type(error).__name__, error.body["message"]]


async def thought(url):
    result = await agent(url, REASONS, tools=[weather]).run("Think.")
    return [[part.part_kind, part.content] for part in result.new_messages()[-1].parts]


async def run_tools(url):
    return (await agent(url, tools=[weather]).run("Weather?")).output


async def streamed_tools(url):
    async with agent(url, tools=[weather]).run_stream("Weather?") as result:
        return await result.get_output()


async def structured(url):
    return (await agent(url, output_type=NativeOutput(Person)).run("Invent a person.")).output.model_dump()


async def structured_streamed(url):
    async with agent(url, output_type=NativeOutput(Person)).run_stream("Invent a person.") as result:
        return (await result.get_output()).model_dump()


# Its own tool for the output, which the model is forced to call.
async def structured_by_tool(url):
    return (await agent(url, output_type=Person).run("Invent a person.")).output.model_dump()


async def two_turns(url):
    speaker = agent(url, tools=[weather])
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
    structured_streamed,
    structured_by_tool,
    two_turns,
    tools=run_tools,
    cut_with_tools=lambda url: cut(url, tools=[weather]),
    broken_with_tools=lambda url: broken(url, tools=[weather]),
)
