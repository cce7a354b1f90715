"""LangChain as it is by default: `ChatOpenAI` over Chat Completions, and an agent of it."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from scenarios import Person, play


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def model(url, **more):
    return ChatOpenAI(model="mock", base_url=url, api_key="any", max_retries=0, **more)


async def text(url):
    answer = await model(url).ainvoke([("system", "Be brief."), ("user", "Hi")])
    return {"text": answer.text, "input": answer.usage_metadata["input_tokens"]}


async def stream(url):
    return [chunk.text async for chunk in model(url).astream("Hi") if chunk.text]


async def cut(model):
    answer = await model.ainvoke("Hi")
    return [answer.text, answer.response_metadata["finish_reason"]]


async def broken(url, model):
    try:
        return [chunk.text async for chunk in model.astream("Hi")]
    except Exception as error:
        return [type(error).__name__, str(error)]


async def run_agent(model):
    state = await create_agent(model, tools=[weather]).ainvoke({"messages": [("user", "Weather?")]})
    return [[message.type, message.text] for message in state["messages"]]


async def streamed_agent(url):
    agent = create_agent(model(url), tools=[weather])
    steps = agent.astream({"messages": [("user", "Weather?")]}, stream_mode="messages")
    return "".join([message.text async for message, _ in steps])


async def forced(url, choice):
    answer = await model(url).bind_tools([weather], tool_choice=choice).ainvoke("Weather?")
    (call,) = answer.tool_calls
    return call["args"]


async def structured(model, **method):
    person = await model.with_structured_output(Person, **method).ainvoke("Invent a person.")
    return person.model_dump()


async def talk(model):
    messages = [("user", "My name is Ada.")]
    messages += [await model.ainvoke(messages), ("user", "What is my name?")]
    return (await model.ainvoke(messages)).text


play(
    text,
    stream,
    streamed_agent,
    cut=lambda url: cut(model(url, max_tokens=16)),
    cut_with_tools=lambda url: cut(model(url, max_tokens=16).bind_tools([weather])),
    broken=lambda url: broken(url, model(url)),
    broken_with_tools=lambda url: broken(url, model(url).bind_tools([weather])),
    agent=lambda url: run_agent(model(url)),
    required=lambda url: forced(url, "required"),
    named=lambda url: forced(url, "weather"),
    structured=lambda url: structured(model(url)),
    structured_streamed=lambda url: structured(model(url, streaming=True)),
    structured_by_tool=lambda url: structured(model(url), method="function_calling"),
    two_turns=lambda url: talk(model(url).bind_tools([weather])),
    two_turns_streamed=lambda url: talk(model(url, streaming=True).bind_tools([weather])),
)
