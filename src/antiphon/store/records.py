"""What is kept: responses, conversations, jobs and events. JSON is bytes, encoded once by whoever made it."""

from typing import Literal

from msgspec import Struct

# The statuses of a response that is not over.
UNFINISHED = frozenset({"queued", "in_progress"})


class Record(Struct, frozen=True, kw_only=True):
    """A stored response."""

    id: str
    # Who stored it: a hash of the API key, "" where there are no keys. Nobody else can see it.
    owner: str
    created_at: int
    # In seconds, like created_at. From then on it is not found, and the sweeper removes it.
    expires_at: int
    # The one that counts: whatever status stands in `settings` is as old as they are.
    status: str
    # The previous response, if this one continues it.
    parent: str | None = None
    conversation: str | None = None
    # A list: this response's own input items, each with an id.
    input: bytes = b"[]"
    # A list: its output items.
    output: bytes = b"[]"
    # The response object without its output.
    settings: bytes = b"{}"
    background: bool = False


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
    # An object.
    metadata: bytes = b"{}"


class Item(Struct, frozen=True):
    """An item of a conversation: its id, and all of it as JSON."""

    id: str
    data: bytes


class Event(Struct, frozen=True, array_like=True):
    """An event of a background response, as it is sent: its sequence number, and its bytes."""

    number: int
    data: bytes


# What is to be done with a job: run it; tell that it failed, because its attempts are used up; tell that it was cancelled,
# because that was asked for and the worker that should have done so is gone.
Purpose = Literal["run", "fail", "cancel"]


class Job(Struct, frozen=True):
    """A background response in the hands of a worker, until its lease runs out."""

    record: Record
    # What `enqueue` was given.
    request: bytes
    # From 1. The attempts before it are void, and their events gone.
    attempt: int
    purpose: Purpose
    # How many attempts before it were lost with their workers. Those that were given back were not.
    lost: int = 0


class Progress(Struct, frozen=True):
    """How far a background response has come. A new attempt numbers its events from the beginning."""

    status: str
    # 0: no worker has had it yet.
    attempt: int
    events: list[Event]


# What became of the wish to cancel: there is no such response; it was waiting and is cancelled now; its worker will be told;
# it was over already, or is no background response.
Cancellation = Literal["unknown", "cancelled", "asked", "over"]
