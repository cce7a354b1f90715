"""The items in the JSON of a record: their ids, and each of them as bytes."""

from collections.abc import Collection
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import UNREADABLE

# Items that only point to something else, or that mean something to one request only. Nothing can refer to them.
NOT_FOUND_BY_ID = frozenset({"item_reference", "compaction_trigger"})
_EMPTY = (b"", b"null", b"[]", b'""')
_NOTHING = Raw(b"")


class Head(Struct):
    """The members that decide whether an item can be referred to. The large ones are not decoded."""

    id: Any = None
    type: Any = None
    summary: Raw = _NOTHING
    content: Raw = _NOTHING
    encrypted_content: Raw = _NOTHING

    @property
    def can_be_found(self) -> bool:
        if not isinstance(self.id, str) or self.type in NOT_FOUND_BY_ID:
            return False
        return self.type != "reasoning" or not self.is_empty()

    def is_empty(self) -> bool:
        return bytes(self.content) in _EMPTY and bytes(self.summary) in _EMPTY and bytes(self.encrypted_content) in _EMPTY


_to_heads = msgspec.json.Decoder(list[Head]).decode
_to_head = msgspec.json.Decoder(Head).decode
_to_raw_items = msgspec.json.Decoder(list[Raw]).decode


def item_ids(*lists: bytes) -> list[str]:
    """The ids by which the items of these JSON lists can be found, each once. A list that cannot be read has none."""
    ids: dict[str, None] = {}
    for each in lists:
        try:
            heads = _to_heads(each)
        except UNREADABLE:
            continue
        for head in heads:
            # As `can_be_found`, without a call for each of hundreds of items.
            is_found = isinstance(head.id, str) and head.type not in NOT_FOUND_BY_ID
            if is_found and (head.type != "reasoning" or not head.is_empty()):
                ids[head.id] = None
    return list(ids)


def items_with_ids(ids: Collection[str], *lists: bytes) -> dict[str, bytes]:
    """The items of these JSON lists that have one of these ids. Of several with the same id, the last one."""
    found: dict[str, bytes] = {}
    for each in lists:
        with suppress(*UNREADABLE):
            found |= {id: bytes(item) for item in _to_raw_items(each) if (id := id_of(item)) in ids and id is not None}
    return found


def id_of(item: bytes | Raw) -> str | None:
    """The id by which this item can be found. None: it cannot."""
    with suppress(*UNREADABLE):
        head = _to_head(item)
        if head.can_be_found:
            id: str = head.id
            return id
    return None
