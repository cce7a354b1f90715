"""How many tokens a prompt has: by the engine's own template and tokenizer, by asking it for one token, or by length."""

import asyncio
from typing import NamedTuple

import msgspec
from msgspec import UNSET, structs

from antiphon.core.chunk_reader import ChunkReader
from antiphon.core.deltas import Delta, EngineFailed, UsageReport
from antiphon.core.lessons import lesson_of
from antiphon.core.request import chat_to_bytes
from antiphon.core.sse import FrameReader
from antiphon.engines.estimates import prompt_length
from antiphon.engines.upstream import Engine, Reply, ours
from antiphon.errors import ApiError
from antiphon.wire import UNREADABLE
from antiphon.wire.chat import ChatRequest

# Seconds for the engine to render a prompt.
RENDER_TIMEOUT = 30.0


class TokenCount(NamedTuple):
    tokens: int
    # How it was counted, in words.
    method: str


async def count_prompt(engine: Engine, chat: ChatRequest) -> TokenCount:
    if (counted := await _by_template(engine, chat)) is not None:
        return TokenCount(counted, "counted by the engine's own template and tokenizer")
    if (counted := await _by_asking(engine, chat)) is not None:
        return TokenCount(counted, "counted by asking the engine for one token")
    return TokenCount(prompt_length(chat), "estimated by length: the engine counts no tokens")


async def _by_template(engine: Engine, chat: ChatRequest) -> int | None:
    template = engine.dialect.template
    if template is None:
        return None
    try:
        async with ours(engine.root), asyncio.timeout(RENDER_TIMEOUT):
            answer = await engine.post(template.path, chat_to_bytes(chat))
            value = msgspec.json.decode(await answer.read())
    except (ApiError, *UNREADABLE):
        return None
    prompt = value.get(template.prompt_key) if isinstance(value, dict) else None
    return await engine.count_tokens(prompt, chat.model) if isinstance(prompt, str) else None


async def _by_asking(engine: Engine, chat: ChatRequest) -> int | None:
    """Raises what the engine refuses: that a prompt is too long is an answer too."""
    reply = await _open(engine, structs.replace(chat, **{engine.dialect.max_tokens_member: 1}))
    try:
        deltas = _to_deltas(await reply.read())
    finally:
        reply.close()
    for delta in deltas:
        if isinstance(delta, EngineFailed):
            raise delta.error
    usages = [delta.usage for delta in deltas if isinstance(delta, UsageReport)]
    return usages[-1].input_tokens if usages else None


async def _open(engine: Engine, chat: ChatRequest) -> Reply:
    try:
        return await engine.open_chat(chat)
    except ApiError as error:
        lesson = lesson_of(error, chat, engine.knowledge.dialect_for(chat.model))
        if lesson is None or "takes_stream_options" not in lesson.facts:
            raise
        engine.knowledge.learn(chat.model, lesson.facts)
    return await engine.open_chat(structs.replace(chat, stream_options=UNSET))


def _to_deltas(body: bytes) -> list[Delta]:
    frames, reader = FrameReader(), ChunkReader()
    found = [frame for frame in (*frames.receive(body), *frames.close()) if frame.strip() != b"[DONE]"]
    return [delta for frame in found for delta in reader.receive(frame)] + reader.close()
