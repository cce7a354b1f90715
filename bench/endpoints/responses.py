"""The checks of the Responses API.

The requests are like those of the public Open Responses suite, without images: a text, instructions, several turns, a tool.
Each is sent twice, whole and streamed. Only the form is judged, so the weights are random.
"""

from collections.abc import Sequence

import aiohttp
from conformance.validators import Document, documents
from openai import AsyncOpenAI

from bench.endpoints.judged import KEY, LIMIT, LONG, TOKENS, Body, Checks, Event, Wrong, streamed, whole
from bench.endpoints.subjects import Endpoint

TITLE = "Responses"
TOOL: Body = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SAID = [
    {"type": "message", "role": "user", "content": "My name is Ada."},
    {"type": "message", "role": "assistant", "content": "Hello Ada."},
    {"type": "message", "role": "user", "content": "What is my name?"},
]
CASES: Sequence[Body] = (
    {"input": "Say hello."},
    {"instructions": "You are a pirate.", "input": "Say hello."},
    {"input": SAID},
    {"input": "How is the weather in Rome?", "tools": [TOOL]},
    {"input": "How is the weather in Rome?", "tools": [TOOL], "tool_choice": "required", "max_output_tokens": LONG},
)
DOCUMENTS = dict(zip(("OpenAI", "Open Responses"), documents(), strict=True))
READ_BY_SDK = "streams that the SDK's `responses.stream()` reads to the end"
CONTINUED = "answers to a `previous_response_id` for which the engine saw the history"
REQUIRED = "answers with the call that was required"
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
PATH = "/v1/responses"


# ---- the judges ------------------------------------------------------------------------------------------------------


def follows(document: Document, response: Body) -> None:
    for violation in document.violations(response, document.routes["POST", "/responses"]["application/json"]):
        raise Wrong(str(violation))


def events_follow(document: Document, events: list[Event]) -> None:
    for event in events:
        schema = document.events.get(event["type"])
        if schema is None:
            raise Wrong(f"an event {event['type']}")
        for violation in document.violations(event, schema):
            raise Wrong(f"{event['type']}: {violation}")


def in_order(events: list[Event]) -> None:
    """Numbered without gaps, one item after the other, one terminal event, which is the last."""
    if [event.get("sequence_number") for event in events] != [*range(len(events))]:
        raise Wrong("the events are not numbered")
    if [event["type"] for event in events if event["type"] in TERMINAL] != [events[-1]["type"]]:
        raise Wrong("there is not one terminal event at the end")
    begun, ended = 0, 0
    for event in events:
        if event["type"] == "response.output_item.added":
            if begun != ended or event.get("output_index") != begun:
                raise Wrong("an item begins within another one, or has no index")
            begun += 1
        elif event["type"] == "response.output_item.done":
            ended += 1
            if ended != begun:
                raise Wrong("an item ends that has not begun")
        elif event["type"].count(".") > 1 and begun == ended:
            raise Wrong(f"{event['type']} outside of an item")
    if begun != ended:
        raise Wrong("an item has no end")


def calls(response: Body) -> None:
    if not any(item["type"] == "function_call" and item["name"] == TOOL["name"] for item in response["output"]):
        raise Wrong("no call")


# ---- one endpoint ----------------------------------------------------------------------------------------------------


async def check(endpoint: Endpoint) -> Checks:
    found = Checks()
    async with (
        aiohttp.ClientSession(endpoint.url, timeout=LIMIT) as session,
        AsyncOpenAI(base_url=f"{endpoint.url}/v1", api_key=KEY, max_retries=0) as sdk,
    ):
        for case in CASES:
            body = {"model": endpoint.model, "max_output_tokens": TOKENS, **case}
            response = await _answer(session, body)
            events = await _events(session, body)
            for name, document in DOCUMENTS.items():
                found.judge(f"whole answers that follow the schemas of {name}", follows, document, response)
                found.judge(f"streams that follow the schemas of {name}", events_follow, document, events)
            found.judge("streams whose events are numbered and in order", in_order, events)
            if case.get("tool_choice") == "required":
                found.judge(REQUIRED, calls, response)
                found.judge(REQUIRED, calls, events[-1]["response"])
            await _sdk_reads(found, sdk, body)
            await _continues(found, session, body)
    return found


async def _answer(session: aiohttp.ClientSession, body: Body) -> Body:
    status, response = await whole(session, PATH, body)
    return response if status == 200 else {"status": status, "output": []}


async def _events(session: aiohttp.ClientSession, body: Body) -> list[Event]:
    events = await streamed(session, PATH, body)
    return events if events and "response" in events[-1] else [{"type": "nothing", "response": {"output": []}}]


async def _sdk_reads(found: Checks, sdk: AsyncOpenAI, body: Body) -> None:
    try:
        async with sdk.responses.stream(**body) as stream:
            async for _ in stream:
                pass
    except Exception as failed:  # whatever the SDK stumbles over
        found.note(READ_BY_SDK, f"{type(failed).__name__}: {failed}")
    else:
        found.note(READ_BY_SDK, None)


async def _continues(found: Checks, session: aiohttp.ClientSession, body: Body) -> None:
    """Only what is accepted and answered: random weights remember nothing."""
    short = {"model": body["model"], "max_output_tokens": TOKENS, "input": "Go on."}
    before = await _answer(session, {"model": body["model"], "max_output_tokens": TOKENS, "input": body["input"]})
    answered = await _answer(session, {**short, "previous_response_id": before.get("id")})
    alone = await _answer(session, short)
    seen, least = (each.get("usage", {}).get("input_tokens", 0) for each in (answered, alone))
    found.note(CONTINUED, None if seen > least else "the engine did not see the history")
