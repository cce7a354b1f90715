"""`context_management.edits`: what is cut out of a long conversation before an engine reads it.

The results of old calls are cleared in steps, and not with each call: what an engine has read stays the same until there is too
much of it again. So the conversation is gone through from its beginning, and cleared wherever it was cleared when it ended
there. The same conversation is cut in the same places in every turn.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.input_items import Item
from antiphon.wire.messages import Amount, ContextEdit

CLEAR_TOOL_USES, CLEAR_THINKING, COMPACT = "clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"
KINDS = (CLEAR_TOOL_USES, CLEAR_THINKING, COMPACT)
TOKENS, USES = "input_tokens", "tool_uses"
# Where the request does not say: when it is cleared, and how many of the last calls keep their results.
TRIGGER, KEPT = Amount(TOKENS, 100_000), Amount(USES, 3)
# Tokens are not counted when a request is read: a character is a quarter of one, whatever the model.
CHARACTERS_PER_TOKEN = 4

# In the place of a result.
CLEARED = "[This result was cleared to save room. Call the tool again if you need it.]"
CALL, RESULT = "function_call", "function_call_output"


class ToolUse(Struct):
    """A call and its result, by their places among the items."""

    name: str
    call: int
    result: int
    # In tokens, what is saved by clearing it.
    saves: int


class Clearing(Struct):
    """What was cleared so far."""

    edit: ContextEdit
    # The calls with a result that may be cleared, the oldest first.
    kept: list[ToolUse] = field(default_factory=list)
    cleared: list[ToolUse] = field(default_factory=list)
    # Of the prompt, as far as it has been gone through.
    tokens: int = 0

    def clear(self) -> None:
        """Where a request has ended: all but the last calls, if there is too much."""
        trigger, keep = self.edit.trigger or TRIGGER, self.edit.keep
        reached = self.tokens if trigger.type == TOKENS else len(self.kept)
        if reached <= trigger.value:
            return
        most = keep.value if isinstance(keep, Amount) else KEPT.value
        old = self.kept[: max(0, len(self.kept) - most)]
        saved = sum(use.saves for use in old)
        if not old or (self.edit.clear_at_least is not None and saved < self.edit.clear_at_least.value):
            return
        self.cleared += old
        self.kept = self.kept[len(old) :]
        self.tokens -= saved

    @property
    def shown(self) -> dict[str, Any]:
        """As the answer shows it."""
        saved = sum(use.saves for use in self.cleared)
        return {"type": CLEAR_TOOL_USES, "cleared_tool_uses": len(self.cleared), "cleared_input_tokens": saved}


def check_edits(edits: Sequence[ContextEdit]) -> None:
    for at, edit in enumerate(edits):
        if edit.type not in KINDS:
            where = f"context_management.edits[{at}].type"
            problem = f"`{where}` must be one of: {', '.join(KINDS)}. It is {quoted(edit.type)}."
            raise InvalidRequest(problem, param=where, code="invalid_value")


def clear_tool_uses(items: list[Item], edit: ContextEdit, beside: str) -> tuple[list[Item], Clearing]:
    """The items without what is cleared. `beside`: what else the prompt has."""
    clearing = Clearing(edit, tokens=_tokens(beside))
    calls: dict[str, int] = {}
    excluded = frozenset(edit.exclude_tools or ())
    for at, item in enumerate(items):
        size, kind = _tokens(*_texts(item)), item.get("type")
        if at and _is_written(item) and not _is_written(items[at - 1]):
            clearing.clear()
        clearing.tokens += size
        if kind == CALL:
            calls[item["call_id"]] = at
        elif kind == RESULT and (called := calls.get(item["call_id"])) is not None:
            name = items[called]["name"]
            if name not in excluded:
                saves = size - _tokens(CLEARED)
                saves += _tokens(*_texts(items[called])) if _clears_input(edit, name) else 0
                clearing.kept.append(ToolUse(name, called, at, max(0, saves)))
    clearing.clear()
    return _without(items, clearing), clearing


def _without(items: list[Item], clearing: Clearing) -> list[Item]:
    shown = list(items)
    for use in clearing.cleared:
        shown[use.result] = {**items[use.result], "output": CLEARED}
        if _clears_input(clearing.edit, use.name):
            shown[use.call] = {**items[use.call], "arguments": "{}"}
    return shown


def _clears_input(edit: ContextEdit, name: str) -> bool:
    given = edit.clear_tool_inputs
    return given is True or (isinstance(given, list) and name in given)


def _is_written(item: Item) -> bool:
    """By the model: where it begins to write, a request has ended."""
    return item.get("role") == "assistant" or item.get("type") not in ("message", RESULT)


def _tokens(*texts: str) -> int:
    return sum(map(len, texts)) // CHARACTERS_PER_TOKEN


def _texts(item: Item) -> Iterator[str]:
    yield from (value for name in ("name", "arguments") if isinstance(value := item.get(name), str))
    for name in ("content", "output", "summary"):
        value = item.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (part["text"] for part in value if isinstance(part.get("text"), str))
