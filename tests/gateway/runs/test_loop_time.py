"""No request keeps the event loop from the others: whatever is in a body of one megabyte, no callback takes long.

This is a budget, measured in CPU time of the loop's thread, and the best of several attempts counts. What grows faster than
its input is found by tests that count operations (`tests/core/test_linear_*.py`).
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, answer, call, text
from support.items import assistant, call_output, function_call, user
from support.loop_probe import ATTEMPTS, BUDGET, MeasuredGateway, measured_gateway

from antiphon.gateway.background import attempts, journal
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.runs import gateway as gateway_module
from antiphon.gateway.state import recorder

Body = dict[str, Any]

MEGABYTE = 1_000_000


def items(*make: Callable[[int], Body], most: int = 19_000) -> list[Body]:
    """As many as one megabyte has, and the limit allows."""
    made: list[Body] = []
    size = at = 0
    while size < MEGABYTE - 1000 and len(made) < most:
        each = [one(at) for one in make]
        made += each
        size += sum(len(msgspec.json.encode(one)) + 1 for one in each)
        at += 1
    return made


def custom(definition: str, syntax: str = "lark") -> Body:
    format = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"input": "Hi", "tools": [{"type": "custom", "name": "t", "format": format}]}


def function(at: int, **members: Any) -> Body:
    return {"type": "function", "name": f"f{at}", **members}


def strict(schema: Body) -> Body:
    return {"input": "Hi", "tools": [function(0, strict=True, parameters=schema)]}


def wide(count: int) -> Body:
    return {"type": "object", "properties": {f"member_{at}": {"type": "string"} for at in range(count)}}


def diamond(levels: int) -> Body:
    """Each definition refers to the next one twice."""
    ends = {f"d{levels}": {"type": "string"}}
    twice = {
        f"d{at}": {"type": "object", "properties": {side: {"$ref": f"#/$defs/d{at + 1}"} for side in ("a", "b")}}
        for at in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": twice | ends}


def reasoning(at: int) -> Body:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": f"t{at}"}]}


# Made by the test that wants one.
BODIES: dict[str, Callable[[], Body]] = {
    "user messages": lambda: {"input": items(lambda at: user(f"m{at}"))},
    "assistant messages": lambda: {"input": [user("q"), *items(lambda at: assistant(f"m{at}"))]},
    "calls without an output": lambda: {"input": [user("q"), *items(lambda at: function_call(f"c{at}"))]},
    "calls and outputs": lambda: {
        "input": [user("q"), *items(lambda at: function_call(f"c{at}"), lambda at: call_output(f"c{at}"))]
    },
    "thoughts": lambda: {"input": [user("q"), *items(reasoning)]},
    "unknown items": lambda: {"input": [user("q"), *items(lambda at: {"type": f"x{at}"})]},
    "too many items": lambda: {"input": items(lambda at: {"type": f"x{at}"}, most=1_000_000)},
    "text parts": lambda: {"input": [user(items(lambda at: {"type": "input_text", "text": "a"}, most=100_000))]},
    "one text": lambda: {"input": "x" * MEGABYTE},
    "tools": lambda: {"input": "Hi", "tools": items(lambda at: function(at, description="x" * 400), most=1_900)},
    "too many tools": lambda: {"input": "Hi", "tools": items(function, most=1_000_000)},
    "a wide schema": lambda: strict(wide(6_000)),
    "a schema that is too wide": lambda: strict(wide(30_000)),
    "a wide format": lambda: {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "a", "schema": wide(6_000)}}},
    "a diamond of references": lambda: strict(diamond(25)),
    "a grammar with groups inside one another": lambda: custom("start: " + '["a" ' * 24 + "]" * 24),
    "a grammar with optional parts": lambda: custom("start: " + " ".join(f'["a{at}"]' for at in range(24))),
    "a grammar with many literals": lambda: custom("start: " + " | ".join(f'"{at}"' for at in range(60_000))),
    "an ambiguous grammar": lambda: custom('start: a\na: a a | "a"'),
    "a terminal that backtracks": lambda: custom("start: /(a+)+b/"),
    "a long pattern": lambda: custom("a?" * 20_000 + "a" * 20_000, "regex"),
    "a pattern that backtracks": lambda: custom("(a+)+$", "regex"),
    "user messages, read in place": lambda: {"input": items(lambda at: user(f"m{at}"), most=LARGE_BODY // 60)},
    "arrays, read in place": lambda: {
        "input": "Hi",
        "client_metadata": {"a": msgspec.Raw(b"[" + b"[]," * (LARGE_BODY // 3 - 50) + b"0]")},
    },
    "JSON that is too deep": lambda: {"input": "Hi", "client_metadata": {"a": msgspec.Raw(b"[" * 900 + b"]" * 900)}},
}
# What the model answers to the grammars: each takes very long to compare with it.
LONG_INPUT = answer(call("t", msgspec.json.encode({"input": "a" * 300 + "!"}).decode()), finish="tool_calls")


@pytest_asyncio.fixture
async def measured(engine: MockEngine) -> AsyncIterator[MeasuredGateway]:
    engine.objects_to = lambda body: None
    with measured_gateway(engine.url, check_timeout=0.5) as gateway:
        yield gateway


async def longest_callback(gateway: MeasuredGateway, client: aiohttp.ClientSession, body: Body) -> float:
    data = msgspec.json.encode({"model": "mock", **body})
    assert len(data) < 2 * MEGABYTE
    gateway.loop.longest = 0.0
    async with client.post(f"{gateway.url}/v1/responses", data=data) as answered:
        assert answered.status in (200, 400), await answered.text()
        await answered.read()
    async with client.get(f"{gateway.url}/health") as healthy:
        assert healthy.status == 200
    return gateway.loop.longest


# What aiohttp says of a chat request of more than a megabyte.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)
async def test_no_body_of_a_megabyte_blocks_the_event_loop(
    make: Callable[[], Body], measured: MeasuredGateway, engine: MockEngine
) -> None:
    body = make()
    engine.otherwise = lambda asked: LONG_INPUT if "t" in str(asked.get("tools"))[:90] else text("{}")
    taken: list[float] = []
    async with aiohttp.ClientSession() as client:
        await longest_callback(measured, client, {"input": "Hi"})
        while len(taken) < ATTEMPTS and (not taken or min(taken) > BUDGET):
            taken.append(await longest_callback(measured, client, body))
    assert min(taken) <= BUDGET, f"{min(taken) * 1000:.0f} ms"


# ---- what the engine answers -----------------------------------------------------------------------------------------

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}}
REPEATED = {
    "angle brackets": "<",
    "curly brackets": "{",
    "fences": "```\n",
    "inline code": "`a` ",
    "opened thoughts": "<think>",
    "markers": "<tool_call>",
    "lists of calls": "\n[f(",
    "many markers": "<tool_call>{[`<|channel|><function=f>\n[TOOL_CALLS]",
    "calls that are not closed": "[TOOL_CALLS][{",
}


def in_frames(content: str, size: int) -> bytes:
    return text(*(content[at : at + size] for at in range(0, len(content), size)))


def in_one_document(content: str, size: int) -> bytes:
    message = {"role": "assistant", "content": content}
    return msgspec.json.encode({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("make", "size"),
    [(in_one_document, 0), (in_frames, MEGABYTE), (in_frames, 4000)],
    ids=["one document", "one frame", "many frames"],
)
@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
async def test_no_answer_of_a_megabyte_blocks_the_event_loop(
    repeated: str,
    make: Callable[[str, int], bytes],
    size: int,
    streams: bool,
    measured: MeasuredGateway,
    engine: MockEngine,
) -> None:
    made = make(repeated * (MEGABYTE // len(repeated)), size)
    engine.otherwise = lambda asked: made
    taken: list[float] = []
    async with aiohttp.ClientSession() as client:
        while len(taken) < ATTEMPTS and (not taken or min(taken) > BUDGET):
            body = {"input": "Hi", "tools": [FUNCTION], "stream": streams}
            taken.append(await longest_callback(measured, client, body))
    assert min(taken) <= BUDGET, f"{min(taken) * 1000:.0f} ms"


# ---- what is stored --------------------------------------------------------------------------------------------------


async def create(gateway: MeasuredGateway, client: aiohttp.ClientSession, **body: Any) -> str:
    """Its id, when it has ended."""
    data = msgspec.json.encode({"model": "mock", **body})
    async with client.post(f"{gateway.url}/v1/responses", data=data) as answered:
        response: Body = await answered.json()
        assert answered.status == 200, response
    if body.get("background"):
        async with client.get(f"{gateway.url}/v1/responses/{response['id']}?stream=true") as followed:
            assert b"event: response.completed" in await followed.read()
    id: str = response["id"]
    return id


async def in_background(gateway: MeasuredGateway, client: aiohttp.ClientSession, input: list[Body]) -> None:
    await create(gateway, client, input=input, background=True)


async def with_secrets(gateway: MeasuredGateway, client: aiohttp.ClientSession, input: list[Body]) -> None:
    """The request is sealed in the queue. Its server is not asked: the list of its tools is there."""
    server = {"type": "mcp", "server_label": "maps", "server_url": "https://maps.example/mcp", "authorization": "a secret"}
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "maps", "tools": []}
    await create(gateway, client, input=[listed, *input], background=True, tools=[server])


async def continued(gateway: MeasuredGateway, client: aiohttp.ClientSession, input: list[Body]) -> None:
    first = await create(gateway, client, input=input)
    await create(gateway, client, input="Go on", previous_response_id=first)


async def in_conversation(gateway: MeasuredGateway, client: aiohttp.ClientSession, input: list[Body]) -> None:
    async with client.post(f"{gateway.url}/v1/conversations", json={}) as created:
        conversation = (await created.json())["id"]
    for each in (input, "Go on"):
        await create(gateway, client, input=each, conversation=conversation)


Use = Callable[[MeasuredGateway, aiohttp.ClientSession, list[Body]], Awaitable[None]]


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("use", [in_background, continued, in_conversation])
async def test_no_stored_megabyte_blocks_the_event_loop(use: Use, measured: MeasuredGateway) -> None:
    # Many small items: they take longest to decode and to encode.
    input = items(lambda at: user(f"m{at}"), most=9_000)
    taken: list[float] = []
    async with aiohttp.ClientSession() as client:
        while len(taken) < ATTEMPTS and (not taken or min(taken) > BUDGET):
            measured.loop.longest = 0.0
            await use(measured, client, input)
            taken.append(measured.loop.longest)
    assert min(taken) <= BUDGET, f"{min(taken) * 1000:.0f} ms"


class Watched:
    """A function, and the kinds of threads that have called it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.threads: list[str] = []

    def __call__(self, *given: Any) -> Any:
        self.threads.append(threading.current_thread().name.partition("_")[0])
        return self._function(*given)


# What decodes and encodes many items, in which of the uses, and with which of its calls there.
WORK: list[tuple[Use, Any, str, int]] = [
    (in_background, attempts, "body_to_request", 0),
    (in_background, journal, "decode_items", 0),
    (with_secrets, gateway_module, "to_stored_request", 0),
    (with_secrets, attempts, "from_stored_request", 0),
    # When it is queued, and when it has ended.
    (in_background, recorder, "encode_settings", 0),
    (in_background, recorder, "encode_settings", 1),
    (continued, recorder, "encode_settings", 0),
    (continued, recorder, "decode_items", 0),
    (in_conversation, recorder, "encode_settings", 0),
    (in_conversation, recorder, "items_to_stored", 0),
    # The conversation is empty at first.
    (in_conversation, recorder, "stored_to_items", 1),
]


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(("use", "module", "name", "at"), WORK)
async def test_many_stored_items_are_converted_beside_the_event_loop(
    use: Use, module: Any, name: str, at: int, measured: MeasuredGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(getattr(module, name))
    monkeypatch.setattr(module, name, watched)
    async with aiohttp.ClientSession() as client:
        await use(measured, client, items(lambda at: user("x" * 70), most=LARGE_BODY // 70))
    assert watched.threads[at] == "large-request"
