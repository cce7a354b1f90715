"""Input items as they are stored and shown, the check that lets them in, and what a model read of its calls.

A stored item of some calls has one member more, with the text that the model read. It is cut off wherever the item is shown. An
item that a client sends back gets it from the stored one. See `core.hosted.search_results`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct, structs

from antiphon.core.hosted.search_results import ShownResult
from antiphon.core.items.item_type import SHOWN_RESULT, ReadMembers, item_kind
from antiphon.core.prompt.documents import Documents
from antiphon.core.prompt.item_types import (
    ITEM_TYPES,
    PART_MEMBERS,
    PLAIN_TEXT,
    UNKNOWN,
    items_to_draft,
    needs_its_call,
    tools_in_items,
)
from antiphon.core.protocols.responses.fields import types_of
from antiphon.core.protocols.responses.references import is_reference
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.tools import plain_call
from antiphon.errors import InvalidRequest
from antiphon.wire.hosted_items import type_of
from antiphon.wire.input_items import Item
from antiphon.wire.responses import OutputItem

# The types of items that are stored, and not found by their ids: always, or without a text.
MAY_BE_HIDDEN = frozenset({"item_reference", "compaction_trigger", "reasoning"})
# The members of a message, and of its only part, that is nothing but its text.
PLAIN_MESSAGE, PLAIN_PART = {"type", "role", "content"}, {"type", "text"}
MESSAGE, OUTPUT_TEXT = ITEM_TYPES["message"], PART_MEMBERS["output_text"]

_id_of = itemgetter("id")

# ---- on entry --------------------------------------------------------------------------------------------------------


def check_items(
    items: Sequence[Item], *, before: Sequence[Item] = (), where: str = "items", documents: Documents | None = None
) -> Sequence[str]:
    """Raises for items that cannot be continued, by the converters that read them later. `before`: the items that are stored
    before them. `where`: the name of their list. `documents`: gets the uploaded files that they name. Returns the notices
    about them."""
    for at, item in enumerate(items):
        kind = "item_reference" if is_reference(item) else item_kind(item)
        if reason := ITEM_TYPES.get(kind or "", UNKNOWN).only_in_requests:
            raise InvalidRequest(f"`{where}[{at}]` {reason}", param=f"{where}[{at}].type", code="invalid_value")
    together = [*before, *items]
    tools_to_box((), tools_in_items(together, earlier=len(before), own=where))
    draft = items_to_draft(
        together, plain_call, lambda sealed: "", documents=documents or Documents(), earlier=len(before), own=where
    )
    return [notice for notice in draft.notices if notice.startswith(f"{where}[")]


def needs_items_before(items: Sequence[Item]) -> bool:
    """Some of these items may belong to calls that are stored before them."""
    return any(needs_its_call(item) for item in items)


# ---- as they are stored ----------------------------------------------------------------------------------------------


def items_to_stored_form(items: Sequence[Item], new_id: Callable[[str], str]) -> list[Item]:
    """Input as it is stored and returned: every item has an id, a type and all members that the API shows of it."""
    return [_plain_message(item, new_id) or _to_stored_form(item, new_id) for item in items]


def _plain_message(item: Item, new_id: Callable[[str], str]) -> Item | None:
    """Of a message that has one text, and neither an id nor a status, the same as `_to_stored_form`: a long history is mostly
    such messages, and this takes half as many steps. None: it is another one."""
    if item.keys() != PLAIN_MESSAGE or item["type"] != MESSAGE.type:
        return None
    text = item["content"]
    if type(text) is list and len(text) == 1 and type(part := text[0]) is dict and part.keys() == PLAIN_PART:
        text = part["text"] if part["type"] in PLAIN_TEXT else None
    if type(text) is not str:
        return None
    parts = [
        {"type": "output_text", "text": text, **OUTPUT_TEXT}
        if item["role"] == "assistant"
        else {"type": "input_text", "text": text}
    ]
    return {"id": new_id(MESSAGE.prefix), "type": MESSAGE.type, **item, "content": parts, **MESSAGE.members}


def _to_stored_form(item: Item, new_id: Callable[[str], str]) -> Item:
    kind = item.get("type")
    if not isinstance(kind, str) or not kind:
        kind = item_kind(item) or "unknown"
    row = ITEM_TYPES.get(kind, UNKNOWN)
    # The two come first, whatever the item has; their values follow.
    kept: Item = {"id": None, "type": None, **item}
    kept["type"] = kind
    if not isinstance(id := kept["id"], str) or not id:
        kept["id"] = new_id(row.prefix)
    if row.keep is not None:
        row.keep(kept)
    # As `complete()` does, which would be a call more for every item.
    for name, default in row.members.items():
        if kept.get(name) is None:
            kept[name] = default
    return kept


def findable_ids(items: Sequence[Item]) -> tuple[str, ...] | None:
    """The ids of items in their stored form by which they can be found, each once. None: some may not be found, which is
    seen in what is stored of them."""
    return tuple(dict.fromkeys(map(_id_of, items))) if types_of(items).isdisjoint(MAY_BE_HIDDEN) else None


# ---- what a model read of its calls ----------------------------------------------------------------------------------


def _stored_item(item: type[Struct]) -> type[Any]:
    """The item, with one member more."""
    members: list[Any] = [(SHOWN_RESULT, ShownResult)]
    return msgspec.defstruct(f"Stored{item.__name__}", members, bases=(item,), tag=type_of(item), kw_only=True)


# By the types of the items.
READ: Mapping[str, ReadMembers] = {row.type: row.read for row in ITEM_TYPES.values() if row.read is not None}
# Output item → the same as it is stored.
STORED: Mapping[type[Any], type[Any]] = {read.item: _stored_item(read.item) for read in READ.values()}
# A tuple: items come here before anybody has checked them, and a type may be anything.
_WITH_RESULT = tuple(READ)


def output_to_stored(output: Iterable[OutputItem], shown: Mapping[str, ShownResult]) -> list[OutputItem]:
    """The items of a response as they are stored. `shown`: by the ids of the items."""
    return [_to_stored(item, shown.get(item.id)) for item in output]


def _to_stored(item: OutputItem, shown: ShownResult | None) -> OutputItem:
    stored = STORED.get(type(item))
    if stored is None or shown is None:
        return item
    made: OutputItem = stored(**structs.asdict(item), **{SHOWN_RESULT: shown})
    return made


def ids_without_results(items: Sequence[Item]) -> list[str]:
    """Of calls whose stored items may have what the model read, each once."""
    if types_of(items).isdisjoint(_WITH_RESULT):
        return []
    calls = [item for item in items if item.get("type") in _WITH_RESULT]
    ids = (item.get("id") for item in calls if SHOWN_RESULT not in item)
    return list(dict.fromkeys(id for id in ids if isinstance(id, str) and id))


def with_results(items: Sequence[Item], found: Mapping[str, Item]) -> list[Item]:
    """`found`: stored items by their ids."""
    return [_with_result(item, found) for item in items]


def _with_result(item: Item, found: Mapping[str, Item]) -> Item:
    id = item.get("id")
    if item.get("type") not in _WITH_RESULT or not isinstance(id, str) or SHOWN_RESULT in item:
        return item
    stored = found.get(id, {})
    _, written, included = READ[item["type"]]
    is_same = stored.get("type") == item["type"] and stored.get(written) == item.get(written)
    is_same = is_same and (not item.get(included) or item[included] == stored.get(included))
    return {**item, SHOWN_RESULT: stored[SHOWN_RESULT]} if is_same and SHOWN_RESULT in stored else item
