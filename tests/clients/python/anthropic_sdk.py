"""Anthropic's own package for Python: `anthropic`."""

import anthropic
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from scenarios import Person, play

THINKS = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
SETTINGS = {"model": "mock", "max_tokens": 1024}

PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}

WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def client(url, **more):
    # The package adds /v1 itself.
    return Anthropic(**{"base_url": url.removesuffix("/v1"), "api_key": "any", "max_retries": 0, **more})


def user(content):
    return {"role": "user", "content": content}


def ask(url, content="Hi", **more):
    return client(url).messages.create(**{**SETTINGS, "messages": [user(content)], **more})


# ---- text ------------------------------------------------------------------------------------------------------------


def text(url):
    message = ask(url, system="Be brief.")
    return {"text": message.content[0].text, "input": message.usage.input_tokens}


async def text_async(url):
    async with AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="any") as made:
        message = await made.messages.create(**SETTINGS, system=[{"type": "text", "text": "Be brief."}], messages=[user("Hi")])
    return {"text": message.content[0].text, "input": message.usage.input_tokens}


def text_with_token(url):
    """As for an Anthropic account that is signed in: the key is a bearer token."""
    made = client(url, api_key=None, auth_token="any")
    message = made.messages.create(**SETTINGS, system="Be brief.", messages=[user("Hi")])
    return {"text": message.content[0].text, "input": message.usage.input_tokens}


def stream(url):
    with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        return list(stream.text_stream)


def raw_stream(url):
    """The events as they come over the wire."""
    return [event.to_dict() for event in ask(url, stream=True)]


async def stream_async(url):
    async with (
        AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="any") as made,
        made.messages.stream(**SETTINGS, messages=[user("Hi")]) as stream,
    ):
        pieces = [piece async for piece in stream.text_stream]
        final = await stream.get_final_message()
    return {"pieces": pieces, "text": final.content[0].text, "stop": final.stop_reason, "usage": usage_of(final)}


def usage_of(message):
    return [message.usage.input_tokens, message.usage.output_tokens]


def whole(url):
    return ask(url).to_dict()


def final_message(url):
    """What the package puts together from the events."""
    with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        return {"text": stream.get_final_text(), "message": stream.get_final_message().to_dict()}


def helper_events(url):
    """The events that the package makes of those on the wire."""
    with client(url).messages.stream(**SETTINGS, **THINKS, tools=[WEATHER], messages=[user("Weather?")]) as stream:
        return [[event.type, *snapshot(event)] for event in stream]


def snapshot(event):
    match event.type:
        case "text" | "thinking" | "input_json":
            return [event.snapshot]
        case "signature":
            return [bool(event.signature)]
        case "content_block_stop":
            return [event.content_block.type]
    return []


def cut(url):
    message = ask(url, max_tokens=16)
    return [message.content[0].text, message.stop_reason]


def cut_streamed(url):
    with client(url).messages.stream(**{**SETTINGS, "max_tokens": 16}, messages=[user("Hi")]) as stream:
        message = stream.get_final_message()
    return [message.content[0].text, message.stop_reason]


def broken(url):
    pieces = []
    try:
        with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
            pieces.extend(stream.text_stream)
    except anthropic.APIError as error:
        return [*pieces, error.body["error"]["type"], error.body["error"]["message"]]


def options(url):
    """Everything that a request may set, at once."""
    message = ask(
        url,
        stop_sequences=["END"],
        metadata={"user_id": "ada"},
        service_tier="auto",
        tools=[WEATHER],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 5},
    )
    return message.content[0].text


def cached(url):
    message = ask(url)
    return message.usage.to_dict()


# ---- thoughts --------------------------------------------------------------------------------------------------------


def thought(url):
    blocks = ask(url, "Think.", **THINKS).content
    return [[block.type, getattr(block, block.type)] for block in blocks]


def thought_streamed(url):
    with client(url).messages.stream(**SETTINGS, **THINKS, messages=[user("Think.")]) as stream:
        blocks = stream.get_final_message().content
    return [[block.type, getattr(block, block.type)] for block in blocks]


def thought_with_budget(url):
    blocks = ask(url, "Think.", thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048).content
    return [[block.type, getattr(block, block.type)] for block in blocks]


def thought_not_shown(url):
    blocks = ask(url, "Think.", **{**THINKS, "thinking": {"type": "adaptive", "display": "omitted"}}).content
    return [[block.type, getattr(block, block.type), bool(getattr(block, "signature", ""))] for block in blocks]


def thought_not_shown_streamed(url):
    thinking = {"type": "adaptive", "display": "omitted"}
    with client(url).messages.stream(**SETTINGS, thinking=thinking, messages=[user("Think.")]) as stream:
        blocks = stream.get_final_message().content
    return [[block.type, getattr(block, block.type), bool(getattr(block, "signature", ""))] for block in blocks]


def thought_not_wanted(url):
    return [block.type for block in ask(url, "Think.").content]


# ---- calls -----------------------------------------------------------------------------------------------------------


@beta_tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return f"sunny in {city}"


@beta_async_tool
async def weather_async(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def calls(url):
    """Each answer is sent back as it came, with the results of its calls."""
    messages = [user("Weather?")]
    made = client(url)
    while True:
        message = made.messages.create(**SETTINGS, **THINKS, tools=[WEATHER], messages=messages)
        if message.stop_reason != "tool_use":
            return message.content[0].text
        uses = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": f"sunny in {use.input['city']}"} for use in uses]
        messages += [message.to_param(), user(results)]


def calls_streamed(url):
    messages = [user("Weather?")]
    made = client(url)
    while True:
        with made.messages.stream(**SETTINGS, **THINKS, tools=[WEATHER], messages=messages) as stream:
            message = stream.get_final_message()
        if message.stop_reason != "tool_use":
            return message.content[0].text
        uses = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": f"sunny in {use.input['city']}"} for use in uses]
        messages += [message.to_param(), user(results)]


def tool_runner(url):
    runner = client(url).beta.messages.tool_runner(**SETTINGS, **THINKS, tools=[weather], messages=[user("Weather?")])
    return runner.until_done().content[0].text


def tool_runner_streamed(url):
    runner = client(url).beta.messages.tool_runner(
        **SETTINGS, **THINKS, tools=[weather], messages=[user("Weather?")], stream=True
    )
    for stream in runner:
        last = stream.get_final_message()
    return last.content[0].text


async def tool_runner_async(url):
    async with AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="any") as made:
        tools = [beta_async_tool(weather_async.func, name="weather")]
        runner = made.beta.messages.tool_runner(**SETTINGS, **THINKS, tools=tools, messages=[user("Weather?")])
        return (await runner.until_done()).content[0].text


def failing_tool(url):
    """The runner tells the model about the error of a tool."""

    @beta_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        raise ValueError(f"{city} is unknown.")

    runner = client(url).beta.messages.tool_runner(**SETTINGS, tools=[weather], messages=[user("Weather?")])
    return runner.until_done().content[0].text


def chosen(url, choice):
    """`choice`: how the tool must be called."""
    message = ask(url, "Weather?", tools=[WEATHER], tool_choice=choice)
    return [[block.type, block.name, block.input] for block in message.content]


def answered(url, content, is_error=False):
    """The result of a call is this content."""
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": content, "is_error": is_error}
    use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
    messages = [user("Weather?"), {"role": "assistant", "content": [use]}, user([result])]
    return client(url).messages.create(**SETTINGS, tools=[WEATHER], messages=messages).content[0].text


def client_tools(url):
    """Tools whose schema only Anthropic's models know. The client runs them."""
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
    ]
    return [[block.name, block.input] for block in ask(url, "List the files.", tools=tools).content]


# ---- objects ---------------------------------------------------------------------------------------------------------


def parsed(url):
    message = client(url).messages.parse(**SETTINGS, messages=[user("Invent a person.")], output_format=Person)
    return message.parsed_output.model_dump()


def parsed_stream(url):
    made = client(url)
    with made.messages.stream(**SETTINGS, messages=[user("Invent a person.")], output_format=Person) as stream:
        return stream.get_final_message().parsed_output.model_dump()


def parsed_beta(url):
    """The older place of the schema."""
    message = client(url).beta.messages.parse(**SETTINGS, messages=[user("Invent a person.")], output_format=Person)
    return message.parsed_output.model_dump()


# ---- turns -----------------------------------------------------------------------------------------------------------


def two_turns(url):
    made = client(url)
    messages = [user("My name is Ada.")]
    first = made.messages.create(**SETTINGS, **THINKS, messages=messages)
    messages += [first.to_param(), user("What is my name?")]
    return made.messages.create(**SETTINGS, **THINKS, messages=messages).content[0].text


def two_turns_streamed(url):
    made = client(url)
    messages = [user("My name is Ada.")]
    with made.messages.stream(**SETTINGS, **THINKS, messages=messages) as stream:
        first = stream.get_final_message()
    messages += [first.to_param(), user("What is my name?")]
    return made.messages.create(**SETTINGS, **THINKS, messages=messages).content[0].text


def two_turns_without_text_of_thoughts(url):
    """A thought whose text is not shown is known by its signature alone."""
    made = client(url)
    messages = [user("My name is Ada.")]
    hidden = {**THINKS, "thinking": {"type": "adaptive", "display": "omitted"}}
    first = made.messages.create(**SETTINGS, **hidden, messages=messages)
    messages += [first.to_param(), user("What is my name?")]
    return made.messages.create(**SETTINGS, **hidden, messages=messages).content[0].text


# ---- images and documents --------------------------------------------------------------------------------------------


def image(url):
    return ask(url, [{"type": "text", "text": "What is it?"}, {"type": "image", "source": PNG}]).content[0].text


def image_by_url(url, address):
    source = {"type": "url", "url": address}
    return ask(url, [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]).content[0].text


def document(url, source, title=None):
    block = {"type": "document", "source": source, "title": title}
    return ask(url, [block, {"type": "text", "text": "What does it say?"}]).content[0].text


# ---- tokens, ids and errors ------------------------------------------------------------------------------------------


def count(url):
    counted = client(url).messages.count_tokens(model="mock", system="Be brief.", tools=[WEATHER], messages=[user("Hi")])
    return counted.to_dict()


def count_beta(url):
    return client(url).beta.messages.count_tokens(model="mock", messages=[user("Hi")]).to_dict()


def request_ids(url):
    """The id that the package shows, of an answer, a stream, a count and an error; and where the error has it."""
    made = client(url)
    message = ask(url)
    with made.messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        streamed = stream.request_id
    counted = made.messages.with_raw_response.count_tokens(model="mock", messages=[user("Hi")])
    error = refusal(ask, url, [])
    return [message._request_id, streamed, counted.headers["request-id"], error.request_id, error.body["request_id"]]


def refusal(function, *arguments, **more):
    try:
        function(*arguments, **more)
    except anthropic.APIStatusError as error:
        return error
    raise AssertionError("There was no error.")


def error_of(function, *arguments, **more):
    error = refusal(function, *arguments, **more)
    return [type(error).__name__, error.status_code, error.type, error.api_message]


def refused(url):
    return error_of(ask, url, [{"type": "image", "source": {"type": "base64", "media_type": "image/png"}}])


def refused_stream(url):
    return error_of(ask, url, [{"type": "picture"}], stream=True)


def wrong_key(url):
    return error_of(ask, url)


def unknown_model(url):
    return error_of(ask, url, model="unknown")


def unknown_path(url):
    return error_of(client(url).post, "/v1/message", body={}, cast_to=object)


def overloaded(url):
    return error_of(ask, url)


def retried(url):
    """The package itself asks again."""
    message = client(url, max_retries=2).messages.create(**SETTINGS, messages=[user("Hi")])
    return message.content[0].text


play(
    text,
    text_async,
    text_with_token,
    stream,
    stream_async,
    raw_stream,
    whole,
    final_message,
    helper_events,
    cut,
    cut_streamed,
    broken,
    options,
    cached,
    thought,
    thought_streamed,
    thought_with_budget,
    thought_not_shown,
    thought_not_shown_streamed,
    thought_not_wanted,
    calls,
    calls_streamed,
    tool_runner,
    tool_runner_streamed,
    tool_runner_async,
    failing_tool,
    chosen,
    answered,
    client_tools,
    parsed,
    parsed_stream,
    parsed_beta,
    two_turns,
    two_turns_streamed,
    two_turns_without_text_of_thoughts,
    image,
    image_by_url,
    document,
    count,
    count_beta,
    request_ids,
    refused,
    refused_stream,
    wrong_key,
    unknown_model,
    unknown_path,
    overloaded,
    retried,
)
