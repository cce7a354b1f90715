"""An agent's conversation on real llama.cpp: its history stays in the engine's cache, turn after turn."""

from typing import Any

import pytest
from support.gateway import GatewayUnderTest, running_gateway
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for

TURNS = 10
# Compared with one turn, about as long as the instructions of a coding agent.
INSTRUCTIONS = "You are an agent that looks after a garden. " * 200
TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": f"Can {name.replace('_', ' ')}.",
        "parameters": {
            "type": "object",
            "properties": {"bed": {"type": "string", "enum": ["roses", "beans"]}, "litres": {"type": "integer"}},
            "required": ["bed", "litres"],
            "additionalProperties": False,
        },
    }
    for name in ("water_bed", "weed_bed")
]


async def turn(gateway: GatewayUnderTest, history: list[dict[str, Any]], number: int) -> float:
    """One question, its call, and the answer to its result; the share of the prompts that was in the cache."""
    shares: list[float] = []
    history.append({"role": "user", "content": f"Look after the beans, day {number}."})
    # Required and free choices alternate, and streams and whole answers too. None of this may change the start of the prompt.
    choice = ("required", {"type": "function", "name": "water_bed"}, "required")[number % 3]
    for tool_choice in (choice, "auto"):
        fields = {
            "model": "tiny",
            "instructions": INSTRUCTIONS,
            "tools": TOOLS,
            "tool_choice": tool_choice,
            "max_output_tokens": 80,
        }
        if number % 2:
            response = (await gateway.stream(history, **fields))[-1]["response"]
        else:
            response = await gateway.create(history, **fields)
        history += response["output"]
        for item in response["output"]:
            if item["type"] == "function_call":
                history.append({"type": "function_call_output", "call_id": item["call_id"], "output": "Done."})
        usage = response["usage"]
        shares.append(usage["input_tokens_details"]["cached_tokens"] / usage["input_tokens"])
    return min(shares)


@pytest.mark.parametrize("has_tools", [True, False], ids=["tools in the template", "tools in words"])
async def test_nine_tenths_of_the_prompt_are_cached_from_the_second_turn_on(tmp_path: Any, has_tools: bool) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", context=32768)
    template = template_for(read_header(path)) if has_tools else None
    with running_llamacpp(path, template=template, context=32768, slots=2) as url:
        async with running_gateway(url, probe=True) as gateway:
            await gateway.probed()
            history: list[dict[str, Any]] = []
            shares = [await turn(gateway, history, number) for number in range(TURNS)]
    assert len(history) > 3 * TURNS
    assert min(shares[1:]) >= 0.9, shares
