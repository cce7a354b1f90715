"""The paths of items, as the client knows them: in the body that it sent, or in the history before it."""

from typing import Any

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
