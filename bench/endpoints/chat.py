"""The checks of Chat Completions, by the types of OpenAI's SDK. The requests are those of the Responses API, as messages."""

from collections.abc import Sequence

import aiohttp
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from bench.endpoints.judged import KEY, LIMIT, LONG, TOKENS, Body, Checks, Event, Wrong, streamed, whole
from bench.endpoints.messages import follows
from bench.endpoints.subjects import Endpoint

TITLE = "Chat Completions"
NAME = "get_weather"
TOOL: Body = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SAID = [
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Hello Ada."},
    {"role": "user", "content": "What is my name?"},
]
HELLO = [{"role": "user", "content": "Say hello."}]
ROME = [{"role": "user", "content": [{"type": "text", "text": "How is the weather in Rome?"}]}]
CASES: Sequence[Body] = (
    {"messages": HELLO},
    {"messages": [{"role": "developer", "content": "You are a pirate."}, *HELLO]},
    {"messages": SAID},
    {"messages": ROME, "tools": [TOOL]},
    {"messages": ROME, "tools": [TOOL], "tool_choice": "required", "max_completion_tokens": LONG},
)
BROKEN: Sequence[Body] = (
    {"messages": []},
    {"messages": [{"role": "nobody", "content": "Hi"}]},
    {"messages": [{"role": "user", "content": [{"type": "no_such_part"}]}]},
    {"messages": HELLO, "max_completion_tokens": "many"},
)
WHOLE = "whole answers that follow the types of OpenAI's SDK"
STREAMS = "streams that follow the types of OpenAI's SDK"
ORDER = "streams with one role, one end, and the usage at last"
READ_BY_SDK = "streams that the SDK's `chat.completions.stream()` reads to the end"
REQUIRED = "answers with the call that was required"
ERRORS = "broken requests that get an error 4xx in the form of the API"
PATH = "/v1/chat/completions"
STREAMED = {"stream_options": {"include_usage": True}}


# ---- the judges ------------------------------------------------------------------------------------------------------


def chunks_follow(chunks: list[Event]) -> None:
    if not chunks:
        raise Wrong("no stream")
    for chunk in chunks:
        follows(ChatCompletionChunk, chunk)


def in_order(chunks: list[Event]) -> None:
    """The first delta has the role; one chunk has the reason of the end; the last one has the usage, and no choice."""
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    if [index for index, each in enumerate(choices) if each["delta"].get("role")] != [0]:
        raise Wrong("the role is not in the first delta alone")
    if [index for index, each in enumerate(choices) if each.get("finish_reason")] != [len(choices) - 1]:
        raise Wrong("the reason of the end is not in the last choice alone")
    if chunks[-1]["choices"] or not chunks[-1].get("usage"):
        raise Wrong("the last chunk is not that of the usage")
    if len({chunk["id"] for chunk in chunks}) != 1:
        raise Wrong("the chunks have several ids")


def calls(made: Sequence[Body]) -> None:
    if not any(call["function"].get("name") == NAME for call in made):
        raise Wrong("no call")


def is_error(status: int, body: Body) -> None:
    if not 400 <= status < 500:
        raise Wrong(f"status {status}")
    error = body.get("error")
    if not isinstance(error, dict) or not {"message", "type", "param", "code"} <= error.keys():
        raise Wrong(f"no error of the API: {body}")


# ---- one endpoint ----------------------------------------------------------------------------------------------------


async def check(endpoint: Endpoint) -> Checks:
    found = Checks()
    async with (
        aiohttp.ClientSession(endpoint.url, timeout=LIMIT) as session,
        AsyncOpenAI(base_url=f"{endpoint.url}/v1", api_key=KEY, max_retries=0) as sdk,
    ):
        for case in CASES:
            body = {"model": endpoint.model, "max_completion_tokens": TOKENS, **case}
            _, completion = await whole(session, PATH, body)
            chunks = await streamed(session, PATH, body | STREAMED)
            found.judge(WHOLE, follows, ChatCompletion, completion)
            found.judge(STREAMS, chunks_follow, chunks)
            found.judge(ORDER, in_order, chunks)
            if "tool_choice" in case:
                message = completion["choices"][0]["message"] if completion.get("choices") else {}
                found.judge(REQUIRED, calls, message.get("tool_calls") or ())
                deltas = [choice["delta"] for chunk in chunks for choice in chunk.get("choices", ())]
                found.judge(REQUIRED, calls, [call for delta in deltas for call in delta.get("tool_calls") or ()])
            await _sdk_reads(found, sdk, body)
        for broken in BROKEN:
            status, answer = await whole(session, PATH, {"model": endpoint.model, "max_completion_tokens": TOKENS, **broken})
            found.judge(ERRORS, is_error, status, answer)
    return found


async def _sdk_reads(found: Checks, sdk: AsyncOpenAI, body: Body) -> None:
    try:
        async with sdk.chat.completions.stream(**body) as stream:
            async for _ in stream:
                pass
    except Exception as failed:  # whatever the SDK stumbles over
        found.note(READ_BY_SDK, f"{type(failed).__name__}: {failed}")
    else:
        found.note(READ_BY_SDK, None)
