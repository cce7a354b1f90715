"""The usage of an engine that reports none: counted by its own tokenizer, or by length."""

from antiphon.core.prompt.prompt_length import prompt_text, tokens_by_length
from antiphon.engines.token_counts import count_by_template
from antiphon.engines.upstream import Engine
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Usage


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
