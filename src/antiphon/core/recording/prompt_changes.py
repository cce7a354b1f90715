"""What changed between two prompts of a conversation: the point where an engine's prompt cache no longer helps, and why.

An engine reuses the part of a prompt that begins like the one before. Chat templates write the tools first and then the
messages in order, so the first difference decides. `to_print` is a prompt in a few numbers, by which many are compared
quickly; `compare` explains the difference between two of them.
"""

import re
from array import array
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from antiphon.patterns import late_pattern
from antiphon.wire.chat import ChatFunction, ChatMessage, ChatRequest

# The fields that a chat template reads, beside messages and tools.
TEMPLATE_FIELDS = ("chat_template_kwargs", "reasoning_effort")

# What a prompt takes in memory beside the hashes of its messages.
OVERHEAD = 250

_encode = msgspec.json.encode
_template_fields = attrgetter(*TEMPLATE_FIELDS)
NOT_SET = (UNSET,) * len(TEMPLATE_FIELDS)
# Beside its content and its calls.
_message_members = attrgetter("role", "reasoning_content", "reasoning", "tool_call_id")
_MOMENT = late_pattern(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(:\d\d)?|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b", re.ASCII)


class PromptPrint(Struct, frozen=True, gc=False):
    """A prompt as hashes, good for one process."""

    # The engine, the model and the fields of the template.
    frame: int
    tools: int
    # Eight bytes each: as objects, they would take five times as much.
    messages: "array[int]"
    # How many system messages are in front.
    leading: int

    def extends(self, earlier: "PromptPrint") -> bool:
        """It begins with the whole of the earlier prompt."""
        same = (self.frame, self.tools) == (earlier.frame, earlier.tools)
        return same and self.messages[: len(earlier.messages)] == earlier.messages

    def shared(self, earlier: "PromptPrint") -> int:
        """How many messages both begin with, not counting what comes from the system: instructions may change."""
        return _common(self.messages[self.leading :], earlier.messages[earlier.leading :])

    @property
    def size(self) -> int:
        """In bytes, about."""
        return OVERHEAD + self.messages.itemsize * len(self.messages)

    @property
    def first(self) -> int | None:
        """The message that a conversation begins with."""
        return self.messages[self.leading] if len(self.messages) > self.leading else None


def to_print(chat: ChatRequest, engine: str) -> PromptPrint:
    fields = _template_fields(chat)
    # Mostly none of them is set.
    encoded = () if fields == NOT_SET else [_encode(value) for value in fields if value is not UNSET]
    tools = hash(_encode(chat.tools)) if chat.tools is not UNSET else 0
    leading = 1 if chat.messages and chat.messages[0].role == "system" else 0
    return PromptPrint(hash((engine, chat.model, *encoded)), tools, array("q", map(_message_hash, chat.messages)), leading)


def _message_hash(message: ChatMessage) -> int:
    """A text is hashed as it is: that is quick, and done once for each text. Its bytes would have the same hash."""
    content: Any = (_encode(message.content),) if type(message.content) is list else message.content
    members = _message_members(message)
    if message.tool_calls is UNSET:
        return hash((members, content))
    return hash((members, content, *[(call.id, call.function.name, call.function.arguments) for call in message.tool_calls]))


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    if one[: len(other)] == other:
        return len(other)
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


# ---- the difference in words -----------------------------------------------------------------------------------------


class Place(Struct, frozen=True):
    """The first difference."""

    part: str
    index: int | None = None
    role: str | None = None
    path: str | None = None


class PromptChange(NamedTuple):
    # Where the later prompt leaves the earlier one; None: it only continues it.
    where: Place | None
    why: str
    shared_messages: int
    messages: int
    # The share of the earlier prompt that the later one begins with, by length.
    shared_share: float
    # Messages after those of the earlier prompt, or after the first difference.
    added: int


class Asked(NamedTuple):
    engine: str
    chat: ChatRequest


ONLY_LONGER = "Nothing before the new messages has changed: the engine can reuse its cache for all of the earlier prompt."


def compare(earlier: Asked, later: Asked) -> PromptChange:
    before, after = earlier.chat.messages, later.chat.messages
    shared = _common(after, before)
    found = _frame_change(earlier, later) or _tool_change(earlier.chat, later.chat)
    if found is not None:
        # It comes before all messages, or in all of them.
        where, why = found
        return PromptChange(where, why, 0, len(after), 0.0, len(after))
    share = _share(before, shared)
    if shared == len(before):
        return PromptChange(None, ONLY_LONGER, shared, len(after), 1.0, len(after) - shared)
    place, why = _message_change(before, after, shared)
    return PromptChange(place, why, shared, len(after), share, len(after) - shared)


def closest(earlier: Sequence[Asked], later: Asked) -> Asked:
    """Of the chat requests of one turn, the one whose prompt the later one shares most with: engines keep several."""

    def nearness(asked: Asked) -> tuple[bool, int]:
        change = compare(asked, later)
        return change.where is None, change.shared_messages

    return max(earlier, key=nearness)


def _share(before: Sequence[ChatMessage], shared: int) -> float:
    lengths = [len(_encode(message)) for message in before]
    return round(sum(lengths[:shared]) / max(1, sum(lengths)), 4)


def _frame_change(earlier: Asked, later: Asked) -> tuple[Place, str] | None:
    if earlier.engine != later.engine:
        return Place("engine"), f"Another engine answers ({later.engine}): it has not seen the earlier prompt."
    if earlier.chat.model != later.chat.model:
        return Place("model", path="model"), f"Another model answers: {later.chat.model} after {earlier.chat.model}."
    for name in TEMPLATE_FIELDS:
        if getattr(earlier.chat, name) != getattr(later.chat, name):
            return Place("template", path=name), f"`{name}` changed: the chat template may write the whole prompt differently."
    return None


def _tool_change(earlier: ChatRequest, later: ChatRequest) -> tuple[Place, str] | None:
    if earlier.tools == later.tools:
        return None
    before, after = _functions(earlier), _functions(later)
    names = [function.name for function in after]
    known = {function.name: function for function in before}
    added = [name for name in names if name not in known]
    removed = [name for name in known if name not in names]
    changed = [function.name for function in after if function.name in known and known[function.name] != function]
    parts = [
        f"{verb}: {', '.join(found)}" for verb, found in (("added", added), ("removed", removed), ("changed", changed)) if found
    ]
    index = _common(after, before)
    reason = "; ".join(parts) or "their order changed"
    why = f"The tools changed ({reason}). They come before all messages in the prompt."
    return Place("tools", index, path=f"tools[{index}]"), why


def _functions(chat: ChatRequest) -> list[ChatFunction]:
    return [] if chat.tools is UNSET else [tool.function for tool in chat.tools]


def _message_change(before: Sequence[ChatMessage], after: Sequence[ChatMessage], at: int) -> tuple[Place, str]:
    if at == len(after):
        left = len(before) - at
        return Place("messages", at, before[at].role, f"messages[{at}]"), _count(
            left, "The prompt ends earlier: the last {} left out."
        )
    old, new = before[at], after[at]
    path, why = _edit(old, new, at)
    if new in before[at + 1 :]:
        why = _count(
            before.index(new, at + 1) - at, "{} left out in the middle: truncation, or a client that shortens its history."
        )
    elif old in after[at + 1 :]:
        why = _count(after.index(old, at + 1) - at, "{} inserted before this one.")
    return Place("messages", at, new.role, f"messages[{at}]{path}"), why


def _count(number: int, text: str) -> str:
    return text.format(f"{number} message{'s were' if number != 1 else ' was'}")


def _edit(old: ChatMessage, new: ChatMessage, at: int) -> tuple[str, str]:
    """Which member differs, and what that means."""
    if old.role != new.role:
        return (
            ".role",
            f"Here was a message of the role {old.role}, and now one of the role {new.role}: the history is another one.",
        )
    thought = (old.reasoning_content, old.reasoning), (new.reasoning_content, new.reasoning)
    if thought[0] != thought[1]:
        gone = thought[1] == (UNSET, UNSET)
        member = ".reasoning" if old.reasoning != new.reasoning else ".reasoning_content"
        return member, "The reasoning of this turn is no longer sent back." if gone else "The reasoning of this turn changed."
    if old.tool_calls != new.tool_calls:
        return (
            ".tool_calls",
            "The calls of this turn are sent back differently: others, in another order, or with other arguments.",
        )
    if old.tool_call_id != new.tool_call_id:
        return ".tool_call_id", "The id of this call changed."
    return ".content", _text_change(old, new)


EDITED = {
    "user": "An earlier message of the user was edited",
    "assistant": "An earlier answer of the model is sent back differently",
    "tool": "The result of an earlier tool call was edited",
    "system": "The instructions changed",
}


def _text_change(old: ChatMessage, new: ChatMessage) -> str:
    what = EDITED.get(new.role, "An earlier message was edited")
    if not isinstance(old.content, str) or not isinstance(new.content, str):
        return f"{what}."
    at = _common(old.content, new.content)
    if old.content.startswith(new.content) or new.content.startswith(old.content):
        verb = "shortened" if len(new.content) < len(old.content) else "continued"
        return f"{what}: it was {verb}, from character {at} on."
    if _is_in_moment(old.content, at) and _is_in_moment(new.content, at):
        return f"{what}: a date or time in it is another one, at character {at}."
    return f"{what}, from character {at} on."


def _is_in_moment(text: str, at: int) -> bool:
    return any(found.start() <= at < found.end() for found in _MOMENT.finditer(text, max(0, at - 12), at + 12))
