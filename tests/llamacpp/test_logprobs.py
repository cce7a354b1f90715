"""Logprobs from real llama.cpp, which returns none at all if none of the alternatives are asked for."""

import pytest
from support.gateway import running_gateway

INCLUDE = ["message.output_text.logprobs"]


@pytest.mark.parametrize("most", [None, 0, 3])
async def test_each_token_has_its_probability_and_as_many_alternatives_as_were_asked_for(tiny: str, most: int | None) -> None:
    async with running_gateway(tiny) as gateway:
        response = await gateway.create(include=INCLUDE, top_logprobs=most, max_output_tokens=8)
        assert "logprobs" not in gateway.notice
    (message,) = response["output"]
    tokens = message["content"][0]["logprobs"]
    assert tokens
    assert {len(token["top_logprobs"]) for token in tokens} == {most or 0}
