"""Pydantic AI: agents with an `AnthropicModel`."""

from anthropic import AsyncAnthropic
from pydantic_ai import Agent, BinaryContent, ModelRequest, ModelRetry, NativeOutput, SystemPromptPart
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.profiles.anthropic import AnthropicModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from scenarios import Person, play

# What it sends only to models that it knows: schemas of objects, and system messages between others.
PROFILE = AnthropicModelProfile(supports_json_schema_output=True, supports_inline_system_prompts=True)
THINKS = AnthropicModelSettings(anthropic_thinking={"type": "adaptive"}, anthropic_effort="low")


def agent(url, settings=None, **more):
    # The package adds /v1 itself.
    client = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="any", max_retries=0)
    provider = AnthropicProvider(anthropic_client=client)
    return Agent(AnthropicModel("mock", provider=provider, profile=PROFILE, settings=settings), **more)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


async def text(url):
    result = await agent(url, instructions="Be brief.").run("Hi")
    return {"text": result.output, "input": result.usage.input_tokens}


async def text_streamed(url):
    async with agent(url, instructions="Be brief.").run_stream("Hi") as result:
        return {"text": await result.get_output(), "input": result.usage.input_tokens}


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
        return [type(error).__name__, error.body["error"]["message"]]


async def thought(url):
    result = await agent(url, THINKS).run("Think.")
    return [[part.part_kind, part.content] for part in result.new_messages()[-1].parts]


async def run_tools(url, settings=None):
    return (await agent(url, settings, tools=[weather]).run("Weather?")).output


async def streamed_tools(url):
    async with agent(url, THINKS, tools=[weather]).run_stream("Weather?") as result:
        return await result.get_output()


async def failing_tools(url):
    def weather(city: str) -> str:
        """The weather of a city."""
        raise ModelRetry(f"{city} is unknown.")

    return (await agent(url, tools=[weather]).run("Weather?")).output


async def structured(url):
    return (await agent(url, output_type=NativeOutput(Person)).run("Invent a person.")).output.model_dump()


async def structured_by_tool(url):
    return (await agent(url, output_type=Person).run("Invent a person.")).output.model_dump()


async def talk(speaker):
    first = await speaker.run("My name is Ada.")
    return (await speaker.run("What is my name?", message_history=first.all_messages())).output


async def told_later(url):
    first = await agent(url, THINKS).run("My name is Ada.")
    history = [*first.all_messages(), ModelRequest([SystemPromptPart("Be brief.")])]
    return (await agent(url, THINKS).run("What is my name?", message_history=history)).output


async def document(url, data):
    pdf = BinaryContent.from_data_uri(f"data:application/pdf;base64,{data}")
    return (await agent(url).run(["What does it say?", pdf])).output


play(
    text,
    text_streamed,
    stream,
    cut,
    broken,
    thought,
    streamed_tools,
    failing_tools,
    structured,
    structured_by_tool,
    told_later,
    document,
    tools=run_tools,
    tools_with_thoughts=lambda url: run_tools(url, THINKS),
    two_turns=lambda url: talk(agent(url, THINKS)),
)
