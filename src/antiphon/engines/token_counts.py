"""How many tokens a prompt has, by the engine's own template and tokenizer."""

import asyncio

import msgspec

from antiphon.core.prompt.convert import chat_to_bytes
from antiphon.engines.bodies import read_document
from antiphon.engines.upstream import Engine, ours
from antiphon.errors import ApiError
from antiphon.wire import UNREADABLE
from antiphon.wire.chat import ChatRequest

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
