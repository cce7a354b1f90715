"""Input items as they are stored and shown."""

from collections.abc import Callable, Sequence
from typing import Any

Item = dict[str, Any]

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


def items_to_stored_form(items: Sequence[Item], new_id: Callable[[str], str]) -> list[Item]:
    """Input as it is stored and returned: every item has an id and a type, every message a list of parts."""
    return [_to_stored_form(item, new_id) for item in items]


def _to_stored_form(item: Item, new_id: Callable[[str], str]) -> Item:
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
