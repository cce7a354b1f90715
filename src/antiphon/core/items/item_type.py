"""What there is to know of one type of item, and how many types are read and stored. `core.prompt.item_types` has all rows."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.toolbox.mcp_servers import tools_without_secrets
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.partial_json import arguments_to_text
from antiphon.wire.input_items import Item

# Writes the messages of an item into the draft of a prompt. It gets the draft, the item, and the path of that. Types in
# `core.prompt` know the whole draft, and others what `Draft` has of it.
Converter: TypeAlias = Callable[[Any, Item, str], None]

LONGEST_NOTE = 2000
# The member of stored items that has what the model read of the call. Clients are not shown it.
SHOWN_RESULT = "shown_result"
# Members that mean nothing to a model, or are as large as an image.
NOT_IN_NOTES = frozenset(
    {"type", "id", "status", "call_id", "encrypted_content", "result", "created_by", "caller", "container_id", "execution"}
    | {SHOWN_RESULT}
)


class ReadMembers(NamedTuple):
    """Of a call whose stored item has what the model read. An item that a client sends back gets it from the stored one, unless
    it has other values here: then its client has changed it."""

    # The output item.
    item: type[Struct]
    # The member that the model wrote, and the one that clients may include.
    written: str
    included: str


class ItemType(Struct, frozen=True):
    type: str
    to_chat: Converter
    # Of the ids that its items get here.
    prefix: str = "item"
    # The members that the API shows of every stored item, and clients may leave out: a member that is missing or null gets this
    # value. They must not change what an engine is sent: a history is the same prompt before and after it was stored.
    members: Mapping[str, Any] = {}
    # Replaces members of a shallow copy of the item, where they are stored in another form. It does not raise: an item that was
    # not read, because a compaction replaces it, is stored, too.
    keep: Callable[[Item], None] | None = None
    # Only a model writes it. After an approval of a call, it shows that the approval was acted on.
    continues_answer: bool = False
    # It is rejected without the call that it is the output of.
    needs_call: bool = False
    # Why it cannot be stored by itself.
    only_in_requests: str = ""
    # What the model read is stored with it.
    read: ReadMembers | None = None


class Draft(Protocol):
    """What a converter writes into: the messages of a prompt. See `core.prompt.draft.ChatDraft`."""

    found_words: Callable[[list[Item]], str]
    approval_requests: dict[str, Item]

    def user(self, parts: list[Item]) -> None: ...

    def assistant(self, text: str) -> None: ...

    def call(self, call_id: str, tool: ToolIdentity, arguments: str) -> None: ...

    def output(self, call_id: str, parts: list[Item], where: str) -> None: ...

    def has_call(self, call_id: str) -> bool: ...

    def search(self, tool: ToolIdentity, arguments: str) -> None: ...

    def search_output(self, text: str, where: str) -> None: ...


def item_kind(item: Item) -> str | None:
    """`type` is optional on messages. None: it is missing, or no string."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if kind is None and "role" in item:
        return "message"
    return None


# ---- converters that several types have ------------------------------------------------------------------------------


def note_to_chat(draft: Draft, item: Item, where: str) -> None:
    """What a tool of another server did, as text of the assistant."""
    rest = {member: value for member, value in item.items() if member not in NOT_IN_NOTES and value not in (None, [], {})}
    draft.assistant(f"[{item['type']}: {to_json(rest)[:LONGEST_NOTE]}]")


def call_as_function(tool: ToolIdentity, member: str, without: str = "") -> Converter:
    """A call of a tool that is not a function: the engine sees a function call, with that member as its arguments. Without a
    call_id the client did not run it, and it is a note. `without`: what the model has not written."""

    def to_chat(draft: Draft, item: Item, where: str) -> None:
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            note_to_chat(draft, item, where)
            return
        given = item.get(member) or {}
        if isinstance(given, dict):
            given = to_json({name: value for name, value in given.items() if name != without and value not in (None, {})})
        draft.call(call_id, tool, given if isinstance(given, str) else to_json(given))

    return to_chat


def output_as_result(member: str, otherwise: str = "", order: Callable[[Any], Any] = lambda value: value) -> Converter:
    """`otherwise`: the member that is sent if there is no such one. `order`: how its value is written."""

    def to_chat(draft: Draft, item: Item, where: str) -> None:
        value = item.get(member) if item.get(member) is not None else item.get(otherwise, "")
        text = value if isinstance(value, str) else to_json(order(value))
        call_id = item.get("call_id") or item.get("id")
        if isinstance(call_id, str) and draft.has_call(call_id):
            draft.output(call_id, [{"type": "text", "text": text}], where)
        else:
            draft.user([{"type": "text", "text": f"[{item['type']}: {text[:LONGEST_NOTE]}]"}])

    return to_chat


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ---- stored forms that several types have ----------------------------------------------------------------------------


def keep_arguments(item: Item) -> None:
    if not isinstance(given := item.get("arguments"), str):
        item["arguments"] = arguments_to_text(given)


def keep_tools(item: Item) -> None:
    item["tools"] = tools_without_secrets(item.get("tools"))


def complete(value: Item, members: Mapping[str, Any]) -> None:
    """Adds the members that are missing or null."""
    for name, default in members.items():
        if value.get(name) is None:
            value[name] = default
