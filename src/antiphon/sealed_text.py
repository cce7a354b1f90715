"""Sealed text: a client sends it back without being able to read it. The cipher comes in as an argument."""

from collections.abc import Callable
from typing import Any, NamedTuple

Item = dict[str, Any]

# A version in front, so that formats can be distinguished: without an owner, and with one.
PREFIX = "antiphon1."
OWNED_PREFIX = "antiphon2."


class Sealer(NamedTuple):
    """`seal` encrypts a text; `open` decrypts it, or returns None for a blob that is foreign or damaged."""

    seal: Callable[[str], str]
    open: Callable[[str], str | None]


# Where nothing comes back, as in a replay: nothing can be opened.
NO_SEALER = Sealer(lambda text: "", lambda blob: None)


def item_to_sealed(item: Item, seal: Callable[[str], str]) -> Item:
    """A reasoning item with its text sealed too; any other item, and one that has a seal or no text, as it is."""
    if item.get("type") != "reasoning" or item.get("encrypted_content"):
        return item
    # A summary is the thought itself, unless the item has a seal.
    text = _text(item.get("content")) or _text(item.get("summary"))
    return {**item, "encrypted_content": seal(text)} if text else item


def _text(content: Any) -> str:
    """Items may have been stored unchecked, by an earlier version: what cannot be read is left to the converter."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
