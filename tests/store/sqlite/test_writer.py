"""The process that writes for several workers: what shares a transaction, when it answers, and what happens without it."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs
from support.store_writers import WriterThreads, connect_watched, database_of, until_writer_is_used, writer_thread
from support.stores import BEGINNING, Clock, conversation, items, record
from support.ways_in import until

from antiphon.errors import StoreUnavailable
from antiphon.store import IdTaken, Store, open_store
from antiphon.store.account_records import Counts, Delivery, UsageEntry, UsageKind
from antiphon.store.accounts.deliveries import DELIVERIES
from antiphon.store.protocol import CannotOpen
from antiphon.store.records import Record
from antiphon.store.sqlite import writer_client
from antiphon.store.sqlite.connections import FileLost, connect
from antiphon.store.sqlite.transactions import run
from antiphon.store.sqlite.writer_client import Unanswered, WriterClient
from antiphon.store.sqlite.writer_messages import FORMAT, Hello, Messages, Put, Written, encode, finish

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "responses.db"


@asynccontextmanager
async def opened(path: Path, writer: WriterThreads, clock: Clock) -> AsyncIterator[Store]:
    async with open_store(f"sqlite:{path}", clock, writer=writer.path) as store:
        await until_writer_is_used(store)
        yield store


def used(id: str) -> Record:
    return record(id, usage=UsageEntry(id, BEGINNING, UsageKind("ada", "m", "responses"), Counts(requests=1)))


def rows(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


# ---- what it writes --------------------------------------------------------------------------------------------------


async def test_what_has_arrived_meanwhile_is_one_transaction(path: Path, clock: Clock) -> None:
    statements: list[str] = []
    async with AsyncExitStack() as stack:
        writer = stack.enter_context(writer_thread(path, connect_watched(statements.append)))
        stores = [await stack.enter_async_context(opened(path, writer, clock)) for _ in range(3)]
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            # The tables were made in a transaction, too.
            statements.clear()
            puts = [asyncio.create_task(stores[0].put(record("first")))]
            await until(lambda: "BEGIN IMMEDIATE" in statements)
            statements.clear()
            puts += [asyncio.create_task(store.put(record(f"{at}-{n}"))) for at, store in enumerate(stores) for n in range(20)]
            await until(lambda: sum(len(sent_of(store)) for store in stores) == 61)
            other.execute("ROLLBACK")
        await asyncio.gather(*puts)
        # The one that waited for the lock, and all the others.
        assert statements.count("COMMIT") == 2
        # Nothing was written by the workers themselves.
        assert sum(text.startswith("INSERT INTO responses") for text in statements) == 61
    assert rows(path, "SELECT count(*) FROM responses") == [(61,)]


def sent_of(store: Store) -> dict[int, Any]:
    client = database_of(store)._client
    assert client is not None
    return client._sent


async def test_a_put_is_answered_only_after_its_commit(path: Path, clock: Clock) -> None:
    commits, go_on = threading.Event(), threading.Event()

    def wait_before_commit(statement: str) -> None:
        if statement == "COMMIT" and armed:
            commits.set()
            go_on.wait(30)

    armed = False
    with writer_thread(path, connect_watched(wait_before_commit)) as writer:
        async with opened(path, writer, clock) as store:
            armed = True
            putting = asyncio.create_task(store.put(record("r1")))
            await until(commits.is_set)
            # A message in both directions would have arrived by then.
            reading = await store.get("ada", "r1")
            assert (putting.done(), reading) == (False, None)
            go_on.set()
            await putting
            assert await store.get("ada", "r1") == record("r1")


async def test_each_commit_waits_for_the_disk(path: Path, clock: Clock) -> None:
    connections: list[sqlite3.Connection] = []

    def kept(path: Path) -> sqlite3.Connection:
        connections.append(connect(path))
        return connections[-1]

    writer = WriterThreads(path, path.parent)
    with closing(writer):
        writer.start(kept)
        # FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
        assert connections[-1].execute("PRAGMA synchronous").fetchone() == (2,)


async def test_the_usage_and_the_messages_of_a_response_are_written_with_it(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            delivery = Delivery("d1", "https://example.com", BEGINNING, b"{}")
            with database_of(store).wakeups.subscribe(DELIVERIES) as woken:
                await store.put(structs.replace(used("r1"), deliveries=(delivery,)))
                assert woken._woken.is_set()
    assert rows(path, "SELECT id, owner FROM usage_entries") == [("r1", "ada")]
    assert rows(path, "SELECT id FROM webhook_deliveries") == [("d1",)]


async def test_an_id_that_exists_is_refused_alone(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            await store.put(record("r1"))
            puts = [store.put(record(id, output=b"[1]")) for id in ("r0", "r1", "r2")]
            outcomes = await asyncio.gather(*puts, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [type(None), IdTaken, type(None)]
            assert await store.get("ada", "r1") == record("r1")


async def test_a_conversation_without_its_lock_is_not_written(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            await store.create_conversation(conversation("c1"))
            answer = record("r1", conversation="c1")
            assert await store.put_and_unlock(answer, items("i1")) is False
            assert await store.get("ada", "r1") is None
            assert await store.lock_conversation("ada", "c1", "r1", 60)
            assert await store.put_and_unlock(answer, items("i1")) is True
            assert await store.list_items("ada", "c1") == items("i1")


async def test_what_was_put_before_can_be_put_again(path: Path, clock: Clock) -> None:
    """As after the end of a writer that had committed, and had not answered."""
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            await store.create_conversation(conversation("c1"))
            await store.lock_conversation("ada", "c1", "r2", 60)
            await store.put(used("r1"))
            await store.put_and_unlock(record("r2", conversation="c1"), items("i1"))
            await store.put(record("r3"))
            await store.delete("ada", "r3")
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                again = [
                    (used("r1"), None),
                    (record("r2", conversation="c1"), items("i1")),
                    (record("r3"), None),
                ]
                assert [run(connection, finish(*put, clock(), again=True))[0] for put in again] == [True] * 3
                with pytest.raises(IdTaken):
                    run(connection, finish(record("r1", output=b"[1]"), None, clock(), again=True))
            assert await store.get("ada", "r1") == record("r1")
            # Its owner has deleted it meanwhile.
            assert await store.get("ada", "r3") is None
            assert await store.list_items("ada", "c1") == items("i1")
    assert rows(path, "SELECT id FROM usage_entries") == [("r1",)]


async def test_a_put_that_its_caller_has_given_up_is_not_written(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            client = database_of(store)._client
            assert client is not None
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            # By the clock of this machine, which began at zero.
            client.put(Unanswered(record("late"), None, clock(), -1.0, answer))
            with pytest.raises(StoreUnavailable):
                await answer
            await store.put(record("r1"))
    assert rows(path, "SELECT id FROM responses") == [("r1",)]


async def test_a_writer_whose_file_was_deleted_acknowledges_nothing(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            await store.put(record("r1"))
            await asyncio.to_thread(path.unlink)
            with pytest.raises(FileLost):
                await store.put(record("r2"))


async def test_a_database_that_stays_locked_is_an_error(path: Path, clock: Clock) -> None:
    def impatient(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA busy_timeout = 50")
        return connection

    with writer_thread(path, impatient) as writer:
        async with opened(path, writer, clock) as store:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreUnavailable):
                    await store.put(record("r1"))
                other.execute("ROLLBACK")
            await store.put(record("r1"))
            assert await store.get("ada", "r1") == record("r1")


# ---- when it goes away -----------------------------------------------------------------------------------------------


async def test_puts_wait_for_the_next_writer(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            writer.end()
            client = database_of(store)._client
            assert client is not None
            await until(lambda: client._connection is None)
            putting = asyncio.create_task(store.put(record("r1")))
            statements: list[str] = []
            await asyncio.to_thread(writer.start, connect_watched(statements.append))
            await putting
            assert await store.get("ada", "r1") == record("r1")
            # The next one has written it.
            assert "COMMIT" in statements


async def test_a_writer_that_is_replaced_writes_what_it_has_read(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            for each in range(5):
                puts = [asyncio.create_task(store.put(used(f"{each}-{number}"))) for number in range(50)]
                await asyncio.sleep(0)
                await asyncio.to_thread(writer.end)
                await asyncio.to_thread(writer.start)
                await asyncio.gather(*puts)
    assert rows(path, "SELECT count(*) FROM responses") == [(250,)]
    assert rows(path, "SELECT count(*) FROM usage_entries") == [(250,)]


async def test_a_writer_that_is_left_stays_for_those_who_are_connected(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        async with opened(path, writer, clock) as store:
            ending = asyncio.create_task(asyncio.to_thread(lambda: writer.end(at_once=False)))
            await store.put(record("r1"))
            assert not ending.done()
        await ending


async def test_a_worker_without_a_writer_writes_itself(path: Path, clock: Clock) -> None:
    with writer_thread(path) as writer:
        writer.close()
        async with open_store(f"sqlite:{path}", clock, writer=writer.path) as store:
            await store.put(record("r1"))
            assert await store.get("ada", "r1") == record("r1")


async def test_a_writer_of_another_file_is_not_used(path: Path, clock: Clock) -> None:
    other = path.with_name("other.db")
    with writer_thread(other) as writer:
        async with open_store(f"sqlite:{path}", clock, writer=writer.path) as store:
            await store.put(record("r1"))
            assert await store.get("ada", "r1") == record("r1")
    assert rows(other, "SELECT id FROM responses") == []


def test_a_writer_that_cannot_open_its_file_says_why(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(CannotOpen), writer_thread(path):
        pass


# ---- the worker's side, before a writer that does what a test says --------------------------------------------------


class StrangeWriter:
    """Keeps what it is sent, and answers when a test says so."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "strange")
        self.hello: Hello | None = Hello(FORMAT, "/db")
        self.puts: list[Put] = []
        self.connected = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self.hang_up()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        self._writers.append(writer)
        if self.hello is not None:
            writer.write(encode(self.hello))
        messages: Messages[Put] = Messages(Put)
        while data := await reader.read(65536):
            self.puts += messages.feed(data)
        writer.close()

    def answer(self, *puts: Put) -> None:
        self._writers[-1].write(encode([Written(put.number, "done") for put in puts]))

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()


class Worker:
    def __init__(self, strange: StrangeWriter, away_within: float) -> None:
        self.written_here: list[Unanswered] = []
        self.client = WriterClient(strange.path, "/db", self.written_here.extend, away_within=away_within)

    def put(self, id: str, output: bytes = b"[]") -> asyncio.Future[bool]:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.client.put(Unanswered(record(id, output=output), None, 0.0, 1e12, answer))
        return answer


@pytest_asyncio.fixture
async def strange(tmp_path: Path) -> AsyncIterator[StrangeWriter]:
    made = StrangeWriter(tmp_path)
    await made.start()
    yield made
    await made.stop()


@asynccontextmanager
async def working(strange: StrangeWriter, away_within: float = 1e6) -> AsyncIterator[Worker]:
    worker = Worker(strange, away_within)
    try:
        yield worker
    finally:
        for put in [*worker.client._all(), *worker.written_here]:
            put.answer.cancel()
        await worker.client.close()


def arrived(strange: StrangeWriter, count: int) -> Callable[[], bool]:
    return lambda: len(strange.puts) == count


async def test_what_was_not_answered_is_sent_again_and_says_so(strange: StrangeWriter) -> None:
    async with working(strange) as worker:
        await until(lambda: worker.client.is_used)
        answers = [worker.put(id) for id in ("r1", "r2")]
        await until(arrived(strange, 2))
        strange.answer(strange.puts[0])
        await answers[0]
        strange.hang_up()
        await until(arrived(strange, 3))
        assert [(put.record.id, put.again) for put in strange.puts] == [("r1", False), ("r2", False), ("r2", True)]
        strange.answer(strange.puts[2])
        assert await answers[1] is True
        assert worker.written_here == []


async def test_only_so_much_is_sent_before_it_is_answered(strange: StrangeWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_client, "MOST_BYTES", 1000)
    async with working(strange) as worker:
        await until(lambda: worker.client.is_used)
        answers = [worker.put(f"r{number}", output=b"x" * 600) for number in range(4)]
        await until(arrived(strange, 2))
        # The others wait here, whatever happens meanwhile.
        assert len(worker.client._unsent) == 2
        strange.answer(*strange.puts)
        await until(arrived(strange, 4))
        strange.answer(*strange.puts[2:])
        assert await asyncio.gather(*answers) == [True] * 4


async def test_when_no_writer_comes_in_time_the_worker_writes_itself(strange: StrangeWriter) -> None:
    async with working(strange, away_within=0.05) as worker:
        await until(lambda: worker.client.is_used)
        worker.put("r1")
        await until(arrived(strange, 1))
        # The next connection waits for a writer that never comes.
        strange.hello = None
        strange.hang_up()
        await until(lambda: worker.client._connection is None)
        worker.put("r2")
        await until(lambda: len(worker.written_here) == 2)
        assert [(put.record.id, put.again) for put in worker.written_here] == [("r1", True), ("r2", False)]
        assert not worker.client.is_used


async def test_a_writer_that_comes_back_late_is_used_again(strange: StrangeWriter) -> None:
    async with working(strange, away_within=0.0) as worker:
        await until(lambda: worker.client.is_used)
        strange.hello = None
        strange.hang_up()
        await until(lambda: not worker.client.is_used and strange.connected == 2)
        strange._writers[-1].write(encode(Hello(FORMAT, "/db")))
        await until(lambda: worker.client.is_used)


@pytest.mark.parametrize("hello", [Hello("other", "/db"), Hello(FORMAT, "/other.db")])
async def test_a_writer_of_another_version_or_file_gets_nothing(strange: StrangeWriter, hello: Hello) -> None:
    async with working(strange) as worker:
        await until(lambda: worker.client.is_used)
        strange.hello = hello
        worker.put("r1")
        await until(arrived(strange, 1))
        strange.hang_up()
        # Nothing is waited for: this one will not become another one.
        await until(lambda: len(worker.written_here) == 1)
        assert worker.written_here[0].again
        assert (len(strange.puts), worker.client.is_used) == (1, False)


async def test_a_writer_that_does_not_answer_in_time_is_left(strange: StrangeWriter) -> None:
    async with working(strange) as worker:
        await until(lambda: worker.client.is_used)
        answer = worker.put("r1")
        await until(arrived(strange, 1))
        worker.client.check()
        assert strange.connected == 1
        answer.set_exception(StoreUnavailable())
        worker.client.check()
        await until(lambda: strange.connected == 2)
        assert isinstance(answer.exception(), StoreUnavailable)
        # Its caller has given it up.
        assert len(strange.puts) == 1


async def test_who_closes_waits_for_the_answers(strange: StrangeWriter) -> None:
    async with working(strange) as worker:
        await until(lambda: worker.client.is_used)
        answer = worker.put("r1")
        closing = asyncio.create_task(worker.client.close())
        await until(arrived(strange, 1))
        assert not closing.done()
        strange.answer(strange.puts[0])
        assert await answer is True
        await closing


def test_messages_are_read_whole_byte_by_byte_and_together() -> None:
    written = [[Written(1, "done")], [Written(2, "taken"), Written(3, "late")]]
    data = b"".join(map(encode, written))
    whole: Messages[list[Written]] = Messages(list[Written])
    assert list(whole.feed(data)) == written
    bytewise: Messages[list[Written]] = Messages(list[Written])
    assert [message for byte in data for message in bytewise.feed(bytes([byte]))] == written
    split: Messages[list[Written]] = Messages(list[Written])
    assert [*split.feed(data[:9]), *split.feed(data[9:])] == written
