"""A weak model that must call a tool of the gateway: every loop comes to an end."""

from typing import Any

import pytest
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.streams import check_stream, parse
from support.toy_tool import DICE, Dice

from antiphon.app import Extensions
from bench.models.questions import QUESTIONS, TOOLS

LOOPS = 20
Body = dict[str, Any]


def roll(number: int) -> Body:
    return {"input": f"Roll a die with {number + 2} sides, and say what it shows.", "tools": [DICE], "tool_choice": DICE}


def search(number: int) -> Body:
    tools = [{"type": "tool_search"}, *({**tool, "defer_loading": True} for tool in TOOLS)]
    question = QUESTIONS[number * len(QUESTIONS) // LOOPS]
    return {"input": question.text, "tools": tools, "tool_choice": {"type": "tool_search"}}


async def loop(gateway: GatewayUnderTest, body: Body) -> Body:
    """The response at its end, every invariant of its stream checked."""
    request = {"model": "smollm2", "stream": True, "store": False, "max_output_tokens": 300, **body}
    async with gateway.client.post(gateway.url + "/v1/responses", json=request) as answer:
        return check_stream(parse(await answer.read()), for_sdk=False)


def fault(response: Body, first: str) -> str | None:
    """What is wrong with the end of a loop. A small model may talk until its tokens are used up, and that is an end, too."""
    kinds = [item["type"] for item in response["output"]]
    if response["status"] not in ("completed", "incomplete"):
        return f"{response['status']}: {response['error']}"
    if response["status"] == "incomplete" and response["incomplete_details"]["reason"] != "max_output_tokens":
        return f"incomplete: {response['incomplete_details']}"
    if kinds[:1] != [first] or kinds[-1] not in ("message", "function_call"):
        return f"its items are {', '.join(kinds)}"
    return None


@pytest.mark.slow
@pytest.mark.smollm2
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("ask", "first"), [(roll, "dice_call"), (search, "tool_search_call")], ids=["dice", "tool_search"])
async def test_smollm2_ends_every_loop_that_begins_with_a_required_call(smollm2: str, ask: Any, first: str) -> None:
    async with running_gateway(smollm2, extensions=Extensions(tools={"dice": Dice()}, checker=CHECKER)) as gateway:
        responses = [await loop(gateway, ask(number)) for number in range(LOOPS)]
    assert [fault(response, first) for response in responses] == [None] * LOOPS
