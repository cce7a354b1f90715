"""A weak model that must call a tool of the gateway: every loop comes to an end."""

from collections.abc import Callable
from typing import Any

import pytest
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.streams import check_stream, parse
from support.toy_tool import DICE, Dice

from antiphon.app.parts import Extensions
from bench.models.questions import QUESTIONS, TOOLS

LOOPS = 20
# Of a real model, which takes a minute for one.
OF_SMOLLM2 = 6
Body = dict[str, Any]


def roll(number: int) -> Body:
    return {"input": f"Roll a die with {number + 2} sides, and say what it shows.", "tools": [DICE], "tool_choice": DICE}


def search(number: int) -> Body:
    tools = [{"type": "tool_search"}, *({**tool, "defer_loading": True} for tool in TOOLS)]
    question = QUESTIONS[number * len(QUESTIONS) // LOOPS]
    return {"input": question.text, "tools": tools, "tool_choice": {"type": "tool_search"}}


each = pytest.mark.parametrize(
    ("ask", "first"), [(roll, "dice_call"), (search, "tool_search_call")], ids=["dice", "tool_search"]
)


async def loop(gateway: GatewayUnderTest, body: Body) -> Body:
    """The response at its end, every invariant of its stream checked."""
    async with gateway.client.post(gateway.url + "/v1/responses", json={"stream": True, "store": False, **body}) as answer:
        return check_stream(parse(await answer.read()), for_sdk=False)


def fault(response: Body, first: str) -> str | None:
    """What is wrong with the end of a loop. What a weak model writes last, words or a call, may go on until its tokens are used
    up: then the response is incomplete, and so is that item alone."""
    output = response["output"]
    shown = ", ".join(f"{item['type']} {item['status']}" for item in output)
    if not shown.startswith(first) or any(item["status"] != "completed" for item in output[:-1]):
        return shown
    details = response["incomplete_details"] or {}
    talks = details.get("reason") == "max_output_tokens" and output[-1]["type"] in ("message", "function_call", first)
    return None if response["status"] == "completed" or talks else f"{shown}: {response['error']}"


async def faults(engine: str, ask: Callable[[int], Body], first: str, tokens: int, loops: int = LOOPS) -> list[str | None]:
    async with running_gateway(engine, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        bodies = [{"model": "any", "max_output_tokens": tokens, **ask(number)} for number in range(loops)]
        return [fault(await loop(gateway, body), first) for body in bodies]


@each
async def test_random_weights_end_every_loop_that_begins_with_a_required_call(tiny: str, ask: Any, first: str) -> None:
    # A random text may be long.
    assert await faults(tiny, ask, first, tokens=2000) == [None] * LOOPS


@pytest.mark.slow
@pytest.mark.smollm2
@pytest.mark.timeout(1200)
@each
async def test_smollm2_ends_every_loop_that_begins_with_a_required_call(smollm2: str, ask: Any, first: str) -> None:
    assert await faults(smollm2, ask, first, tokens=100, loops=OF_SMOLLM2) == [None] * OF_SMOLLM2
