"""The tokens that are counted for an input are those that llama.cpp then reads."""

from support.gateway import running_gateway

TOOLS = [{"type": "function", "name": "f", "description": "Does it.", "parameters": {"type": "object", "properties": {}}}]


async def test_the_counted_input_tokens_are_those_of_the_usage(tiny: str) -> None:
    body = {"input": "How many tokens is this?", "instructions": "Count.", "tools": TOOLS}
    async with running_gateway(tiny) as gateway:
        _, counted = await gateway.post(body, "/v1/responses/input_tokens")
        assert "template" in gateway.notice
        response = await gateway.create(**body, max_output_tokens=1)
    assert counted["input_tokens"] == response["usage"]["input_tokens"]


async def test_a_history_that_is_too_long_is_truncated_to_what_fits(tiny: str) -> None:
    items = [{"role": role, "content": f"{number} " * 400} for number in range(12) for role in ("user", "assistant")]
    async with running_gateway(tiny) as gateway:
        response = await gateway.create([*items, {"role": "user", "content": "And?"}], truncation="auto", max_output_tokens=8)
        assert "oldest turns" in gateway.notice
        assert response["usage"]["input_tokens"] > 4096, "no more is left out than has to be"
