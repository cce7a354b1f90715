"""How many tokens a prompt has: by the engine's own template and tokenizer, by asking it for one token, or by length."""

import asyncio
from typing import NamedTuple

import msgspec
from msgspec import structs

from antiphon.core.deltas import EngineFailed, UsageReport
from antiphon.core.engine_stream import EngineStream
from antiphon.core.request import chat_to_bytes
from antiphon.engines.estimates import prompt_length
from antiphon.engines.upstream import Engine, ours
from antiphon.errors import ApiError
from antiphon.wire import UNREADABLE
from antiphon.wire.chat import ChatRequest

PATIENCE = 30.0


class Count(NamedTuple):
    tokens: int
    # How it was come by, in words.
    how: str


async def count_prompt(engine: Engine, chat: ChatRequest) -> Count:
    if (told := await _by_template(engine, chat)) is not None:
        return Count(told, "counted by the engine's own template and tokenizer")
    if (told := await _by_asking(engine, chat)) is not None:
        return Count(told, "counted by asking the engine for one token")
    return Count(prompt_length(chat), "estimated by length: the engine counts no tokens")


async def _by_template(engine: Engine, chat: ChatRequest) -> int | None:
    template = engine.dialect.template
    if template is None:
        return None
    try:
        async with ours(engine.root), asyncio.timeout(PATIENCE):
            answer = await engine.post(template.path, chat_to_bytes(chat))
            value = msgspec.json.decode(await answer.read())
    except (ApiError, *UNREADABLE):
        return None
    prompt = value.get(template.prompt_key) if isinstance(value, dict) else None
    return await engine.count_tokens(prompt, chat.model) if isinstance(prompt, str) else None


async def _by_asking(engine: Engine, chat: ChatRequest) -> int | None:
    """Raises what the engine refuses: a prompt that is too long is an answer too."""
    chat = structs.replace(chat, **{engine.dialect.max_tokens_member: 1})
    reply = await engine.open_chat(chat)
    try:
        stream = EngineStream()
        deltas = stream.receive(await reply.read()) + stream.close()
    finally:
        reply.close()
    for delta in deltas:
        if isinstance(delta, EngineFailed):
            raise delta.error
    usages = [delta.usage for delta in deltas if isinstance(delta, UsageReport)]
    return usages[-1].input_tokens if usages else None
