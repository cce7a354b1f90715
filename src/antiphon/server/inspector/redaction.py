"""Texts replaced by their lengths: what is left is the structure, and the numbers."""

from typing import Any

import msgspec

from antiphon.core.hosted.rows import HOSTED
from antiphon.core.recording.environment_values import EnvironmentValues
from antiphon.sealing import SEPARATOR, CompactedText, KeptItems, text_to_compacted
from antiphon.server.inspector.rows import hide

# ---- What was in the seals of a request, hidden from all but its owner: the admin key sees requests, and opens no seals ----

HIDDEN = "What was in the seals of another owner is hidden: only its length is shown."


def without_seals(values: EnvironmentValues) -> EnvironmentValues:
    opened = {key: None if text is None else _hidden(text) for key, text in values.opened.items()}
    return msgspec.structs.replace(values, opened=opened)


def _hidden(text: str) -> str:
    """In the same form, so that the exchange can be run again with it."""
    if SEPARATOR not in text:
        return hide(text)
    compacted = text_to_compacted(text)
    kept: dict[str, Any] = redacted(msgspec.to_builtins(compacted.kept))
    return CompactedText(hide(compacted.summary), msgspec.convert(kept, KeptItems)).to_text()


# The members whose texts are no content: kinds, names, ids and states. All other texts are hidden.
KEPT = frozenset(
    """
    type role id object model status call_id tool_call_id item_id response_id previous_response_id name namespace finish_reason
    reason code param effort summary_type verbosity truncation service_tier phase event execution detail reasoning_effort
    server_label approval_request_id require_approval search_context_size container_id
    """.split()
)
# The members that are content to their last leaf.
CONTENT = frozenset(
    """
    metadata client_metadata parameters schema arguments variables environment action input_schema headers results sources
    filters user_location
    """.split()
)
# Those that are content in objects of one type only. Elsewhere `code` is that of an error, for example.
CONTENT_OF = {kind: members for tool in HOSTED for kind, members in tool.content.items()}
# Letters as numbers.
LETTERS = frozenset({"bytes", "tokens"})


TOO_DEEP = "[too deep]"


def redacted(value: Any) -> Any:
    """JSON in, JSON out."""
    try:
        return _redacted(value)
    except RecursionError:
        return TOO_DEEP


def _redacted(value: Any, name: str | None = None, *, is_content: bool = False) -> Any:
    """`name`: of the member that it is."""
    if isinstance(value, str):
        return value if not is_content and name in KEPT else hide(value)
    if name in LETTERS and isinstance(value, list):
        return []
    if isinstance(value, list):
        return [_redacted(each, name, is_content=is_content) for each in value]
    if isinstance(value, dict):
        is_content = is_content or name in CONTENT
        kind = value.get("type")
        own = CONTENT_OF.get(kind, frozenset()) if isinstance(kind, str) else frozenset()
        return {key: _redacted(member, key, is_content=is_content or key in own) for key, member in value.items()}
    return value if not is_content or isinstance(value, bool | None) else 0
