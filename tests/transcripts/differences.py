"""JSON objects as what is different from the one before: requests, chunks and events repeat most of themselves."""

from typing import Any

import msgspec

Body = dict[str, Any]
# Members of a difference: a list that goes on where the old one ended, an object with a difference of its own, an object that
# is stored as it is, and the names of members that are gone.
ADDED, CHANGED, WHOLE, GONE = "+", "~", "=", "-"


def difference(new: Body, old: Body) -> Body:
    """`restored` gives exactly the new object back, byte for byte."""
    found = {
        name: _member(value, old[name]) if name in old else value for name, value in new.items() if not _same(old, name, value)
    }
    if gone := [name for name in old if name not in new]:
        found[GONE] = gone
    return found if encoded(restored(found, old)) == encoded(new) else {WHOLE: new}


def restored(found: Body, old: Body) -> Body:
    if WHOLE in found:
        return dict(found[WHOLE])
    kept = {name: value for name, value in old.items() if name not in found.get(GONE, ())}
    return kept | {name: _restored_member(value, old.get(name)) for name, value in found.items() if name != GONE}


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _same(old: Body, name: str, value: Any) -> bool:
    return name in old and encoded(old[name]) == encoded(value)


def _member(new: Any, old: Any) -> Any:
    if isinstance(new, list) and isinstance(old, list) and old and encoded(new[: len(old)]) == encoded(old):
        return {ADDED: new[len(old) :]}
    if isinstance(new, dict) and isinstance(old, dict):
        return {CHANGED: difference(new, old)}
    return new


def _restored_member(value: Any, old: Any) -> Any:
    match value:
        case {"+": list(added), **rest} if not rest and isinstance(old, list):
            return [*old, *added]
        case {"~": dict(changed), **rest} if not rest and isinstance(old, dict):
            return restored(changed, old)
    return value
