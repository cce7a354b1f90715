"""What the seal of a compaction contains: a summary, and the items that are kept word for word.

The summary comes first, as plain text. A seal without anything after it is a summary alone.
"""

from typing import Any

import msgspec
from msgspec import Struct

from antiphon.wire import UNREADABLE

Item = dict[str, Any]

# Ends the summary. No model writes this character.
SEPARATOR = "\x1e"


class KeptItems(Struct):
    """What a compaction keeps as it was."""

    # The leading system and developer messages, for a client that sends nothing of what precedes the compaction.
    instructions: list[Item] = []
    # What the user asked for last, and the newest steps towards it.
    items: list[Item] = []


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
