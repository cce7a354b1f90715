"""`truncation: "auto"`: a history that is too long loses its oldest turns."""

import itertools
from collections.abc import Callable

import msgspec

from antiphon.errors import token_counts
from antiphon.wire.chat import ChatRequest
from antiphon.wire.input_items import Item

# ---- How many tokens a prompt has, roughly: by the length of its text ------------------------------------------------

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


def has_room_for(answer: int, chat: ChatRequest, window: int) -> bool:
    """Whether an answer of so many tokens fits into the context window behind the prompt, roughly. A short answer always does:
    then nothing has to be counted."""
    return answer <= window // 4 or tokens_by_length(prompt_text(chat)) + answer <= window


# The share that is left free for the answer.
ROOM = 0.05
# The share that is dropped if the engine does not say by how much the prompt is too long.
STEP = 0.25
# Items before the first turn that stay, besides instructions: a compaction is the shortest form of what it replaced.
STAYS = frozenset({"compaction", "context_compaction", "additional_tools"})


def share_to_drop(message: str, dropped: float) -> float:
    """The share of the history to drop, by the engine's message. `dropped` is the share that was dropped before."""
    counts = token_counts(message)
    if len(counts) < 2 or min(counts) == max(counts):
        return dropped + STEP
    fits = min(counts) / max(counts)
    # The counts are about the part that was left.
    return max(1 - (1 - dropped) * (fits - ROOM), dropped + ROOM)


def size_of(item: Item) -> int:
    """In bytes."""
    return len(msgspec.json.encode(item))


# The size of an item, with the files that it names.
SizeOf = Callable[[Item], int]


def truncated(items: list[Item], share: float, size_of: SizeOf = size_of) -> list[Item] | None:
    """The history without this share, in oldest turns. The last turn and what leads the first one stay.

    None if there is nothing left to drop.
    """
    starts = [at for at, item in enumerate(items) if item.get("role") == "user"]
    if len(starts) < 2:
        return None
    head = [item for item in items[: starts[0]] if item.get("role") in ("system", "developer") or item.get("type") in STAYS]
    # The size of everything before each item, and of the whole history at the end.
    before = list(itertools.accumulate(map(size_of, items), initial=0))
    start = next((start for start in starts[1:] if before[start] >= share * before[-1]), starts[-1])
    return paired([*head, *items[start:]])


def paired(items: list[Item]) -> list[Item]:
    """Without the outputs of calls that were dropped."""
    calls = {str(item.get("call_id")) for item in items if not is_output(item)}
    return [item for item in items if not is_output(item) or str(item.get("call_id")) in calls]


def is_output(item: Item) -> bool:
    return str(item.get("type", "")).endswith("_output") and "call_id" in item
