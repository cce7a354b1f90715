"""Held to a form, even random weights write nothing but calls of the tools, or a text."""

import msgspec
import pytest
from support.gateway import running_gateway

from antiphon.core.toolbox.choice import MOST_CALLS

CITY = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
TOOLS = [{"type": "function", "name": name, "parameters": CITY} for name in ("get_weather", "get_time")]
GRAMMAR = {"constrains_json": False, "constraint_member": "grammar"}


@pytest.mark.parametrize("facts", [{}, GRAMMAR], ids=["schema", "grammar"])
async def test_random_weights_make_calls_of_the_tools_or_say_something(tiny: str, facts: dict[str, object]) -> None:
    kinds = set()
    async with running_gateway(tiny, help="full") as gateway:
        engine = gateway.gateway.pool.engines[0]
        await engine.identify()
        engine.knowledge.learn(engine.knowledge.default_model, facts)
        for seed in range(12):
            response = await gateway.create("Hi", tools=TOOLS, temperature=1.5, seed=seed, max_output_tokens=400)
            assert 1 <= len(response["output"]) <= MOST_CALLS
            for item in response["output"]:
                kinds.add(item["type"])
                if item["type"] == "function_call":
                    assert item["name"] in ("get_weather", "get_time")
                    assert msgspec.json.decode(item["arguments"])["city"] in ("Paris", "Rome")
                else:
                    assert '"arguments"' not in item["content"][0]["text"]
    assert kinds == {"function_call", "message"}
