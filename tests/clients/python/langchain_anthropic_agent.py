"""LangChain: `ChatAnthropic`, and an agent of it."""

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from scenarios import Person, play


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


THINKS = {"thinking": {"type": "adaptive"}, "effort": "low"}


def model(url, **more):
    # The package adds /v1 itself.
    settings = {"base_url": url.removesuffix("/v1"), "api_key": "any", "max_retries": 0, "max_tokens": 1024}
    return ChatAnthropic(model="mock", **{**settings, **more})


async def text(url):
    answer = await model(url).ainvoke([("system", "Be brief."), ("user", "Hi")])
    return {"text": answer.text, "input": answer.usage_metadata["input_tokens"]}


async def text_streamed(url):
    """The chunks of a stream, added up."""
    pieces = [chunk async for chunk in model(url).astream([("system", "Be brief."), ("user", "Hi")])]
    answer = sum(pieces[1:], pieces[0])
    return {"text": answer.text, "input": answer.usage_metadata["input_tokens"]}


async def stream(url):
    return [chunk.text async for chunk in model(url).astream("Hi") if chunk.text]


async def cut(url):
    answer = await model(url, max_tokens=16).ainvoke("Hi")
    return [answer.text, answer.response_metadata["stop_reason"]]


async def broken(url):
    try:
        return [chunk.text async for chunk in model(url).astream("Hi")]
    except Exception as error:
        return [type(error).__name__, error.body["error"]["type"], error.body["error"]["message"]]


async def thought(url, **more):
    blocks = (await model(url, **THINKS, **more).ainvoke("Think.")).content_blocks
    return [(block["type"], block.get("reasoning") or block.get("text")) for block in blocks]


async def run_agent(model):
    state = await create_agent(model, tools=[weather]).ainvoke({"messages": [("user", "Weather?")]})
    return [[message.type, message.text] for message in state["messages"]]


async def streamed_agent(url):
    agent = create_agent(model(url, **THINKS), tools=[weather])
    steps = agent.astream({"messages": [("user", "Weather?")]}, stream_mode="messages")
    return "".join([message.text async for message, _ in steps])


async def structured(url):
    person = await model(url).with_structured_output(Person, method="json_schema").ainvoke("Invent a person.")
    return person.model_dump()


async def structured_by_tool(url):
    return (await model(url).with_structured_output(Person).ainvoke("Invent a person.")).model_dump()


async def talk(model):
    messages = [("user", "My name is Ada.")]
    messages += [await model.ainvoke(messages), ("user", "What is my name?")]
    return (await model.ainvoke(messages)).text


async def image(url):
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "base64": "iVBORw==", "mime_type": "image/png"},
    ]
    return (await model(url).ainvoke([("user", content)])).text


def count(url):
    return model(url).get_num_tokens_from_messages([HumanMessage("Hi")], tools=[weather])


play(
    text,
    text_streamed,
    stream,
    cut,
    broken,
    thought,
    streamed_agent,
    structured,
    structured_by_tool,
    image,
    count,
    thought_streamed=lambda url: thought(url, streaming=True),
    agent=lambda url: run_agent(model(url)),
    agent_that_thinks=lambda url: run_agent(model(url, **THINKS)),
    two_turns=lambda url: talk(model(url, **THINKS)),
    two_turns_streamed=lambda url: talk(model(url, streaming=True, **THINKS)),
)
