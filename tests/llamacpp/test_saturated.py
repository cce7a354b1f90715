"""An engine that is never idle: what it can do is found out all the same, and no request has tools that it does not show."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.llamacpp import running_llamacpp
from support.templates import THINKING, THINKING_WITH_TOOLS
from support.tiny_model import write_tiny_model

from antiphon.app.options import Intervals
from antiphon.app.parts import Extensions
from antiphon.core.stream.chat_stream import chat_to_bytes
from antiphon.engines.probes.examiner import ProbeTimes
from antiphon.gateway.runs.observers import Observer
from antiphon.wire.chat import ChatRequest

CLIENTS = 4
TOOL = {
    "type": "function",
    "name": "look_up",
    "description": "Finds the marmalade.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
}
TIMES = ProbeTimes(idle_check=0.01, longest_wait=0.05)


class SentChats(Observer):
    def __init__(self) -> None:
        self.chats: list[dict[str, Any]] = []

    def chat(self, chat: ChatRequest, engine: str) -> None:
        self.chats.append(msgspec.json.decode(chat_to_bytes(chat)))


async def prompts_of(gateway: GatewayUnderTest, url: str, chats: list[dict[str, Any]]) -> list[str]:
    """What the model saw of each request."""
    prompts: list[str] = []
    for chat in chats:
        async with gateway.client.post(url + "/apply-template", json=chat) as answer:
            prompts.append((await answer.json())["prompt"])
    return prompts


@pytest.mark.parametrize(
    ("template", "shows_tools"), [(THINKING, False), (THINKING_WITH_TOOLS, True)], ids=["no tools", "tools"]
)
async def test_no_request_has_tools_that_the_model_does_not_see(tmp_path: Path, template: str, shows_tools: bool) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", ends=False)
    sent = SentChats()
    extensions = Extensions(observers=[lambda arrival: sent], checker=CHECKER, intervals=Intervals(probes=TIMES))
    with running_llamacpp(model, template=template, slots=1) as url:
        async with running_gateway(url, probe=True, extensions=extensions) as gateway:
            (engine,) = gateway.gateway.pool.engines
            probed = asyncio.Event()

            async def asks_back_to_back() -> None:
                while not probed.is_set():
                    await gateway.create(model="tiny", tools=[TOOL], max_output_tokens=8)

            clients = [asyncio.create_task(asks_back_to_back()) for _ in range(CLIENTS)]
            await gateway.probed()
            probed.set()
            await asyncio.gather(*clients)
            await gateway.create(model="tiny", tools=[TOOL], max_output_tokens=8)
            assert engine.knowledge.dialect_for("tiny").shows_tools is shows_tools
            prompts = await prompts_of(gateway, url, sent.chats)
    assert len(prompts) > CLIENTS
    assert all("marmalade" in prompt for prompt in prompts)
    assert ("tools" in sent.chats[-1]) is shows_tools
