"""Text that only Antiphon reads again: seals, and what the seal of a compaction contains.

The summary comes first, as plain text. A seal without anything after it is a summary alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from antiphon.errors import UNREADABLE

# Ends the summary. No model writes this character.
SEPARATOR = "\x1e"


class KeptItems(Struct):
    """What a compaction keeps as it was."""

    # The leading system and developer messages, for a client that sends nothing of what precedes the compaction.
    instructions: list[dict[str, Any]] = []
    # What the user asked for last, and the newest steps towards it.
    items: list[dict[str, Any]] = []


class CompactedText(Struct):
    summary: str
    kept: KeptItems

    def to_text(self) -> str:
        """What is sealed."""
        return f"{self.summary.replace(SEPARATOR, '')}{SEPARATOR}{msgspec.json.encode(self.kept).decode()}"


def text_to_compacted(text: str) -> CompactedText:
    """What was opened. A client may send the seal of something else, which is a summary then."""
    summary, _, kept = text.partition(SEPARATOR)
    try:
        return CompactedText(summary, msgspec.json.decode(kept, type=KeptItems) if kept else KeptItems())
    except UNREADABLE:
        return CompactedText(text, KeptItems())


# ---- seals -----------------------------------------------------------------------------------------------------------
# A client sends them back without being able to read them. The cipher is an argument.

# A version in front, so that formats can be distinguished: without an owner, and with one.
PREFIX = "antiphon1."
OWNED_PREFIX = "antiphon2."


class Sealer(NamedTuple):
    """`seal` encrypts a text; `open` decrypts it, or returns None for a blob that is foreign or damaged."""

    seal: Callable[[str], str]
    open: Callable[[str], str | None]


# Where nothing comes back, as in a replay: nothing can be opened.
NO_SEALER = Sealer(lambda text: "", lambda blob: None)


def item_to_sealed(item: dict[str, Any], seal: Callable[[str], str]) -> dict[str, Any]:
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
