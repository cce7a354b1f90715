"""How many tokens a prompt has, by the engine's own template and tokenizer."""

import asyncio

import msgspec

from antiphon.core.prompt.truncation import prompt_text, tokens_by_length
from antiphon.core.stream.chat_stream import chat_to_bytes
from antiphon.engines.bodies import read_document
from antiphon.engines.replies import ours
from antiphon.engines.upstream import Engine
from antiphon.errors import UNREADABLE, ApiError
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Usage

# Seconds for the engine to render a prompt.
RENDER_TIMEOUT = 30.0


async def count_by_template(engine: Engine, chat: ChatRequest) -> int | None:
    """None: the engine does not show its prompts, or has no tokenizer to ask."""
    template = engine.dialect.template
    if template is None:
        return None
    try:
        async with ours(engine.root), asyncio.timeout(RENDER_TIMEOUT):
            answer = await engine.post(template.path, chat_to_bytes(chat))
            value = msgspec.json.decode(await read_document(answer))
    except (ApiError, *UNREADABLE):
        return None
    prompt = value.get(template.prompt_key) if isinstance(value, dict) else None
    if isinstance(prompt, list):
        return len(prompt)
    return await engine.count_tokens(prompt, chat.model) if isinstance(prompt, str) else None


# ---- The usage of an engine that reports none: counted by its own tokenizer, or by length ----------------------------


async def estimate_usage(engine: Engine, chat: ChatRequest, written: str) -> Usage:
    """Codex compacts its history by the usage that is reported: an estimate is better than nothing."""
    read = await _count(engine, prompt_text(chat), chat.model)
    wrote = await _count(engine, written, chat.model)
    return Usage(read, InputTokensDetails(), wrote, OutputTokensDetails(), read + wrote)


async def count_prompt(engine: Engine, chat: ChatRequest) -> int:
    """As exactly as the engine can: by its template and tokenizer, by its tokenizer alone, or by length."""
    counted = await count_by_template(engine, chat)
    return counted if counted is not None else await _count(engine, prompt_text(chat), chat.model)


async def _count(engine: Engine, text: str, model: str) -> int:
    counted = await engine.count_tokens(text, model) if text else 0
    return counted if counted is not None else tokens_by_length(text)
