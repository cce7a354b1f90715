"""Input items that stand for another item, and have only its id: references, reasoning without its text, and calls that made
an image, which clients need not send back. The paths of items, as the client knows them. And addresses, where a part of an item
is.

An item that the prompt contains anyway is not sent twice: what stands for it stays in its place, so that the numbers of the
items are those of the client, and is left out of the prompt.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import compress, repeat
from typing import Any

from antiphon.core.protocols.responses.read import convert
from antiphon.errors import InvalidRequest, quoted
from antiphon.wire.hosted_items import MAY_BE_BARE
from antiphon.wire.input_items import InputItemReference, Item

# ---- What the id of an output item says beside its type --------------------------------------------------------------
# A call that the gateway ran is one item with its result. The items alone do not show whether the model wrote the next one
# beside this call, or after it had seen the result. Both are different messages to an engine, and a longer history has to
# begin with the same messages as a shorter one. So the id of an item says so, which clients send back and stores keep.

_BESIDE = "_beside"


def beside_id(id: str) -> str:
    """Of an item that the model wrote in the same answer as a call before it that the gateway runs."""
    return id + _BESIDE


def is_beside(id: Any) -> bool:
    """`id`: as a client sent it. Without one, the model has seen the result."""
    return isinstance(id, str) and id.endswith(_BESIDE)


_STORED = "history["


def item_path(at: int, earlier: int, own: str = "input") -> str:
    """`earlier`: how many of the items were stored before. `own`: the name of the list that the client sent."""
    return f"{own}[{at - earlier}]" if at >= earlier else f"{_STORED}{at}]"


def item_paths(count: int, earlier: int, own: str = "input") -> list[str]:
    """Those of so many items: the same as `item_path()`, at once."""
    if not earlier:
        return [f"{own}[{at}]" for at in range(count)]
    stored = min(earlier, count)
    return [*[f"{_STORED}{at}]" for at in range(stored)], *[f"{own}[{at}]" for at in range(count - stored)]]


def is_stored(path: str) -> bool:
    """What was stored was accepted once. A fault in it is not the client's to correct: it is left out, with a notice."""
    return path.startswith(_STORED)


def is_address(url: str) -> bool:
    """Something has to be fetched from it."""
    return url[:8].lower().startswith(("http://", "https://"))


# The types of items that may stand for another one. Items of all other types stand for themselves.
STAND_INS = frozenset({"item_reference", "reasoning", *MAY_BE_BARE})


_MAY_STAND = frozenset({*STAND_INS, None})


def stands_for(item: Item) -> str | None:
    """The id of the item that this one stands for. None: it stands for itself."""
    kind = item.get("type")
    if isinstance(kind, str) and kind not in STAND_INS:
        return None
    if kind == "reasoning":
        is_meant = not (item.get("content") or item.get("encrypted_content") or item.get("summary"))
    else:
        is_meant = _is_bare(item) or is_reference(item)
    id = item.get("id")
    return id if is_meant and isinstance(id, str) else None


def may_stand_for_others(items: Sequence[Item]) -> list[Item]:
    """The items whose type alone does not say that they stand for themselves: most requests have none."""
    with suppress(TypeError):
        # Without a step of Python for each item: long histories are looked through several times.
        return list(compress(items, map(_MAY_STAND.__contains__, map(dict.get, items, repeat("type")))))
    return [item for item in items if not isinstance(kind := item.get("type"), str) or kind in STAND_INS]


def is_reference(item: Item) -> bool:
    """`type` may be left out, if there is only an id."""
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and item.keys() <= {"id", "type"})


def _is_bare(item: Item) -> bool:
    """A call of a tool of the gateway that has only its id."""
    return item.keys() <= {"type", "id"} and item.get("type") in MAY_BE_BARE


def whole_items(items: Sequence[Item]) -> Sequence[Item]:
    """The items that stand for themselves."""
    if all(stands_for(item) is None for item in may_stand_for_others(items)):
        return items
    return [item for item in items if stands_for(item) is None]


def whole_ids(*lists: Iterable[Item]) -> set[str]:
    """The ids of the items that stand for themselves."""
    return {item["id"] for items in lists for item in items if isinstance(item.get("id"), str) and stands_for(item) is None}


def unresolved(history: Sequence[Item], own: Sequence[Item]) -> list[str]:
    """The ids that the request's own items stand for, and that are neither there nor in the history, each once."""
    if not (suspects := may_stand_for_others(own)):
        return []
    wanted = dict.fromkeys(id for item in suspects if (id := stands_for(item)) is not None)
    if not wanted:
        return []
    known = whole_ids(history, own)
    return [id for id in wanted if id not in known]


def resolved(history: Sequence[Item], own: Sequence[Item], found: Mapping[str, Item] | None = None) -> list[Item]:
    """The request's own items, with the found ones in the place of what stands for them.

    A reference that leads nowhere is an error.
    """
    if not any(is_reference(item) or stands_for(item) is not None for item in may_stand_for_others(own)):
        return list(own)
    known: set[str] | None = None
    items: list[Item] = []
    for at, item in enumerate(own):
        if isinstance(kind := item.get("type"), str) and kind not in STAND_INS:
            items.append(item)
            continue
        if is_reference(item):
            convert(item, InputItemReference, f"input[{at}]")
        if (id := stands_for(item)) is not None:
            known = whole_ids(history, own) if known is None else known
            item = _resolved(id, item, known, found or {}, f"input[{at}].id")
        items.append(item)
    return items


def _resolved(id: str, item: Item, known: set[str], found: Mapping[str, Item], param: str) -> Item:
    if id not in known and id in found:
        known.add(id)
        return found[id]
    if id not in known and is_reference(item):
        raise InvalidRequest(f"Item {quoted(id)} not found.", param=param, code="item_not_found")
    return item


def unresolved_to_notice(item: Item, where: str) -> str | None:
    """Why what stands for another item is left out, although the other one is not sent."""
    if is_reference(item):
        return f"{where}: item {item['id']!r} is no longer stored, and was left out"
    if is_stored(where):
        # Stored reasoning without a text has never had one.
        return None
    if _is_bare(item):
        return f"{where}: {item['type']} {item['id']!r} is not stored here, and was left out"
    return f"{where}: the text of reasoning item {item['id']!r} is not stored here, and was left out"
