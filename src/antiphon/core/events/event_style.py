"""How the events of a response look: what the request and the settings ask for."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct, structs

from antiphon.sealing import NO_SEALER, KeptItems
from antiphon.wire import events
from antiphon.wire.responses import Logprob

# A delta is padded to a multiple of this many characters, so that its length on the wire does not reveal the token.
PADDED_TO = 16
NO_CONTAINERS: Mapping[str, str] = {}
NOTHING_INCLUDED: frozenset[str] = frozenset()


class ReasoningEvents(NamedTuple):
    """Raw reasoning has two names: the SDK's and Codex's, and the Open Responses document's."""

    delta: type[events.ReasoningTextDelta] | type[events.ReasoningDelta]
    done: type[events.ReasoningTextDone] | type[events.ReasoningDone]


REASONING_TEXT = ReasoningEvents(events.ReasoningTextDelta, events.ReasoningTextDone)
REASONING = ReasoningEvents(events.ReasoningDelta, events.ReasoningDone)
REASONING_EVENTS = {"reasoning_text": REASONING_TEXT, "reasoning": REASONING}


class EventStyle(Struct, frozen=True):
    # A thought is sent as a summary, not as raw text.
    summary: bool = False
    logprobs: bool = False
    # The alternatives of each token that are shown. Engines choose a number of their own if none was asked for.
    top_logprobs: int = 0
    padding: str | None = None
    # Encrypts what only Antiphon reads again: thoughts, and the summary of a compaction.
    seal: Callable[[str], str] = NO_SEALER.seal
    # Every thought is sealed. Otherwise only one that the item does not show exactly.
    seals_reasoning: bool = False
    # The answer is one sealed summary of the conversation, and `kept` is sealed with it.
    compacts: bool = False
    kept: Callable[[], KeptItems] = KeptItems
    reasoning_events: ReasoningEvents = REASONING_TEXT
    # What the request's `include` names.
    included: frozenset[str] = NOTHING_INCLUDED
    # The containers that code runs in, by the types of their tools.
    containers: Mapping[str, str] = NO_CONTAINERS

    @property
    def plain(self) -> bool:
        """Deltas carry their text and nothing else."""
        return self.padding is None and not self.logprobs

    def shown_logprobs(self, logprobs: list[Logprob] | None) -> list[Logprob]:
        if not logprobs or not self.logprobs:
            return []
        most = self.top_logprobs
        return [
            each if len(each.top_logprobs) <= most else structs.replace(each, top_logprobs=each.top_logprobs[:most])
            for each in logprobs
        ]

    def obfuscation(self, delta: str) -> str | msgspec.UnsetType:
        if self.padding is None:
            return UNSET
        return self.padding[: PADDED_TO - len(delta) % PADDED_TO]
