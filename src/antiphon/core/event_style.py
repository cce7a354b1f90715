"""How a response is told: what the request asks of its events, and the short way for most of a stream's pieces."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from antiphon.core.deltas import Delta
from antiphon.wire import events
from antiphon.wire.events import Event

# Pads a delta so that its length on the wire does not betray the token: a multiple of this many characters.
PADDED_TO = 16


class ReasoningEvents(NamedTuple):
    """Raw reasoning has two names: the SDK's and Codex's, and the Open Responses document's."""

    delta: type[events.ReasoningTextDelta] | type[events.ReasoningDelta]
    done: type[events.ReasoningTextDone] | type[events.ReasoningDone]


REASONING_TEXT = ReasoningEvents(events.ReasoningTextDelta, events.ReasoningTextDone)
REASONING = ReasoningEvents(events.ReasoningDelta, events.ReasoningDone)


@dataclass(frozen=True, slots=True)
class Style:
    """How this response is to be told: what the request and the settings ask for."""

    summary: bool = False
    logprobs: bool = False
    padding: str | None = None
    # Seals the reasoning, where that was asked for, and the summary that a compaction is.
    seal: Callable[[str], str] | None = None
    compacts: bool = False
    reasoning_events: ReasoningEvents = REASONING_TEXT

    @property
    def plain(self) -> bool:
        """Deltas carry their text and nothing else."""
        return self.padding is None and not self.logprobs

    def obfuscation(self, delta: str) -> str | msgspec.UnsetType:
        if self.padding is None:
            return UNSET
        return self.padding[: PADDED_TO - len(delta) % PADDED_TO]


Encode = Callable[[Event], bytes]

# Stands for the text in a template; no JSON writer leaves it as it is, so it is found again by its encoded form.
MARK = "\x00mark\x00"
ENCODED_MARK = b'"\\u0000mark\\u0000"'
encode_text = msgspec.json.Encoder().encode


class Template(NamedTuple):
    """The encoded form of a delta event, but for its text and its number: both are spliced in."""

    head: bytes
    tail: bytes


def event_to_template(event: Event, encode: Encode) -> Template:
    """The event's delta is MARK, and its number, the last of its members, is -1."""
    head, _, tail = encode(event).partition(ENCODED_MARK)
    return Template(head, tail.replace(b"%", b"%%").replace(b"-1", b"%d"))


class Lane:
    """Where the next piece of the same kind goes: kept, and told by these templates. A call has an index too."""

    __slots__ = ("index", "kind", "pieces", "templates")

    def __init__(self, kind: type[Delta], pieces: list[str], *templates: Template, index: int | None = None) -> None:
        self.kind = kind
        self.index = index
        self.pieces = pieces
        self.templates = templates
