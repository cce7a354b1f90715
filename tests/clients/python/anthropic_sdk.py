"""Anthropic's own package for Python: `anthropic`."""

import time

import anthropic
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from scenarios import Person, play

SETTINGS = {"model": "mock", "max_tokens": 1024}
THINKS = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
HIDDEN = {**THINKS, "thinking": {"type": "adaptive", "display": "omitted"}}

WEATHER = {
    "name": "weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def settings(url, **more):
    # The package adds /v1 itself.
    return {"base_url": url.removesuffix("/v1"), "api_key": "any", "max_retries": 0, **more}


def client(url, **more):
    return Anthropic(**settings(url, **more))


def user(content):
    return {"role": "user", "content": content}


def ask(url, content="Hi", **more):
    return client(url).messages.create(**{**SETTINGS, "messages": [user(content)], **more})


def ask_streaming(url, content="Hi", **more):
    """The message that the package puts together from the events of a stream."""
    with client(url).messages.stream(**{**SETTINGS, "messages": [user(content)], **more}) as stream:
        return stream.get_final_message()


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


# ---- text ------------------------------------------------------------------------------------------------------------


def seen(message):
    return {"text": text_of(message), "input": message.usage.input_tokens}


def text(url):
    return seen(ask(url, system="Be brief."))


def text_of_blocks(url):
    cached = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    return seen(ask(url, [{"type": "text", "text": "Hi"}], system=[cached]))


def text_with_token(url):
    """As a gateway is asked that has bearer tokens."""
    made = client(url, api_key=None, auth_token="any")
    return seen(made.messages.create(**SETTINGS, system="Be brief.", messages=[user("Hi")]))


async def text_async(url):
    async with AsyncAnthropic(**settings(url)) as made:
        return seen(await made.messages.create(**SETTINGS, system="Be brief.", messages=[user("Hi")]))


def stream(url):
    with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        return list(stream.text_stream)


async def stream_async(url):
    async with AsyncAnthropic(**settings(url)) as made, made.messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        return [piece async for piece in stream.text_stream]


def whole(url):
    """The same message, as it comes, and put together from a stream."""
    return [message.to_dict() for message in (ask(url), ask_streaming(url))]


def events(url):
    """As they come over the wire."""
    return [event.to_dict() for event in ask(url, stream=True)]


def helpers(url):
    """The events that the package adds, each with what it has gathered."""
    with client(url).messages.stream(**SETTINGS, **THINKS, tools=[WEATHER], messages=[user("Weather?")]) as stream:
        return [[event.type, event.snapshot] for event in stream if event.type in ("text", "thinking", "input_json")]


def ending(message):
    return [text_of(message), message.stop_reason]


def broken(url):
    pieces = []
    try:
        with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
            pieces.extend(stream.text_stream)
    except anthropic.APIStatusError as error:
        return [*pieces, error.type, error.api_message]


def left(url):
    """The stream is closed after its first piece."""
    with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        return next(iter(stream.text_stream))


def options(url):
    return text_of(
        ask(
            url,
            stop_sequences=["END"],
            metadata={"user_id": "ada"},
            service_tier="auto",
            tools=[WEATHER],
            tool_choice={"type": "auto", "disable_parallel_tool_use": True},
            # Newer models of Anthropic take none of these: the package has no names for them.
            extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 5},
        )
    )


def named(url, model):
    message = ask(url, model=model)
    return [text_of(message), message.model]


def cached(url):
    messages = (ask(url), ask_streaming(url))
    return [[each.usage.input_tokens, each.usage.cache_read_input_tokens, each.usage.output_tokens] for each in messages]


# ---- thoughts --------------------------------------------------------------------------------------------------------


def blocks_of(message):
    return [[block.type, getattr(block, block.type)] for block in message.content]


def budget(url):
    return blocks_of(ask(url, "Think.", max_tokens=2048, thinking={"type": "enabled", "budget_tokens": 1024}))


def hidden(url):
    messages = (ask(url, "Think.", **HIDDEN), ask_streaming(url, "Think.", **HIDDEN))
    return [blocks_of(message) for message in messages]


def unasked(url):
    return [blocks_of(message) for message in (ask(url, "Think."), ask_streaming(url, "Think."))]


# ---- calls -----------------------------------------------------------------------------------------------------------


def call_tools(url, ask):
    """Each answer is sent back as it came, with the results of its calls."""
    messages = [user("Weather?")]
    while (message := ask(url, messages=messages, tools=[WEATHER], **THINKS)).stop_reason == "tool_use":
        uses = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": f"sunny in {use.input['city']}"} for use in uses]
        messages += [message.to_param(), user(results)]
    return text_of(message)


@beta_tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return f"sunny in {city}"


@beta_async_tool(name="weather")
async def weather_async(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


RUN = {**SETTINGS, **THINKS, "messages": [user("Weather?")]}


def runner(url):
    return text_of(client(url).beta.messages.tool_runner(**RUN, tools=[weather]).until_done())


def runner_streamed(url):
    messages = [
        stream.get_final_message() for stream in client(url).beta.messages.tool_runner(**RUN, tools=[weather], stream=True)
    ]
    return text_of(messages[-1])


async def runner_async(url):
    async with AsyncAnthropic(**settings(url)) as made:
        return text_of(await made.beta.messages.tool_runner(**RUN, tools=[weather_async]).until_done())


def failing(url):
    """The runner tells the model about the error of a tool."""

    @beta_tool
    def weather(city: str) -> str:
        """The weather of a city."""
        raise anthropic.lib.tools.ToolError(f"{city} is unknown.")

    return text_of(client(url).beta.messages.tool_runner(**RUN, tools=[weather]).until_done())


def chosen(url, choice):
    message = ask(url, "Weather?", tools=[WEATHER], tool_choice=choice)
    return [[block.type, getattr(block, "name", None), getattr(block, "input", None)] for block in message.content]


def answered(url, result):
    """`result`: what is said of the call."""
    use = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}
    results = [{"type": "tool_result", "tool_use_id": "call_1", **result}]
    messages = [user("Weather?"), {"role": "assistant", "content": [use]}, user(results)]
    return text_of(ask(url, messages=messages, tools=[WEATHER]))


def builtin(url):
    """Tools whose schema only Anthropic's models know. The client runs them."""
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
    ]
    return [[block.name, block.input] for block in ask(url, "List the files.", tools=tools).content]


# ---- objects ---------------------------------------------------------------------------------------------------------

INVENT = {**SETTINGS, "messages": [user("Invent a person.")], "output_format": Person}


def parsed(url):
    return client(url).messages.parse(**INVENT).parsed_output.model_dump()


def parsed_stream(url):
    with client(url).messages.stream(**INVENT) as stream:
        return stream.get_final_message().parsed_output.model_dump()


def parsed_beta(url):
    return client(url).beta.messages.parse(**INVENT).parsed_output.model_dump()


# ---- turns -----------------------------------------------------------------------------------------------------------


def two_turns(url, ask, **more):
    messages = [user("My name is Ada.")]
    messages += [ask(url, messages=messages, **more).to_param(), user("What is my name?")]
    return text_of(ask(url, messages=messages, **more))


def told(url):
    """A system message between others."""
    said = {"role": "assistant", "content": "Hello, Ada."}
    last = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    return text_of(ask(url, messages=[user("My name is Ada."), said, user("What is my name?"), last]))


def thread(url):
    """A conversation that the server is asked to keep."""
    kept = client(url).beta.messages.thread(**SETTINGS, **THINKS, messages=[user("My name is Ada.")])
    kept.send()
    return text_of(kept.send(user("What is my name?")))


# ---- images and documents --------------------------------------------------------------------------------------------


def image(url, source):
    return text_of(ask(url, [{"type": "text", "text": "What is it?"}, {"type": "image", "source": source}]))


def document(url, block):
    return text_of(ask(url, [{"type": "document", **block}, {"type": "text", "text": "What does it say?"}]))


# ---- what the server runs and keeps ----------------------------------------------------------------------------------


def searched(url):
    """What the server found is sent back with the next question."""
    tools = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]
    question = user("What is the capital of Italy?")
    messages = (ask(url, messages=[question], tools=tools), ask_streaming(url, messages=[question], tools=tools))
    ask(url, messages=[question, messages[1].to_param(), user("Since when?")], tools=tools)
    return [
        {
            "types": [block.type for block in message.content],
            "query": message.content[0].input["query"],
            "found": message.content[1].content[0].url,
            "cited": [cited.url for cited in message.content[2].citations],
            "searches": message.usage.server_tool_use.web_search_requests,
        }
        for message in messages
    ]


def connected(url, server):
    """Tools of an MCP server that the gateway connects to."""
    servers = [{"type": "url", "name": "bad", "url": server}]
    tools = [{"type": "mcp_toolset", "mcp_server_name": "bad"}]
    asked = {
        **SETTINGS,
        "messages": [user("Echo it")],
        "mcp_servers": servers,
        "tools": tools,
        "betas": ["mcp-client-2025-11-20"],
    }
    used, result, said = client(url).beta.messages.create(**asked).content
    return [used.server_name, used.name, used.input, result.content[0].text, said.text]


def cited(url, documents):
    """The blocks of an answer, whole and streamed, each with what it cites."""
    messages = (ask(url, documents), ask_streaming(url, documents))
    return [[[block.text, [each.to_dict() for each in block.citations or ()]] for block in each.content] for each in messages]


CODE = {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}


def ran(url):
    """What code has written is downloaded, and the next question goes on where it was run."""
    kept = client(url).beta
    message = kept.messages.create(**SETTINGS, **CODE, messages=[user("Plot it.")])
    result = message.content[1].content
    files = [[kept.files.retrieve_metadata(each.file_id).filename, each.file_id] for each in result.content]
    again = kept.messages.create(**SETTINGS, **CODE, messages=[user("Again.")], container=message.container.id)
    return {
        "printed": result.stdout,
        "files": sorted([name, kept.files.download(id).read().decode()] for name, id in files),
        "expires": message.container.expires_at.tzinfo is not None,
        "same": again.container.id == message.container.id,
    }


def compacted(url, messages):
    """The summary comes in a stream, and is sent back with the next question."""
    edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 1000}}
    managed = {**SETTINGS, "betas": ["compact-2026-01-12"], "context_management": {"edits": [edit]}}
    with client(url).beta.messages.stream(**managed, messages=messages) as stream:
        message = stream.get_final_message()
    client(url).beta.messages.create(**managed, messages=[*messages, message.to_param(), user("And milk?")])
    return [[block.type, getattr(block, "content", None) or getattr(block, "text", None)] for block in message.content]


def models(url):
    made = client(url)
    return [[model.id for model in made.models.list()], made.models.retrieve("mock").display_name]


def files(url):
    """Files are uploaded and listed; one is read by the model and by the client, and deleted."""
    kept = client(url).beta.files
    other = kept.upload(file=("other.txt", b"Twice.", "text/plain"))
    uploaded = kept.upload(file=("tale.txt", b"Once.", "text/plain"))
    listed = [file.id for file in kept.list()]
    source = {"type": "file", "file_id": uploaded.id}
    message = client(url).beta.messages.create(**SETTINGS, messages=[user([{"type": "document", "source": source}])])
    content = kept.download(uploaded.id).read().decode()
    return {
        "uploaded": [uploaded.filename, uploaded.size_bytes, uploaded.mime_type],
        "listed": sorted(listed) == sorted([uploaded.id, other.id]),
        "said": text_of(message),
        "content": content,
        "deleted": kept.delete(uploaded.id).id == uploaded.id,
        "left": [file.filename for file in kept.list()],
    }


# ---- tokens, ids and errors ------------------------------------------------------------------------------------------


def batches(url):
    """A batch is made, followed to its end, read, listed and deleted; another one is cancelled."""
    kept = client(url).messages.batches
    params = {**SETTINGS, "messages": [user("Hi")]}
    made = kept.create(requests=[{"custom_id": f"r{at}", "params": params} for at in range(3)])
    while (batch := kept.retrieve(made.id)).processing_status != "ended":
        time.sleep(0.05)
    results = {each.custom_id: text_of(each.result.message) for each in kept.results(made.id)}
    cancelled = kept.cancel(kept.create(requests=[{"custom_id": "late", "params": params}]).id)
    listed = [each.id for each in kept.list()]
    return {
        "started": [made.processing_status, made.request_counts.processing],
        "counts": batch.request_counts.model_dump(),
        "results": results,
        "cancelled": cancelled.processing_status in ("canceling", "ended"),
        "listed": sorted(listed) == sorted([made.id, cancelled.id]),
        "deleted": kept.delete(made.id).id == made.id,
    }


def count(url):
    asked = {"model": "mock", "system": "Be brief.", "tools": [WEATHER], "messages": [user("Hi")]}
    made = client(url)
    return [made.messages.count_tokens(**asked).to_dict(), made.beta.messages.count_tokens(**asked).to_dict()]


def ids(url):
    """Of an answer, a stream, and an error, twice."""
    with client(url).messages.stream(**SETTINGS, messages=[user("Hi")]) as stream:
        streamed = stream.request_id
    error = error_of(ask, url, [{"type": "picture"}])
    return [ask(url)._request_id, streamed, error.request_id, error.body["request_id"]]


def error_of(function, *arguments, **more):
    try:
        function(*arguments, **more)
    except anthropic.APIStatusError as error:
        return error
    raise AssertionError("There was no error.")


def refused(url, **request):
    error = error_of(ask, url, **request)
    return [type(error).__name__, error.status_code, error.type, error.api_message]


def misplaced(url):
    error = error_of(client(url).post, "/v1/message", body={}, cast_to=object)
    return [type(error).__name__, error.status_code, error.type, error.api_message]


def retried(url):
    """The package itself asks again."""
    return text_of(client(url, max_retries=2).messages.create(**SETTINGS, messages=[user("Hi")]))


play(
    text,
    text_of_blocks,
    text_with_token,
    text_async,
    stream,
    stream_async,
    whole,
    events,
    helpers,
    broken,
    left,
    options,
    named,
    cached,
    budget,
    hidden,
    unasked,
    runner,
    runner_streamed,
    runner_async,
    failing,
    chosen,
    answered,
    builtin,
    parsed,
    parsed_stream,
    parsed_beta,
    told,
    thread,
    image,
    document,
    searched,
    connected,
    cited,
    ran,
    compacted,
    models,
    files,
    batches,
    count,
    ids,
    refused,
    misplaced,
    retried,
    cut=lambda url: ending(ask(url, max_tokens=16)),
    cut_streamed=lambda url: ending(ask_streaming(url, max_tokens=16)),
    thought=lambda url: blocks_of(ask(url, "Think.", **THINKS)),
    thought_streamed=lambda url: blocks_of(ask_streaming(url, "Think.", **THINKS)),
    calls=lambda url: call_tools(url, ask),
    calls_streamed=lambda url: call_tools(url, ask_streaming),
    two_turns=lambda url: two_turns(url, ask, **THINKS),
    two_turns_streamed=lambda url: two_turns(url, ask_streaming, **THINKS),
    two_turns_hidden=lambda url: two_turns(url, ask, **HIDDEN),
    two_turns_hidden_streamed=lambda url: two_turns(url, ask_streaming, **HIDDEN),
)
