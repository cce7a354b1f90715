"""Two real llama.cpp engines: conversations find their prompts in the caches, because they stay where they are."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from support.gateway import GatewayUnderTest, running_gateway
from support.llamacpp import running_llamacpp
from support.tiny_model import write_tiny_model

CONVERSATIONS = 20
TURNS = 10
# Requests at once. Each engine has four slots.
AT_ONCE = 4


class Conversation:
    """As a client has it that keeps its history itself, without a key for the cache."""

    def __init__(self, number: int) -> None:
        words = random.Random(number).choices(["roses", "beans", "water", "weeds", "north", "south", "spade", "soil"], k=400)
        self._history: list[dict[str, Any]] = [{"role": "user", "content": f"Garden {number}: {' '.join(words)}."}]
        # Of all turns but the first, which no cache can have.
        self.cached = self.tokens = 0

    async def turn(self, gateway: GatewayUnderTest, number: int) -> None:
        if number:
            self._history.append({"role": "user", "content": f"Look after the beans, day {number}."})
        response = await gateway.create(self._history, model="tiny", max_output_tokens=16)
        self._history += response["output"]
        if number:
            self.tokens += response["usage"]["input_tokens"]
            self.cached += response["usage"]["input_tokens_details"]["cached_tokens"]


async def cached_share(model: Path, **settings: Any) -> float:
    """On engines that have just been started. The conversations take their turns in any order, several at once."""
    conversations, order, places = (
        [Conversation(at) for at in range(CONVERSATIONS)],
        random.Random(1),
        asyncio.Semaphore(AT_ONCE),
    )

    async def turn(conversation: Conversation, number: int) -> None:
        async with places:
            await conversation.turn(gateway, number)

    with running_llamacpp(model, context=8192, slots=4) as one, running_llamacpp(model, context=8192, slots=4) as other:
        async with running_gateway(one, other, **settings) as gateway:
            await gateway.gateway.pool.identify()
            for number in range(TURNS):
                order.shuffle(conversations)
                await asyncio.gather(*(turn(conversation, number) for conversation in conversations))
    return sum(each.cached for each in conversations) / sum(each.tokens for each in conversations)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nine_tenths_of_the_prompts_are_in_the_cache_of_the_right_engine(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", context=8192)
    with_affinity = await cached_share(model)
    without = await cached_share(model, affinity=False)
    print(f"cached with affinity {with_affinity:.1%}, without {without:.1%}")  # noqa: T201
    assert with_affinity >= 0.9
    assert without < with_affinity
