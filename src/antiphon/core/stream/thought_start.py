"""Where an answer begins: inside a thought that the chat template has opened, outside of one, or it is not known."""

from enum import Enum

from msgspec import UNSET

from antiphon.core.checks.constraints import is_free_text
from antiphon.core.knowledge.dialect import Dialect
from antiphon.wire.chat import ChatRequest


class Start(Enum):
    # Enum's own is written in Python, and members are looked up for every delta.
    __hash__ = object.__hash__

    UNKNOWN = "not known: text is emitted as it arrives"
    INSIDE = "the template has opened the thought: text belongs to it until it is closed"
    INSIDE_PATIENT = "the same, and no client is waiting: it is buffered until the thought is closed, or turns out to be text"
    NEVER = "the answer is constrained to JSON from its first token on: nothing in it is a thought"
    PATIENT = "not known, and no client is waiting for text: it is buffered until it is known"


def thought_start(chat: ChatRequest, dialect: Dialect, *, is_seen: bool) -> Start:
    """`is_seen`: somebody sees the answer while it is written."""
    # A constrained answer, or one without thinking, does not begin inside a thought.
    if chat.grammar is not UNSET and not is_free_text(chat, dialect):
        return Start.NEVER
    constrained = chat.response_format is not UNSET or not dialect.thinks or chat.reasoning_effort == "none"
    if dialect.opens_thought and not constrained:
        return Start.INSIDE if is_seen else Start.INSIDE_PATIENT
    return Start.UNKNOWN if is_seen else Start.PATIENT
