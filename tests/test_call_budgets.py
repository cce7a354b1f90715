"""What a request costs, in calls of functions and not in time: three figures that may not rise unnoticed.

Each budget is what was counted, and 5 % more. Where less is counted, lower the figure.
"""

from itertools import repeat
from typing import Any

import msgspec
import pytest
from support.engine import DONE, USAGE, MockEngine, chunk
from support.exchanges import make_environment
from support.gateway import running_gateway
from support.operations import count_calls, counted_calls
from support.raw_client import dialled, post
from support.ways_in import until

from antiphon.core.events.encode import SseEncoder
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.prompt.stored_form import items_to_stored_form
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.wire.responses import CreateResponse

ROOM = 1.05
# Functions of the gateway that are called between the request's first byte and the answer's last; resumed coroutines count.
HELLO = 499
# The same for a chat request that is passed on, whose answer is not streamed.
PASSED = 180
# Functions that are called for one more delta of a text, from the engine's bytes to the client's, those written in C included.
DELTA = 9.3
# The same for a delta of Markdown with a line break, where tools are offered: it is searched for calls.
LINE = 20.3
# The same for reading the body of a request with a history of 200 items, and converting it for the engine.
HISTORY = 4844
# The same for bringing that history into the form in which it is stored.
STORED = 1853

# One write, so that one read gets all of it.
ANSWER = b"".join([chunk({"role": "assistant", "content": "Hello"}), chunk(finish="stop"), USAGE, DONE])
ATTEMPTS = 5


async def test_a_streamed_hello(engine: MockEngine) -> None:
    body = post(b'{"model": "mock", "input": "Hi", "stream": true}')
    async with running_gateway(engine, transport="fast", health_interval=0) as gateway, dialled(gateway) as client:
        await until(lambda: gateway.gateway.pool.ready)
        counts = []
        for _ in range(ATTEMPTS):
            engine.will(ANSWER)
            with counted_calls() as counted:
                await client.send(body)
                await client.reader.readuntil(b"\r\n0\r\n\r\n")
            counts.append(counted[0])
    # Other work of the gateway may come between: the least is what the request costs.
    assert min(counts) <= ROOM * HELLO


async def test_a_chat_request_that_is_passed_on(engine: MockEngine) -> None:
    body = post(b"""{"model": "mock", "messages": [{"role": "user", "content": "Hi"}]}""", path=b"/v1/chat/completions")
    async with running_gateway(engine, transport="fast", health_interval=0) as gateway, dialled(gateway) as client:
        await until(lambda: gateway.gateway.pool.ready)
        counts = []
        for _ in range(ATTEMPTS):
            with counted_calls() as counted:
                await client.send(body)
                await client.reader.readuntil(b"\r\n0\r\n\r\n")
            counts.append(counted[0])
    assert min(counts) <= ROOM * PASSED


TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}


@pytest.mark.parametrize(("text", "tools", "budget"), [(" so", [], DELTA), (" {so}:\n- ", [TOOL], LINE)])
def test_one_delta(text: str, tools: list[dict[str, Any]], budget: float) -> None:
    request = CreateResponse(model="m", input="Hi", stream=True, tools=tools)
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment())
    encoder, data = SseEncoder(), chunk({"content": text})
    exchange.start()

    def receive(count: int) -> None:
        for _ in range(count):
            for event in exchange.receive(data):
                encoder.encode(event)

    receive(10)
    calls = count_calls(lambda: receive(1000)) / 1000
    assert calls <= ROOM * budget


def history(items: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for at in range(items // 4):
        id = f"call_{at}"
        made += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"step {at}"}]},
            {"type": "function_call", "name": "shell", "arguments": '{"n": 1}', "call_id": id},
            {"type": "function_call_output", "call_id": id, "output": "done " * 200},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"did {at}"}]},
        ]
    return made


def test_a_history_of_200_items() -> None:
    body = msgspec.json.encode({"model": "m", "input": history(200)})
    engines, environment = [EngineKnowledge(PLAIN, [Model("m", 0, "somebody")])], make_environment()

    def begin() -> None:
        request, _ = body_to_request(body)
        Exchange(request, engines, environment)

    begin()
    calls = count_calls(begin)
    assert calls <= ROOM * HISTORY


def test_a_history_of_200_items_as_it_is_stored() -> None:
    items, ids = history(200), repeat("id_1").__next__
    calls = count_calls(lambda: items_to_stored_form(items, lambda prefix: ids()))
    assert calls <= ROOM * STORED
