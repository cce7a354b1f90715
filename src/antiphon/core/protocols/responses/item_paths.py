"""The paths of items, as the client knows them: in the body that it sent, or in the history before it."""

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
