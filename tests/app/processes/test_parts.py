"""The parts of several worker processes, each by itself."""

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from antiphon.app.app import make_app
from antiphon.app.processes.channel import Channel
from antiphon.app.processes.listening import bind_private, bind_slots
from antiphon.app.processes.messages import Counts, Ready, ToSupervisor, Woken
from antiphon.app.processes.worker import RowNumbers, share_of
from antiphon.core.knowledge.knowledge import Loading
from antiphon.engines.embedded.process import SharedEngineProcess
from antiphon.server.metrics.merging import merge, merge_departed
from antiphon.server.parts import APP
from antiphon.settings.settings import Settings
from antiphon.store import open_store
from antiphon.store.records import Record
from antiphon.store.wakeups import WakeupRelay
from antiphon.transport import make_session

# More than twice the interval at which a store is looked at without a wakeup: who waits for that runs into the timeout.
NEVER = 3600.0


async def test_a_channel_keeps_messages_whole_and_in_order_and_ends_with_the_other_side() -> None:
    ours, theirs = socket.socketpair()
    one: Channel[ToSupervisor] = await Channel.over(ours, ToSupervisor)
    other: Channel[ToSupervisor] = await Channel.over(theirs, ToSupervisor)
    long = Counts(b"x" * 1_000_000)
    for message in (Ready(), long, Woken("jobs")):
        other.send(message)
    flushing = asyncio.create_task(other.flush())
    assert [await one.receive() for _ in range(4)] == [Ready(), long, Woken("jobs"), None]
    await flushing
    await one.flush()


def test_connections_are_spread_evenly_over_the_slots() -> None:
    slots = bind_slots("127.0.0.1", 0, 2)
    try:
        for [listening] in slots:
            listening.listen(1024)
            listening.setblocking(False)
        address = slots[0][0].getsockname()
        assert slots[1][0].getsockname() == address
        clients = [socket.create_connection(address) for _ in range(600)]
        accepted = [0, 0]
        for slot, [listening] in enumerate(slots):
            with contextlib.suppress(BlockingIOError):
                while True:
                    listening.accept()[0].close()
                    accepted[slot] += 1
        for client in clients:
            client.close()
        assert sum(accepted) == 600
        assert 240 <= accepted[0] <= 360
    finally:
        for [listening] in slots:
            listening.close()


def test_a_port_that_another_gateway_shares_between_its_processes_is_taken() -> None:
    [[first]] = bind_slots("127.0.0.1", 0, 1)
    with first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bind_slots("127.0.0.1", first.getsockname()[1], 1)


def test_private_sockets_are_for_this_user_only(tmp_path: Path) -> None:
    with bind_private(tmp_path / "s"):
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


def test_row_numbers_rise_over_all_processes(tmp_path: Path) -> None:
    first, second = RowNumbers(tmp_path / "rows"), RowNumbers(tmp_path / "rows")
    assert [first.next(), second.next(), second.next(), first.next()] == [1, 2, 3, 4]


async def test_a_follower_in_another_process_is_woken_without_waiting_for_a_poll(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'responses.db'}"
    relays: list[WakeupRelay] = []
    relays += [WakeupRelay(lambda topic: relays[1].receive(topic)), WakeupRelay(lambda topic: relays[0].receive(topic))]
    async with open_store(url, poll=NEVER, relay=relays[0]) as one, open_store(url, poll=NEVER, relay=relays[1]) as other:
        record = Record(id="resp_1", owner="", created_at=1, expires_at=2**40, status="queued")
        with other.follow_jobs() as jobs:
            await one.enqueue(record, b"{}")
            async with asyncio.timeout(60):
                await jobs.wait()


def test_places_are_divided_among_the_processes() -> None:
    shares = [share_of(Settings(background_workers=3), slot, 2) for slot in range(2)]
    assert [share.background_workers for share in shares] == [2, 1]
    assert [share.containers.most for share in shares] == [16, 16]
    assert share_of(Settings(background_workers=1), 1, 2).background_workers == 0


async def test_the_embedded_engine_of_the_supervisor_is_one_like_any_other() -> None:
    shared = SharedEngineProcess("smollm2", "http://127.0.0.1:1", "key", Loading("smollm2"))
    async with make_session() as session, open_store("memory:") as store:
        app = make_app(Settings(seal_key="x"), session, store, shared)
        [engine] = app[APP].gateway.pool.engines
        assert (engine.root, [model.id for model in engine.models]) == ("http://127.0.0.1:1", [shared.alias])
        shared.moved("http://127.0.0.1:2")
        assert engine.root == "http://127.0.0.1:2"
        shared.lost()
        assert not engine.ready


# ---- metrics ---------------------------------------------------------------------------------------------------------

FIRST = b"""# HELP antiphon_http_requests_total Requests.
# TYPE antiphon_http_requests_total counter
antiphon_http_requests_total{route="/a b",status="200"} 2.0
# HELP antiphon_responses_running Now.
# TYPE antiphon_responses_running gauge
antiphon_responses_running 1.0
# HELP antiphon_store_up Up.
# TYPE antiphon_store_up gauge
antiphon_store_up 1.0
# HELP antiphon_build_info Version.
# TYPE antiphon_build_info gauge
antiphon_build_info{version="1"} 1.0
"""
SECOND = b"""# HELP antiphon_http_requests_total Requests.
# TYPE antiphon_http_requests_total counter
antiphon_http_requests_total{route="/a b",status="200"} 3.0
antiphon_http_requests_total{route="/c",status="404"} 1.0
# HELP antiphon_responses_running Now.
# TYPE antiphon_responses_running gauge
antiphon_responses_running 4.0
# HELP antiphon_store_up Up.
# TYPE antiphon_store_up gauge
antiphon_store_up 0.0
# HELP antiphon_build_info Version.
# TYPE antiphon_build_info gauge
antiphon_build_info{version="1"} 1.0
"""


def test_metrics_add_up_and_facts_do_not() -> None:
    assert merge([FIRST, SECOND]) == (
        b"""# HELP antiphon_http_requests_total Requests.
# TYPE antiphon_http_requests_total counter
antiphon_http_requests_total{route="/a b",status="200"} 5.0
antiphon_http_requests_total{route="/c",status="404"} 1.0
# HELP antiphon_responses_running Now.
# TYPE antiphon_responses_running gauge
antiphon_responses_running 5.0
# HELP antiphon_store_up Up.
# TYPE antiphon_store_up gauge
antiphon_store_up 0.0
# HELP antiphon_build_info Version.
# TYPE antiphon_build_info gauge
antiphon_build_info{version="1"} 1.0
"""
    )


def test_only_counts_outlive_their_process() -> None:
    departed = merge_departed(b"", FIRST)
    assert departed.count(b"# TYPE") == 1
    assert b"} 5.0" in merge([SECOND, departed])
