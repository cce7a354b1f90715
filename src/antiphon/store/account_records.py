"""What is stored about the keys of clients and their use: usage, keys made by a command, and messages to webhooks."""

from operator import add
from typing import NamedTuple

from msgspec import Struct

HOUR = 3600
DAY = 24 * HOUR


class Counts(NamedTuple):
    """What was used. Columns have these names and this order."""

    requests: int = 0
    failures: int = 0
    input_tokens: int = 0
    # Of the input tokens, those that the engine had in its cache.
    cached_tokens: int = 0
    output_tokens: int = 0
    # Of the output tokens.
    reasoning_tokens: int = 0
    # Calls in the answers: those of the client's tools, and those that the gateway ran.
    tool_calls: int = 0

    def plus(self, other: "Counts") -> "Counts":
        return Counts._make(map(add, self, other))

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class UsageKind(NamedTuple):
    """Whose usage, of which model, and how the requests came. Usage of one kind is added up."""

    owner: str
    model: str
    channel: str


class UsageEntry(Struct, frozen=True, gc=False):
    """What one request used, or several of one kind together. An entry is written once, however often it is added."""

    # Of the response, if it is stored.
    id: str
    # In seconds since 1970.
    at: int
    kind: UsageKind
    counts: Counts


class UsageSum(NamedTuple):
    """What was used in one bucket of time, which begins here."""

    begins: int
    kind: UsageKind
    counts: Counts


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key that a command has made. The key itself is stored nowhere."""

    hash: str
    # The owner of what it stores.
    name: str
    # Its last characters, by which a person recognises it.
    hint: str
    created_at: int
    # From when on it is refused. None: it has no end.
    ends_at: int | None = None


class KeyState(NamedTuple):
    """All that is stored about keys."""

    # Also those that have ended: a gateway that had keys never becomes one that needs none.
    keys: tuple[StoredKey, ...] = ()
    # By the name of a key, the limits of its budget as JSON.
    limits: tuple[tuple[str, bytes], ...] = ()


class Delivery(Struct, frozen=True):
    """A message to a webhook that has not been accepted yet."""

    # Of the event at this endpoint.
    id: str
    endpoint: str
    created_at: int
    body: bytes
    # How often it was sent.
    attempts: int = 0
