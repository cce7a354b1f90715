"""How many tokens a prompt has, roughly: by the length of its text."""

from antiphon.wire.chat import ChatRequest

# Roughly what English and code take, for an engine that has no tokenizer to ask.
CHARACTERS_PER_TOKEN = 4


def tokens_by_length(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def prompt_text(chat: ChatRequest) -> str:
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
