"""LlamaIndex: `OpenAIResponses`, alone and in an agent."""

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses
from scenarios import Person, play


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


# The options for reasoning are only sent to models with a name that it knows.
REASONS = {"model": "o3-mini", "reasoning_options": {"effort": "low", "summary": "auto"}}


def model(url, model="mock", **more):
    return OpenAIResponses(model=model, api_base=url, api_key="any", max_retries=0, context_window=8192, **more)


async def text(url):
    messages = [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content="Hi")]
    answer = await model(url).achat(messages)
    return {"text": answer.message.content, "input": answer.additional_kwargs["usage"].input_tokens}


async def stream(url):
    chunks = await model(url).astream_chat([ChatMessage(role="user", content="Hi")])
    return [chunk.delta async for chunk in chunks if chunk.delta]


async def thought(url):
    answer = await model(url, **REASONS).achat([ChatMessage(role="user", content="Think.")])
    thinking, said = answer.message.blocks
    return {"reasoning": thinking.content, "text": said.text}


async def run_agent(model):
    handler = FunctionAgent(llm=model, tools=[weather]).run(user_msg="Weather?")
    results = [event.tool_output.content async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    return {"text": str(await handler), "results": sorted(results)}


async def structured(url):
    person = await model(url).as_structured_llm(Person).acomplete("Invent a person.")
    return person.raw.model_dump()


async def talk(speaker):
    messages = [ChatMessage(role="user", content="My name is Ada.")]
    messages += [(await speaker.achat(messages)).message, ChatMessage(role="user", content="What is my name?")]
    return (await speaker.achat(messages)).message.content


async def previous_response(url):
    speaker = model(url, track_previous_responses=True)
    await speaker.achat([ChatMessage(role="user", content="My name is Ada.")])
    return (await speaker.achat([ChatMessage(role="user", content="What is my name?")])).message.content


play(
    text,
    stream,
    thought,
    structured,
    previous_response,
    agent=lambda url: run_agent(model(url)),
    agent_with_previous_responses=lambda url: run_agent(model(url, track_previous_responses=True)),
    two_turns=lambda url: talk(model(url)),
)
