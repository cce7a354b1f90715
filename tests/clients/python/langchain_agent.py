"""LangChain: `ChatOpenAI` with `use_responses_api`, and an agent of it."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from scenarios import Person, play


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


REASONS = {"reasoning": {"effort": "low", "summary": "auto"}}
STATELESS = {**REASONS, "store": False, "include": ["reasoning.encrypted_content"]}


def model(url, **more):
    settings = {"use_responses_api": True, "output_version": "responses/v1", "max_retries": 0}
    return ChatOpenAI(model="mock", base_url=url, api_key="any", **settings, **more)


async def text(url):
    answer = await model(url).ainvoke([("system", "Be brief."), ("user", "Hi")])
    return {"text": answer.text, "input": answer.usage_metadata["input_tokens"]}


async def stream(url):
    return [chunk.text async for chunk in model(url).astream("Hi") if chunk.text]


async def cut(url):
    answer = await model(url, max_tokens=16).ainvoke("Hi")
    return [answer.text, answer.response_metadata["incomplete_details"]["reason"]]


async def broken(url):
    try:
        return [chunk.text async for chunk in model(url).astream("Hi")]
    except Exception as error:
        return [type(error).__name__, str(error)]


async def thought(url):
    blocks = (await model(url, **REASONS).ainvoke("Think.")).content_blocks
    return [(block["type"], block.get("reasoning") or block.get("text")) for block in blocks]


async def run_agent(model):
    state = await create_agent(model, tools=[weather]).ainvoke({"messages": [("user", "Weather?")]})
    return [[message.type, message.text] for message in state["messages"]]


async def streamed_agent(url):
    agent = create_agent(model(url, **REASONS), tools=[weather])
    steps = agent.astream({"messages": [("user", "Weather?")]}, stream_mode="messages")
    return "".join([message.text async for message, _ in steps])


async def structured(url):
    person = await model(url).with_structured_output(Person).ainvoke("Invent a person.")
    return person.model_dump()


async def talk(model):
    messages = [("user", "My name is Ada.")]
    messages += [await model.ainvoke(messages), ("user", "What is my name?")]
    return (await model.ainvoke(messages)).text


play(
    text,
    stream,
    cut,
    broken,
    thought,
    streamed_agent,
    structured,
    agent=lambda url: run_agent(model(url)),
    agent_without_store=lambda url: run_agent(model(url, **STATELESS)),
    agent_with_previous_response=lambda url: run_agent(model(url, use_previous_response_id=True)),
    two_turns=lambda url: talk(model(url)),
    two_turns_without_store=lambda url: talk(model(url, **STATELESS)),
    two_turns_with_previous_response=lambda url: talk(model(url, use_previous_response_id=True)),
    two_turns_streamed=lambda url: talk(model(url, streaming=True, **REASONS)),
)
