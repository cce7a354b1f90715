"""What every store does, whatever it is made of."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from antiphon.store.records import Cancellation, Conversation, Event, Item, Job, Link, Progress, Record
from antiphon.store.wakeups import Bell


class CannotOpen(Exception):
    """The store cannot be used at all; the message says why, and what would mend it."""


class IdTaken(Exception):
    """Ids are made at random: one that is there already is a bug of the caller."""


class Store(Protocol):
    """Each method is atomic: it happens wholly or not at all, and others see all of it or nothing.

    What a method has written is durable when it returns: it survives the death of the gateway (but for `memory:`, which is the
    gateway's own memory). Whatever has an owner is seen, continued, changed and deleted by that owner alone; to all others it
    is not there. Nor is what has expired, swept or not. A store that cannot be reached, or that does not answer in time, raises
    StoreUnavailable; a write that failed so may have happened all the same.

    Leases are spans, in seconds: the store's own clock begins and ends them (Postgres: the server's), so that gateways whose
    clocks differ agree.
    """

    # --- Responses

    async def put(self, record: Record) -> None:
        """Keep a response that is over: it does not change from then on. Many at once share one transaction. Raises IdTaken."""

    async def get(self, owner: str, id: str) -> Record | None: ...

    async def delete(self, owner: str, id: str) -> bool:
        """With its job and its events. False: there is none. Those that continue it begin behind it from then on."""

    async def chain(self, owner: str, id: str) -> list[Link]:
        """From the first response to this one. Empty: there is none. Behind a parent that is gone, the chain begins."""

    # --- Conversations

    async def create_conversation(self, conversation: Conversation, items: Sequence[Item] = ()) -> None:
        """Raises IdTaken."""

    async def get_conversation(self, owner: str, id: str) -> Conversation | None: ...

    async def set_metadata(self, owner: str, id: str, metadata: bytes) -> Conversation | None:
        """The conversation as it is then. None: there is none."""

    async def delete_conversation(self, owner: str, id: str) -> bool:
        """With its items; its responses stay. Gone at once for everyone; the rows of a long one go little by little."""

    async def add_items(self, owner: str, conversation: str, items: Sequence[Item], expires_at: int = 0) -> bool:
        """Append them. An item whose id is there already is replaced where it stands. False: there is no such conversation.

        The conversation expires no earlier than `expires_at`.
        """

    async def list_items(
        self,
        owner: str,
        conversation: str,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int = 20,
        ascending: bool = False,
    ) -> list[Item] | None:
        """At most `limit` items in the order asked for: those that follow `after`, or those that lead up to `before`.

        None: there is no such conversation. A cursor that is not among its items is an InvalidRequest.
        """

    async def conversation_items(self, owner: str, conversation: str) -> list[Item] | None:
        """All, in order. None: there is no such conversation."""

    async def get_item(self, owner: str, conversation: str, id: str) -> Item | None: ...

    async def delete_item(self, owner: str, conversation: str, id: str) -> bool: ...

    async def lock_conversation(self, owner: str, conversation: str, response: str, lease: float) -> bool:
        """At most one response at a time may answer in a conversation. Whose turn it is may take it again, for longer.

        False: it is another's turn, or there is no such conversation.
        """

    async def unlock_conversation(self, owner: str, conversation: str, response: str) -> bool:
        """Give the turn back, if it is this response's. False: it is not."""

    async def put_and_unlock(self, record: Record, items: Sequence[Item]) -> bool:
        """Put the record, append the items to its conversation, and give the turn back: all or nothing.

        The conversation then lives as long as the record. False, and nothing is written: the conversation is gone, or the
        turn is no longer this response's. A turn that ran out and that nobody took still is. Raises IdTaken.
        """

    # --- Background

    async def enqueue(self, record: Record, request: bytes) -> None:
        """Keep a response that is still to be made, and wake a worker. `request` comes back in the Job. Raises IdTaken."""

    async def claim(self, worker: str, lease: float, most_attempts: int) -> Job | None:
        """The response that has waited longest, or whose worker let its lease run out. It goes to one worker only.

        Its status becomes `in_progress`, if it is to be run. Events of earlier attempts are gone. None: nothing is to be done.
        One of which `most_attempts` were lost is not to be run again.
        """

    async def renew(self, worker: str, ids: Sequence[str], lease: float) -> dict[str, bool]:
        """Those of the ids that this worker still holds, and of each whether it is to be cancelled.

        A lease that has run out is held until another worker claims the job.
        """

    async def give_back(self, worker: str, ids: Sequence[str]) -> None:
        """Those of the ids that this worker holds wait again, as if nobody had begun them, and a worker is woken.

        Only the number of the attempt stays used: followers tell attempts apart by it.
        """

    async def append_events(self, id: str, worker: str, attempt: int, events: Sequence[Event]) -> bool:
        """Keep them and wake the followers. False, and nothing is written: the lease is lost."""

    async def events(self, owner: str, id: str, after: int = -1) -> Progress | None:
        """The events of the current attempt with numbers above `after`, and the status as of these. None: no such response."""

    async def finish(
        self, record: Record, worker: str, attempt: int, events: Sequence[Event], items: Sequence[Item] = ()
    ) -> bool:
        """Keep the last events and the final record, end the job, and wake the followers.

        In a conversation, the items are appended and the turn is given back as by `put_and_unlock`; where that is no longer
        possible, the rest happens all the same. False, and nothing is written: the lease is lost.
        """

    async def cancel(self, owner: str, id: str) -> Cancellation:
        """One that waits is cancelled at once; one that runs is marked, which its worker hears from `renew`.

        Its bell rings in either case, so a worker that follows its own jobs can ask at once.
        """

    # --- Waiting. Hang the bell, then look, then wait: so nothing is missed.

    def follow(self, id: str) -> AbstractContextManager[Bell]:
        """A bell that rings when a background response was claimed or given back, told of, finished or deleted.

        It rings too when one is to be cancelled.
        """

    def follow_jobs(self) -> AbstractContextManager[Bell]:
        """A bell that rings when there may be something to claim."""

    # --- Housekeeping

    async def sweep(self) -> int:
        """Remove what has expired, in small transactions that hold nobody up. How many responses and conversations it was."""

    async def shrink(self, most_bytes: int) -> int:
        """Remove what would expire next until the rest fits, but nothing that is being worked on. How many it was."""
