"""The checks of Anthropic's Messages API, by the types of its SDK. The requests are those of the Responses API, as messages."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from anthropic import AsyncAnthropic
from anthropic.types import Message, RawMessageStreamEvent
from conformance.sdk import variants
from pydantic import BaseModel, ValidationError

from bench.endpoints.judged import KEY, LIMIT, LONG, TOKENS, Body, Checks, Event, Wrong, streamed, whole
from bench.endpoints.subjects import Endpoint

TITLE = "Messages"
TOOL: Body = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
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
    {"system": "You are a pirate.", "messages": HELLO},
    {"messages": SAID},
    {"messages": ROME, "tools": [TOOL]},
    {"messages": ROME, "tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": LONG},
)
# What each of them lacks, or has too much of, is an error of the client.
BROKEN: Sequence[Body] = (
    {"messages": []},
    {"messages": [{"role": "nobody", "content": "Hi"}]},
    {"messages": [{"role": "user", "content": [{"type": "no_such_block"}]}]},
    {"messages": HELLO, "max_tokens": "many"},
)
WHOLE = "whole answers that follow the types of Anthropic's SDK"
STREAMS = "streams that follow the types of Anthropic's SDK"
ORDER = "streams whose events are in order, each block with its index"
READ_BY_SDK = "streams that the SDK's `messages.stream()` reads to the end"
REQUIRED = "answers with the call that was required"
COUNTED = "prompts whose `count_tokens` is what the answer's `usage` says"
ERRORS = "broken requests that get an error 4xx in the form of the API"
PATH = "/v1/messages"
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}


# ---- the judges ------------------------------------------------------------------------------------------------------


@functools.cache
def _types() -> Mapping[str, type[BaseModel]]:
    """The SDK's type of each event."""
    return {kind.model_fields["type"].annotation.__args__[0]: kind for kind in variants(RawMessageStreamEvent)}


def follows(model: type[BaseModel], value: Any) -> None:
    """All members that the type requires are there, and each is what the type says. Others may be there, too."""
    try:
        model.model_validate(value, strict=True)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise Wrong(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def events_follow(events: list[Event]) -> None:
    if not events:
        raise Wrong("no stream")
    for event in events:
        if event.get("type") == "ping":
            continue
        if event.get("type") not in _types():
            raise Wrong(f"an event {event.get('type')}")
        follows(_types()[event["type"]], event)


def in_order(events: list[Event]) -> None:
    """One start, one block after the other, the stop reason, one end."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    if kinds[:1] != ["message_start"] or kinds[-2:] != ["message_delta", "message_stop"]:
        raise Wrong(f"it begins with {kinds[:1]}, and ends with {kinds[-2:]}")
    begun, is_open = 0, False
    for event in events:
        if event["type"] == "content_block_start":
            if is_open or event["index"] != begun:
                raise Wrong("a block begins within another one, or has another index")
            begun, is_open = begun + 1, True
        elif event["type"] in ("content_block_delta", "content_block_stop"):
            if not is_open or event["index"] != begun - 1:
                raise Wrong(f"{event['type']} outside of its block")
            is_open = event["type"] == "content_block_delta"
    if is_open:
        raise Wrong("a block has no end")


def calls(blocks: list[Body]) -> None:
    if not any(block["type"] == "tool_use" and block["name"] == TOOL["name"] for block in blocks):
        raise Wrong("no call")


def is_error(status: int, body: Body) -> None:
    if not 400 <= status < 500:
        raise Wrong(f"status {status}")
    error = body.get("error")
    if body.get("type") != "error" or not isinstance(error, dict):
        raise Wrong(f"no error of the API: {body}")
    if not all(isinstance(error.get(name), str) for name in ("type", "message")):
        raise Wrong(f"an error without its type or message: {body}")


# ---- one endpoint ----------------------------------------------------------------------------------------------------


async def check(endpoint: Endpoint) -> Checks:
    found = Checks()
    async with (
        aiohttp.ClientSession(endpoint.url, timeout=LIMIT, headers=HEADERS) as session,
        AsyncAnthropic(base_url=endpoint.url, api_key=KEY, max_retries=0) as sdk,
    ):
        for case in CASES:
            body = {"model": endpoint.model, "max_tokens": TOKENS, **case}
            _, message = await whole(session, PATH, body)
            events = await streamed(session, PATH, body)
            found.judge(WHOLE, follows, Message, message)
            found.judge(STREAMS, events_follow, events)
            found.judge(ORDER, in_order, events)
            if "tool_choice" in case:
                found.judge(REQUIRED, calls, message.get("content", []))
                blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
                found.judge(REQUIRED, calls, blocks)
            await _sdk_reads(found, sdk, body)
            await _counts(found, session, body, message)
        for broken in BROKEN:
            status, answer = await whole(session, PATH, {"model": endpoint.model, "max_tokens": TOKENS, **broken})
            found.judge(ERRORS, is_error, status, answer)
    return found


async def _sdk_reads(found: Checks, sdk: AsyncAnthropic, body: Body) -> None:
    try:
        async with sdk.messages.stream(**body) as stream:
            await stream.get_final_message()
    except Exception as failed:  # whatever the SDK stumbles over
        found.note(READ_BY_SDK, f"{type(failed).__name__}: {failed}")
    else:
        found.note(READ_BY_SDK, None)


async def _counts(found: Checks, session: aiohttp.ClientSession, body: Body, message: Body) -> None:
    asked = {name: value for name, value in body.items() if name != "max_tokens"}
    status, counted = await whole(session, f"{PATH}/count_tokens", asked)
    usage = message.get("usage", {})
    read = sum(usage.get(name) or 0 for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))
    is_right = status == 200 and counted.get("input_tokens") == read
    found.note(COUNTED, None if is_right else f"status {status}, {counted.get('input_tokens')} and not {read}")
