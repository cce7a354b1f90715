"""The items of a conversation as they are stored, and stored items as one list."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

Item = dict[str, Any]

_items = msgspec.json.Decoder(list[Item]).decode

# Item type → the prefix of its ids.
PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}
# Role → the type of its text parts, if it is not input_text.
TEXT_PARTS = {"assistant": "output_text"}


def kept_to_items(kept: Iterable[bytes]) -> list[Item]:
    """Stored lists of items as one list."""
    return [item for items in kept for item in _items(items)]


def items_to_kept(items: Sequence[Item], new_id: Callable[[str], str]) -> list[Item]:
    """Input as it is stored and returned: every item has an id and a type, every message a list of parts."""
    return [_to_kept(item, new_id) for item in items]


def _to_kept(item: Item, new_id: Callable[[str], str]) -> Item:
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    given = item.get("id")
    kept: Item = {"id": given if isinstance(given, str) and given else new_id(PREFIXES.get(kind, "item")), "type": kind} | {
        name: value for name, value in item.items() if name not in ("id", "type")
    }
    if kind == "message":
        kept.setdefault("status", "completed")
        if isinstance(kept.get("content"), str):
            part = TEXT_PARTS.get(str(kept.get("role")), "input_text")
            kept["content"] = [{"type": part, "text": kept["content"]}]
            if part == "output_text":
                kept["content"][0]["annotations"] = []
    return kept
