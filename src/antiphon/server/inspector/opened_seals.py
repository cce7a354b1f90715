"""What was in the seals of a request, hidden from all but its owner: the admin key sees requests, and opens no seals."""

from typing import Any

import msgspec

from antiphon.compacted_text import (
    SEPARATOR,
    CompactedText,
    KeptItems,
    text_to_compacted,
)
from antiphon.core.recording.drawn_values import Drawn
from antiphon.server.inspector.redaction import redacted
from antiphon.server.inspector.rows import hide

HIDDEN = "What was in the seals of another owner is hidden: only its length is shown."


def without_seals(drawn: Drawn) -> Drawn:
    opened = {key: None if text is None else _hidden(text) for key, text in drawn.opened.items()}
    return msgspec.structs.replace(drawn, opened=opened)


def _hidden(text: str) -> str:
    """In the same form, so that the exchange can be run again with it."""
    if SEPARATOR not in text:
        return hide(text)
    compacted = text_to_compacted(text)
    kept: dict[str, Any] = redacted(msgspec.to_builtins(compacted.kept))
    return CompactedText(hide(compacted.summary), msgspec.convert(kept, KeptItems)).to_text()
