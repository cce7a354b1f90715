"""The usage of an engine that reports none: counted by its own tokenizer, or by length."""

from antiphon.engines.upstream import Engine
from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Usage

# Roughly what English and code take, for an engine that has no tokenizer to ask.
CHARACTERS_PER_TOKEN = 4


async def estimate_usage(engine: Engine, chat: ChatRequest, written: str) -> Usage:
    """Codex compacts its history by the usage that is reported: an estimate is better than nothing."""
    read = await _count(engine, _prompt_text(chat), chat.model)
    wrote = await _count(engine, written, chat.model)
    return Usage(read, InputTokensDetails(), wrote, OutputTokensDetails(), read + wrote)


async def _count(engine: Engine, text: str, model: str) -> int:
    counted = await engine.count_tokens(text, model) if text else 0
    return counted if counted is not None else -(-len(text) // CHARACTERS_PER_TOKEN)


def _prompt_text(chat: ChatRequest) -> str:
    """What the engine reads, close enough to count it. Images cost by their size in pixels, not by their bytes."""
    texts = []
    for message in chat.messages:
        if isinstance(message.content, str):
            texts.append(message.content)
        elif isinstance(message.content, list):
            texts += [part["text"] for part in message.content if part["type"] == "text"]
        for call in message.tool_calls or ():
            texts += [call.function.name, call.function.arguments]
    for tool in chat.tools or ():
        texts += [tool.function.name, tool.function.description or "", str(tool.function.parameters)]
    return "\n".join(texts)
