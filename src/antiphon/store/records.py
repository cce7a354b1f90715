"""What is stored: responses, conversations, jobs and events. JSON is stored as bytes, encoded once by the code that made it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol, Self

import msgspec
from msgspec import Raw, Struct, structs

from antiphon.errors import UNREADABLE, InvalidRequest
from antiphon.store.account_records import Delivery, UsageEntry

# The statuses of a response that has not ended.
UNFINISHED = frozenset({"queued", "in_progress"})
# In seconds: how much longer than its responses a deletion is remembered.
DELETION_MARGIN = 86_400


def deletion_expires_at(created_at: int, expires_at: int, now: float) -> int:
    """When the deletion of a response can be forgotten: those that continued it are stored no longer than it was."""
    return int(now) + max(expires_at - created_at, 0) + DELETION_MARGIN


class Record(Struct, frozen=True, kw_only=True):
    """A stored response."""

    id: str
    # The name of the API key that stored it, its hash if it has no name, "" if there are no keys. No other owner can see it.
    owner: str
    created_at: int
    # In seconds, like created_at. From then on it is invisible, and the sweeper removes it.
    expires_at: int
    # The current status; the one in `settings` may be older.
    status: str
    # The previous response, if this one continues it.
    parent: str | None = None
    conversation: str | None = None
    # A JSON list: this response's own input items, each with an id.
    input: bytes = b"[]"
    # A JSON list: its output items.
    output: bytes = b"[]"
    # The response object without its output.
    settings: bytes = b"{}"
    background: bool = False
    # Of a background response that its client does not want stored: for how many seconds it can be read after its end. It
    # cannot be continued, and its items cannot be found. None: of all others.
    kept_after_end: int | None = None
    # Written together with it, and not read again with it: what it has used, and the messages to webhooks about its end. The
    # entry has the id of the response.
    usage: UsageEntry | None = None
    deliveries: tuple[Delivery, ...] = ()
    # The ids by which its input items can be found, and its output items, if who made it knows them. None: they are read from
    # `input` and `output`.
    input_ids: Sequence[str] | None = None
    output_ids: Sequence[str] | None = None

    @property
    def item_ids(self) -> list[str]:
        """By which its items can be found, each once."""
        if self.input_ids is None:
            return item_ids(self.input, self.output)
        output_ids = item_ids(self.output) if self.output_ids is None else self.output_ids
        return list(dict.fromkeys((*self.input_ids, *output_ids)))

    def at_its_end(self, now: float) -> Self:
        """As it is stored when it has ended."""
        if self.kept_after_end is None:
            return self
        return structs.replace(self, expires_at=min(self.expires_at, int(now) + self.kept_after_end))


class Link(Struct, frozen=True, gc=False):
    """What one response adds to the history of those that continue it."""

    id: str
    status: str
    input: bytes
    output: bytes
    parent: str | None
    expires_at: int


class Conversation(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    created_at: int
    expires_at: int
    # A JSON object.
    metadata: bytes = b"{}"


class Item(Struct, frozen=True):
    """An item of a conversation: its id, and the whole item as JSON."""

    id: str
    data: bytes


class Event(Struct, frozen=True, array_like=True):
    """An event of a background response: its sequence number, and its bytes as sent."""

    number: int
    data: bytes


class Pieces(Protocol):
    """Bytes that are too many to have in memory at once. They are made whenever they are iterated over."""

    def __iter__(self) -> Iterator[bytes]: ...

    def __len__(self) -> int:
        """The number of bytes."""


class LongEvent(Struct, frozen=True):
    """An event as it is written, if it is long."""

    number: int
    data: Pieces


class LongEventPlace(Struct, frozen=True):
    """An event that is too long to be read at once: where it is, and its size in bytes."""

    number: int
    attempt: int
    size: int
    # Where it begins in its row.
    start: int


# What the worker does with a job: run it; end it as failed, because its attempts are used up; or end it as cancelled, because
# that was requested and the worker that should have done it is gone.
Purpose = Literal["run", "fail", "cancel"]


class Job(Struct, frozen=True):
    """A background response that a worker has claimed, until its lease expires."""

    record: Record
    # As given to `enqueue`.
    request: bytes
    # Counted from 1. The events of earlier attempts are deleted.
    attempt: int
    purpose: Purpose
    # How many earlier attempts were lost with their workers. Attempts that were given back do not count.
    lost: int = 0
    # As given to `begin_call` in earlier attempts.
    begun_calls: tuple[bytes, ...] = ()


class JobCounts(NamedTuple):
    """Background responses that are not finished, of all gateways."""

    waiting: int
    # By gateways that are gone, too, until another one takes them over.
    running: int


# What is read of events at once, in bytes. A single event may be larger.
PAGE_BYTES = 256 * 1024
# An event of more bytes is read part by part.
LONGEST_EVENT = 1024 * 1024


def fitting(sizes: Iterable[int], most_bytes: int) -> int:
    """How many of these, from the first one on, take no more than so many bytes together. The first one always fits."""
    total = number = 0
    for size in sizes:
        total += size
        if total > most_bytes and number:
            break
        number += 1
    return number


class Progress(Struct, frozen=True):
    """The state of a background response. Each attempt numbers its events from the beginning."""

    status: str
    # 0: no worker has claimed it yet.
    attempt: int
    events: list[Event]
    # There are further events, which were not read: the page was full.
    more: bool = False
    # The next one is too long to be read at once. Then there are no others.
    long: LongEventPlace | None = None


# The outcome of a cancel: "unknown": no such response; "cancelled": it was queued and is cancelled now; "asked": it is running
# and its worker will end it; "over": it had ended already, or is not a background response.
Cancellation = Literal["unknown", "cancelled", "asked", "over"]


class Listed(Struct, frozen=True):
    """A response or conversation in a list of them. What is long is left out."""

    id: str
    owner: str
    created_at: int
    # Of a response.
    status: str | None
    # Of a conversation: how many it has.
    items: int | None
    # As JSON: the list of input items of a response, the first item of a conversation.
    beginning: bytes | None
    # The response object without its output, or the metadata of a conversation.
    settings: bytes | None


class Listing(NamedTuple):
    rows: list[Listed]
    # Where the next page begins. None: this is the last one.
    after: str | None


class ListPlace(NamedTuple):
    """A place in a list, which begins with the newest."""

    created_at: int
    id: str

    @classmethod
    def read(cls, text: str) -> Self:
        created_at, _, id = text.partition(".")
        if not created_at.isdecimal() or len(created_at) > 18 or not id:
            raise InvalidRequest("`after` must be the `last_id` of the page before.", param="after", code="invalid_value")
        return cls(int(created_at), id)

    def __str__(self) -> str:
        return f"{self.created_at}.{self.id}"


# Before everything.
NEWEST = ListPlace(2**62, "")


# ---- how much of the store is searched for one page of a list --------------------------------------------------------
# A search reads rows whole, and other requests need the same database.

ROWS = 500
BYTES = 16 * 1024 * 1024


class SearchBounds(NamedTuple):
    """How many rows and bytes one page of a search reads."""

    rows: int = ROWS
    bytes: int = BYTES


SEARCH_BOUNDS = SearchBounds()
# Of a conversation, the newest are searched: it may have any number of them.
ITEMS = 2000


def searched_rows(sizes: Sequence[int], most_bytes: int) -> int:
    """How many rows, of these sizes, are searched. The first one is, however long it is: the list must go on."""
    return max(1, sum(total <= most_bytes for total in accumulate(sizes)))


# Items that only point to something else, or that mean something to one request only. Nothing can refer to them.
NOT_FOUND_BY_ID = frozenset({"item_reference", "compaction_trigger"})
_EMPTY = (b"", b"null", b"[]", b'""')
_NOTHING = Raw(b"")


class Head(Struct):
    """The members that decide whether an item can be referred to. The large ones are not decoded."""

    id: Any = None
    type: Any = None
    summary: Raw = _NOTHING
    content: Raw = _NOTHING
    encrypted_content: Raw = _NOTHING

    @property
    def can_be_found(self) -> bool:
        if not isinstance(self.id, str) or self.type in NOT_FOUND_BY_ID:
            return False
        return self.type != "reasoning" or not self.is_empty()

    def is_empty(self) -> bool:
        return bytes(self.content) in _EMPTY and bytes(self.summary) in _EMPTY and bytes(self.encrypted_content) in _EMPTY


_to_heads = msgspec.json.Decoder(list[Head]).decode
_to_head = msgspec.json.Decoder(Head).decode
_to_raw_items = msgspec.json.Decoder(list[Raw]).decode


def item_ids(*lists: bytes) -> list[str]:
    """The ids by which the items of these JSON lists can be found, each once. A list that cannot be read has none."""
    ids: dict[str, None] = {}
    for each in lists:
        try:
            heads = _to_heads(each)
        except UNREADABLE:
            continue
        for head in heads:
            # As `can_be_found`, without a call for each of hundreds of items.
            is_found = isinstance(head.id, str) and head.type not in NOT_FOUND_BY_ID
            if is_found and (head.type != "reasoning" or not head.is_empty()):
                ids[head.id] = None
    return list(ids)


def items_with_ids(ids: Collection[str], *lists: bytes) -> dict[str, bytes]:
    """The items of these JSON lists that have one of these ids. Of several with the same id, the last one."""
    found: dict[str, bytes] = {}
    for each in lists:
        with suppress(*UNREADABLE):
            found |= {id: bytes(item) for item in _to_raw_items(each) if (id := id_of(item)) in ids and id is not None}
    return found


def id_of(item: bytes | Raw) -> str | None:
    """The id by which this item can be found. None: it cannot."""
    with suppress(*UNREADABLE):
        head = _to_head(item)
        if head.can_be_found:
            id: str = head.id
            return id
    return None
