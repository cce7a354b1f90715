"""OpenAI's own package for Python, over Chat Completions: what it makes of answers and streams, its helpers, and its errors."""

import json

import openai
from openai import AsyncOpenAI, OpenAI
from scenarios import Person, play

SETTINGS = {"model": "mock"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def client(url):
    return OpenAI(base_url=url, api_key="any", max_retries=0)


def user(content):
    return {"role": "user", "content": content}


def ask(url, content="Hi", **more):
    return client(url).chat.completions.create(**{**SETTINGS, "messages": [user(content)], **more})


def ask_streaming(url, content="Hi", **more):
    """The completion that the package puts together from a stream."""
    with client(url).chat.completions.stream(**{**SETTINGS, "messages": [user(content)], **more}) as stream:
        return stream.get_final_completion()


def message_of(completion):
    (choice,) = completion.choices
    return choice.message


# ---- text ------------------------------------------------------------------------------------------------------------

BRIEF = {"messages": [{"role": "system", "content": "Be brief."}, user("Hi")]}


def seen(completion):
    return {"text": message_of(completion).content, "input": completion.usage.prompt_tokens}


async def text_async(url):
    async with AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as made:
        return seen(await made.chat.completions.create(**SETTINGS, **BRIEF))


def stream(url):
    chunks = [*ask(url, stream=True, stream_options={"include_usage": True})]
    assert chunks[-1].usage.total_tokens == 17
    return [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]


def stream_helper(url):
    with client(url).chat.completions.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        return [event.delta for event in stream if event.type == "content.delta"]


# With a tool, so that its thought has the name that all engines share here.
THINKS = {"content": "Think.", "reasoning_effort": "low", "tools": [WEATHER]}


def thought(completion):
    """A member that the package has no name for."""
    message = message_of(completion)
    return [message.reasoning_content, message.content]


def cut(completion):
    return [message_of(completion).content, completion.choices[0].finish_reason]


def broken(url, **more):
    pieces = []
    try:
        for chunk in ask(url, stream=True, **more):
            pieces += [chunk.choices[0].delta.content] if chunk.choices[0].delta.content else []
    except openai.APIError as error:
        return [*pieces, error.message]


def sent_back(message):
    """A message as it came, without what the package itself adds."""
    return message.to_dict(exclude_unset=True, exclude_none=True)


# ---- calls -----------------------------------------------------------------------------------------------------------


def answer_of(call):
    city = json.loads(call.function.arguments)["city"]
    return {"role": "tool", "tool_call_id": call.id, "content": f"sunny in {city}"}


def call_tools(url, ask):
    """Each answer is sent back as it came, with the results of its calls."""
    messages = [user("Weather?")]
    while (completion := ask(url, messages=messages, tools=[WEATHER])).choices[0].finish_reason == "tool_calls":
        message = message_of(completion)
        messages += [sent_back(message), *(answer_of(call) for call in message.tool_calls)]
    return message_of(completion).content


def forced(url, ask, choice):
    (call,) = message_of(ask(url, "Weather?", tools=[WEATHER], tool_choice=choice)).tool_calls
    return json.loads(call.function.arguments)


def call_events(url):
    """The events that the package makes of the chunks of calls."""
    with client(url).chat.completions.stream(**SETTINGS, messages=[user("Weather?")], tools=[WEATHER]) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
    return [[event.index, event.name, event.parsed_arguments] for event in done]


# ---- objects ---------------------------------------------------------------------------------------------------------

INVENT = {**SETTINGS, "messages": [user("Invent a person.")], "response_format": Person}


def parsed(url):
    return message_of(client(url).chat.completions.parse(**INVENT)).parsed.model_dump()


def parsed_stream(url):
    with client(url).chat.completions.stream(**INVENT) as stream:
        return message_of(stream.get_final_completion()).parsed.model_dump()


# ---- turns -----------------------------------------------------------------------------------------------------------


def two_turns(url, ask):
    messages = [user("My name is Ada.")]
    messages += [sent_back(message_of(ask(url, messages=messages, tools=[WEATHER]))), user("What is my name?")]
    return message_of(ask(url, messages=messages, tools=[WEATHER])).content


# ---- errors and headers ----------------------------------------------------------------------------------------------


def refused(url, **request):
    try:
        ask(url, **request)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.param, error.code, error.type]


NAMED = {"type": "function", "function": {"name": "weather"}}

play(
    text_async,
    stream,
    stream_helper,
    call_events,
    parsed,
    parsed_stream,
    refused,
    text=lambda url: seen(ask(url, **BRIEF)),
    text_streamed=lambda url: seen(ask_streaming(url, **BRIEF, stream_options={"include_usage": True})),
    cut=lambda url: cut(ask(url, max_completion_tokens=16)),
    cut_with_tools=lambda url: cut(ask(url, max_completion_tokens=16, tools=[WEATHER])),
    broken=broken,
    broken_with_tools=lambda url: broken(url, tools=[WEATHER]),
    calls=lambda url: call_tools(url, ask),
    calls_streamed=lambda url: call_tools(url, ask_streaming),
    required=lambda url: forced(url, ask, "required"),
    named_streamed=lambda url: forced(url, ask_streaming, NAMED),
    two_turns=lambda url: two_turns(url, ask),
    two_turns_streamed=lambda url: two_turns(url, ask_streaming),
    thought=lambda url: thought(ask(url, **THINKS)),
    thought_streamed=lambda url: thought(ask_streaming(url, **THINKS)),
)
