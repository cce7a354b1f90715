"""Any sequence of operations has the same results in every store as in the simplest model of one."""

import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec import structs
from support.postgres import PostgresServer
from support.store_model import TAKEN, Model
from support.store_writers import until_writer_is_used, writer_thread
from support.stores import Clock, conversation, events, item, queued, record

from antiphon.store import IdTaken, Store, open_store
from antiphon.store.records import Item

OWNERS = ("ada", "bob")
RESPONSES = ("r0", "r1", "r2", "r3")
CONVERSATIONS = ("c0", "c1")
ITEMS = ("i0", "i1", "i2", "i3")
WORKERS = ("w0", "w1")
LEASE = 10.0
FOUND = (*ITEMS, *(f"in_{id}" for id in RESPONSES), *(f"out_{id}" for id in RESPONSES), "nowhere")
TABLES = ("responses", "response_items", "deleted_responses", "conversations", "items", "jobs", "events")

owners = st.sampled_from(("ada", "ada", "ada", "bob"))
responses = st.sampled_from(RESPONSES)
conversations = st.sampled_from(CONVERSATIONS)
item_ids = st.sampled_from(ITEMS)
own_ids = st.lists(item_ids, unique=True, max_size=2)
item_lists = st.lists(st.builds(item, item_ids, st.sampled_from("ab")), max_size=4)
workers = st.sampled_from(WORKERS)
lifetimes = st.sampled_from([5, 30, 1000])
# Of responses that are not to be stored.
kept = st.sampled_from([None, None, 3, 20])
attempts = st.integers(1, 3)
choices = st.integers(0, 5)


STEPS = ("claim", "claim", "append", "append", "expire", "expire", "give_back", "lock", "finish", "cancel", "sweep")


class StoreMachine(RuleBasedStateMachine):
    # Opens an empty store twice: what is written through one is read through the other. Set for each kind of store below.
    open_empty: Callable[[AsyncExitStack, Clock], Awaitable[tuple[Store, Store]]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.model = Model(self.clock)
        self.stack = AsyncExitStack()
        self.numbers = itertools.count()
        self.stores = itertools.cycle(self.runner.run(self._open()))

    async def _open(self) -> tuple[Store, Store]:
        return await type(self).open_empty(self.stack, self.clock)

    @property
    def store(self) -> Store:
        """The two stores in alternation."""
        return next(self.stores)

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def expires(self, lifetime: int) -> int:
        return int(self.clock.now) + lifetime

    def check(self, operation: Awaitable[object], expected: object) -> None:
        # No two writes happen at the same moment: so it is always clear which is the last one.
        self.clock.forward(1 / 1024)

        async def outcome() -> object:
            try:
                return await operation
            except IdTaken:
                return TAKEN

        assert self.runner.run(outcome()) == expected

    @rule(seconds=st.sampled_from([1, 4, 10, 100]))
    def time_passes(self, seconds: int) -> None:
        self.clock.forward(seconds)

    def without_cycle(self, id: str, parent: str | None) -> str | None:
        """A parent is always older than its response. The order of a chain that contains a cycle is not defined."""
        ancestor = parent
        while ancestor is not None and ancestor != id:
            ancestor = self.model.records[ancestor].parent if ancestor in self.model.records else None
        return parent if ancestor is None else None

    def output(self, ids: list[str]) -> bytes:
        """Output items with these ids, each with a content of its own."""
        return msgspec.json.encode([{"id": id, "text": str(next(self.numbers))} for id in ids])

    @rule(id=responses, owner=owners, parent=responses | st.none(), lifetime=lifetimes, items=own_ids)
    def put(self, id: str, owner: str, parent: str | None, lifetime: int, items: list[str]) -> None:
        members = {"parent": self.without_cycle(id, parent), "output": self.output(items)}
        fresh = record(id, owner, expires_at=self.expires(lifetime), **members)
        self.check(self.store.put(fresh), self.model.put(fresh))

    @rule(id=responses, owner=owners)
    def delete(self, id: str, owner: str) -> None:
        self.check(self.store.delete(owner, id), self.model.delete(owner, id))

    @rule(ids=st.lists(responses, unique=True), owner=owners, lifetime=lifetimes)
    def keep_until(self, ids: list[str], owner: str, lifetime: int) -> None:
        until = self.expires(lifetime)
        self.check(self.store.keep_until(owner, ids, until), self.model.keep_until(owner, ids, until))

    @rule(id=conversations, owner=owners, items=item_lists, lifetime=lifetimes)
    def create_conversation(self, id: str, owner: str, items: list[Item], lifetime: int) -> None:
        fresh = conversation(id, owner, expires_at=self.expires(lifetime))
        self.check(self.store.create_conversation(fresh, items), self.model.create_conversation(fresh, items))

    @rule(id=conversations, owner=owners)
    def delete_conversation(self, id: str, owner: str) -> None:
        self.check(self.store.delete_conversation(owner, id), self.model.delete_conversation(owner, id))

    @rule(id=conversations, owner=owners, items=item_lists)
    def add_items(self, id: str, owner: str, items: list[Item]) -> None:
        self.check(self.store.add_items(owner, id, items), self.model.add_items(owner, id, items))

    @rule(id=conversations, owner=owners, item=item_ids)
    def delete_item(self, id: str, owner: str, item: str) -> None:
        self.check(self.store.delete_item(owner, id, item), self.model.delete_item(owner, id, item))

    @rule(id=conversations, owner=owners, response=responses)
    def lock_conversation(self, id: str, owner: str, response: str) -> None:
        self.check(
            self.store.lock_conversation(owner, id, response, LEASE), self.model.lock_conversation(owner, id, response, LEASE)
        )

    @rule(id=conversations, owner=owners, response=responses)
    def unlock_conversation(self, id: str, owner: str, response: str) -> None:
        self.check(self.store.unlock_conversation(owner, id, response), self.model.unlock_conversation(owner, id, response))

    @rule(id=responses, owner=owners, conversation_id=conversations, items=item_lists)
    def put_and_unlock(self, id: str, owner: str, conversation_id: str, items: list[Item]) -> None:
        final = record(id, owner, conversation=conversation_id, expires_at=self.expires(30))
        self.check(self.store.put_and_unlock(final, items), self.model.put_and_unlock(final, items))

    @rule(
        id=responses,
        owner=owners,
        conversation_id=conversations | st.none(),
        lifetime=lifetimes,
        kept=kept,
        parent=responses | st.none(),
    )
    def enqueue(
        self, id: str, owner: str, conversation_id: str | None, lifetime: int, kept: int | None, parent: str | None = None
    ) -> None:
        members = {"conversation": conversation_id, "parent": self.without_cycle(id, parent), "kept_after_end": kept}
        fresh = queued(id, owner, expires_at=self.expires(lifetime), **members)
        self.check(self.store.enqueue(fresh, b"request"), self.model.enqueue(fresh, b"request"))

    @rule(worker=workers)
    def claim(self, worker: str) -> None:
        self.check(self.store.claim(worker, LEASE, 2), self.model.claim(worker, LEASE, 2))

    @rule(worker=workers, ids=st.lists(responses, unique=True))
    def renew(self, worker: str, ids: list[str]) -> None:
        self.check(self.store.renew(worker, ids, LEASE), self.model.renew(worker, ids, LEASE))

    @rule(worker=workers, ids=st.lists(responses, unique=True))
    def give_back(self, worker: str, ids: list[str]) -> None:
        self.check(self.store.give_back(worker, ids), self.model.give_back(worker, ids))

    def claimed_job(self, choice: int) -> tuple[str, str, int]:
        """A job that a worker has claimed: its id, its worker, its attempt."""
        jobs = sorted((id, job.worker, job.attempt) for id, job in self.model.jobs.items() if job.worker is not None)
        return jobs[choice % len(jobs)]

    @precondition(lambda self: any(job.worker is not None for job in self.model.jobs.values()))
    @rule(choice=choices, late=st.integers(0, 1))
    def append_to_a_claimed_job(self, choice: int, late: int) -> None:
        id, worker, attempt = self.claimed_job(choice)
        appended = events(next(self.numbers), next(self.numbers))
        self.check(
            self.store.append_events(id, worker, attempt - late, appended),
            self.model.append_events(id, worker, attempt - late, appended),
        )

    @precondition(lambda self: any(job.worker is not None for job in self.model.jobs.values()))
    @rule(choice=choices, late=st.integers(0, 1), items=item_lists)
    def finish_a_claimed_job(self, choice: int, late: int, items: list[Item]) -> None:
        id, worker, attempt = self.claimed_job(choice)
        final = structs.replace(self.model.records[id], status="completed", output=self.output(["i1"]))
        appended = events(next(self.numbers))
        self.check(
            self.store.finish(final, worker, attempt - late, appended, items),
            self.model.finish(final, worker, attempt - late, appended, items),
        )

    @rule(
        id=responses,
        conversation_id=conversations,
        lifetime=lifetimes,
        kept=kept,
        steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=10),
    )
    def one_job_takes_many_steps(
        self, id: str, conversation_id: str, lifetime: int, kept: int | None, steps: list[str]
    ) -> None:
        """Sequences that single random steps reach too seldom."""
        self.delete(id, "ada")
        self.create_conversation(conversation_id, "ada", [], 1000)
        self.enqueue(id, "ada", conversation_id, lifetime, kept)
        for number, step in enumerate(steps):
            if step == "expire":
                self.time_passes(int(LEASE))
            elif step == "claim":
                self.claim(WORKERS[number % 2])
            elif step == "give_back":
                for worker in WORKERS:
                    self.give_back(worker, [id])
            elif step == "lock":
                self.lock_conversation(conversation_id, "ada", id)
            elif step == "cancel":
                self.cancel(id, "ada")
            elif step == "sweep":
                self.sweep()
            elif any(job.worker is not None for job in self.model.jobs.values()):
                (self.append_to_a_claimed_job if step == "append" else self.finish_with_items)(number, 0)
            self.every_owner_sees_what_the_model_shows()

    def finish_with_items(self, choice: int, late: int) -> None:
        self.finish_a_claimed_job(choice, late, [item("i0", str(choice))])

    @precondition(lambda self: self.model.conversations)
    @rule(choice=choices, response=responses, items=item_lists, seconds=st.sampled_from([0, 5, 15]))
    def lock_and_put_and_unlock(self, choice: int, response: str, items: list[Item], seconds: int) -> None:
        conversation_id = sorted(self.model.conversations)[choice % len(self.model.conversations)]
        stored = self.model.conversations[conversation_id].stored
        self.lock_conversation(conversation_id, stored.owner, response)
        self.clock.forward(seconds)
        other = RESPONSES[choice % len(RESPONSES)]
        self.lock_conversation(conversation_id, stored.owner, other)
        final = record(response, stored.owner, conversation=conversation_id, expires_at=self.expires(30))
        self.check(self.store.put_and_unlock(final, items), self.model.put_and_unlock(final, items))
        self.lock_conversation(conversation_id, stored.owner, other)

    @rule(id=responses, worker=workers, attempt=attempts, number=st.integers(1, 3))
    def append_events(self, id: str, worker: str, attempt: int, number: int) -> None:
        appended = events(*(next(self.numbers) for _ in range(number)))
        self.check(
            self.store.append_events(id, worker, attempt, appended), self.model.append_events(id, worker, attempt, appended)
        )

    @rule(
        id=responses,
        owner=owners,
        worker=workers,
        attempt=attempts,
        conversation_id=conversations | st.none(),
        items=item_lists,
    )
    def finish(self, id: str, owner: str, worker: str, attempt: int, conversation_id: str | None, items: list[Item]) -> None:
        final = structs.replace(record(id, owner), conversation=conversation_id, expires_at=self.expires(30))
        appended = events(next(self.numbers))
        self.check(
            self.store.finish(final, worker, attempt, appended, items),
            self.model.finish(final, worker, attempt, appended, items),
        )

    @rule(id=responses, owner=owners)
    def cancel(self, id: str, owner: str) -> None:
        self.check(self.store.cancel(owner, id), self.model.cancel(owner, id))

    @rule()
    def sweep(self) -> None:
        self.check(self.store.sweep(), self.model.sweep())

    @rule(owner=owners, id=responses, after=st.integers(-1, 40))
    def read_events(self, owner: str, id: str, after: int) -> None:
        self.check(self.store.events(owner, id, after), self.model.events(owner, id, after))

    @invariant()
    def every_owner_sees_what_the_model_shows(self) -> None:
        self.runner.run(self._compare())

    async def _compare(self) -> None:
        for owner, id in itertools.product(OWNERS, RESPONSES):
            assert await self.store.events(owner, id) == self.model.events(owner, id, -1)
            assert await self.store.get(owner, id) == self.model.get(owner, id)
            chain = [(link.id, link.status, link.output) for link in await self.store.chain(owner, id)]
            assert chain == [(link.id, link.status, link.output) for link in self.model.chain(owner, id)]
            assert await self.store.was_deleted(owner, id) == self.model.was_deleted(owner, id)
        for owner in OWNERS:
            assert await self.store.find_items(owner, FOUND) == self.model.find_items(owner, FOUND)
        for owner, id in itertools.product(OWNERS, CONVERSATIONS):
            assert await self.store.conversation_items(owner, id) == self.model.items(owner, id)


async def open_memory(stack: AsyncExitStack, clock: Clock) -> tuple[Store, Store]:
    store = await stack.enter_async_context(open_store("memory:", clock))
    return store, store


async def open_twice(url: str, stack: AsyncExitStack, clock: Clock) -> tuple[Store, Store]:
    return (
        await stack.enter_async_context(open_store(url, clock)),
        await stack.enter_async_context(open_store(url, clock)),
    )


async def open_sqlite(stack: AsyncExitStack, clock: Clock) -> tuple[Store, Store]:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return await open_twice(f"sqlite:{Path(folder) / 'responses.db'}", stack, clock)


async def open_by_writer(stack: AsyncExitStack, clock: Clock) -> tuple[Store, Store]:
    """Two worker processes, for which a third one writes."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "responses.db"
    socket = stack.enter_context(writer_thread(path)).path
    stores = [await stack.enter_async_context(open_store(f"sqlite:{path}", clock, writer=socket)) for _ in range(2)]
    for store in stores:
        await until_writer_is_used(store)
    return stores[0], stores[1]


def open_postgres(url: str) -> Callable[[AsyncExitStack, Clock], Awaitable[tuple[Store, Store]]]:
    async def open_emptied(stack: AsyncExitStack, clock: Clock) -> tuple[Store, Store]:
        stores = await open_twice(url, stack, clock)
        connection = await asyncpg.connect(url)
        await connection.execute(f"TRUNCATE {', '.join(f'antiphon.{table}' for table in TABLES)}")
        await connection.close()
        return stores

    return open_emptied


EXAMPLES = {"memory": 100, "sqlite": 25, "writer": 8, "postgres": 8}


@pytest.mark.timeout(110)
@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_store_behaves_like_the_model(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = open_postgres(server.new_database())
    else:
        opened = {"memory": open_memory, "sqlite": open_sqlite, "writer": open_by_writer}[kind]

    class Machine(StoreMachine):
        open_empty = staticmethod(opened)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES[kind],
            stateful_step_count=30,
            deadline=None,
            # A failure is reported at once. Add Phase.shrink to see the shortest sequence.
            phases=[Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
