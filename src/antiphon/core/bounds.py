"""Schemas with an end to everything, so that a weak model stays within its tokens."""

from typing import Any

from antiphon.core.schemas import with_inner

# A token is some four characters of a text. With half of that, what is bounded so ends well before the tokens do.
CHARACTERS_PER_TOKEN = 2
TOKENS_PER_ITEM = 8
SHORTEST = 32


def bounded(schema: Any, tokens: int | None) -> Any:
    """The schema with an end to every string and list that has none, so that an answer is whole before its tokens run out.

    A weak model may ramble in a string without end: cut off there, its answer is worth nothing.
    """
    if tokens is None:
        return schema
    count = max(1, _count_endless(schema))
    return _with_ends(schema, max(SHORTEST, CHARACTERS_PER_TOKEN * tokens // count), max(1, tokens // TOKENS_PER_ITEM // count))


def _is_endless(schema: Any, kind: str, end: str) -> bool:
    if not isinstance(schema, dict) or schema.keys() & {end, "enum", "const", "pattern", "format"}:
        return False
    kinds = schema.get("type")
    return kinds == kind or (isinstance(kinds, list) and kind in kinds)


def _count_endless(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    counts = [int(_is_endless(schema, "string", "maxLength")) + int(_is_endless(schema, "array", "maxItems"))]
    with_inner(schema, lambda inner: counts.append(_count_endless(inner)))
    return sum(counts)


def _with_ends(schema: Any, characters: int, items: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    ended = with_inner(schema, lambda inner: _with_ends(inner, characters, items))
    if _is_endless(schema, "string", "maxLength"):
        ended["maxLength"] = max(characters, schema.get("minLength", 0))
    if _is_endless(schema, "array", "maxItems"):
        ended["maxItems"] = max(items, schema.get("minItems", 0))
    return ended
