"""Where an answer begins: inside a thought that the template has opened, outside of one, or nobody knows."""

from msgspec import UNSET

from antiphon.core.checks.constraints import is_free_text
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.stream.think_tags import Start
from antiphon.wire.chat import ChatRequest


def thought_start(chat: ChatRequest, dialect: Dialect, *, is_seen: bool) -> Start:
    """`is_seen`: somebody sees the answer while it is written."""
    # A constrained answer, or one without thinking, does not begin inside a thought.
    if chat.grammar is not UNSET and not is_free_text(chat, dialect):
        return Start.NEVER
    constrained = chat.response_format is not UNSET or not dialect.thinks or chat.reasoning_effort == "none"
    if dialect.opens_thought and not constrained:
        return Start.INSIDE if is_seen else Start.INSIDE_PATIENT
    return Start.UNKNOWN if is_seen else Start.PATIENT
