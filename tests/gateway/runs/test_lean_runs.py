"""What a response needs beside its exchange: no tasks, no garbage, and timers that all responses share."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from support.gateway import GatewayUnderTest
from support.ways_in import until

from antiphon.gateway.runs.outbox import NoSink
from antiphon.gateway.runs.run import ResponseRun
from antiphon.gateway.runs.timers import Deadlines, EngineWatch, EngineWatches, Timeouts

BODY = b'{"model": "mock", "input": "Hi"}'


@pytest.fixture(autouse=True)
async def engine_is_found(gateway: GatewayUnderTest) -> None:
    """On a busy machine it may not answer at first."""
    await until(lambda: gateway.gateway.pool.ready)


async def run_whole(gateway: GatewayUnderTest) -> ResponseRun:
    run = await gateway.gateway.begin(await gateway.received(BODY))
    assert isinstance(run, ResponseRun)
    async with gateway.gateway.running(run):
        await run.connect()
        await run.run(NoSink())
    assert run.error is None
    return run


async def test_the_steps_of_a_whole_response_need_no_task(gateway: GatewayUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    await run_whole(gateway)
    made: list[str] = []
    create_task = asyncio.create_task

    def create(work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(work.__qualname__)
        return create_task(work, **options)

    monkeypatch.setattr(asyncio, "create_task", create)
    await run_whole(gateway)
    assert [name for name in made if name.startswith(("ResponseRun.", "Steps."))] == []


async def test_a_finished_run_is_gone_without_the_garbage_collector(gateway: GatewayUnderTest) -> None:
    gc.collect()
    gc.disable()
    try:
        finished = weakref.ref(await run_whole(gateway))
        # The transport has the connection back when the loop has had its turn.
        for _ in range(3):
            await asyncio.sleep(0)
        assert finished() is None
    finally:
        gc.enable()


async def test_an_owner_has_one_environment_until_the_settings_change(gateway: GatewayUnderTest) -> None:
    known = gateway.gateway
    first = known.environment_of("somebody")
    assert known.environment_of("somebody") is first
    assert known.environment_of("somebody else") is not first
    known.environment = known.environment.changed(most_rounds=3)
    assert known.environment_of("somebody").most_rounds == 3


class Ending:
    def __init__(self) -> None:
        self.error: Exception | None = None

    def abort(self, error: Exception) -> None:
        self.error = error


class Clock:
    """In place of a loop: its timers are run by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, work: Any) -> object:
        self.timers.append((when, work))
        return object()

    def call_soon(self, work: Any, *arguments: Any) -> None:
        work(*arguments)

    def advance(self, to: float) -> None:
        self.now = to
        due, self.timers = [work for when, work in self.timers if when <= to], [t for t in self.timers if t[0] > to]
        for work in due:
            work()


def test_all_responses_share_one_timer_and_each_ends_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    limits, early, over, late = Deadlines(10.0), Ending(), Ending(), Ending()
    assert limits.start(early) == 10.0
    clock.now = 1.0
    limits.start(over)
    clock.now = 5.0
    assert limits.start(late) == 15.0
    limits.cancel(early)
    assert len(clock.timers) == 1
    clock.advance(10.0)
    assert (early.error, over.error) == (None, None)
    clock.advance(11.0)
    assert "longer than 10 s" in str(over.error)
    assert late.error is None
    clock.advance(15.0)
    assert late.error is not None
    # Nobody is left to wait for.
    assert clock.timers == []
    assert limits.start(early) == 25.0


class Looking:
    """A run whose engine says nothing."""

    is_asking = True
    is_paused = False

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.reads = 0

    def when_looked(self) -> None: ...

    def when_quiet(self) -> None:
        self.seen.append("quiet")

    def when_stalled(self) -> None:
        self.seen.append("stalled")


def test_all_watches_share_one_timer_and_each_looks_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    watches = EngineWatches(Timeouts(heartbeat=10.0, first_byte=100.0, idle=20.0))
    pairs = [(EngineWatch(watches), Looking()) for _ in range(3)]
    for at, (watch, run) in enumerate(pairs):
        clock.now = float(at)
        watch.start(run)
    assert len(clock.timers) == 1
    pairs[1][0].stop()
    clock.advance(10.0)
    clock.advance(11.0)
    assert [run.seen for _, run in pairs] == [["quiet"], [], []]
    clock.advance(12.0)
    assert [run.seen for _, run in pairs] == [["quiet"], [], ["quiet"]]
    # Its answer has begun, so that it may be silent for less.
    _, run = pairs[0]
    run.reads += 1
    for now in (20.0, 22.0, 30.0, 32.0, 40.0, 42.0):
        clock.advance(now)
    assert run.seen == ["quiet", "quiet", "stalled"]
    assert pairs[2][1].seen == ["quiet"] * 4


def test_a_watch_that_is_stopped_or_started_again_when_it_is_due_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, later = Clock(), list[Any]()
    monkeypatch.setattr(clock, "call_soon", lambda work, *arguments: later.append((work, arguments)))
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    watches = EngineWatches(Timeouts(heartbeat=10.0, first_byte=100.0, idle=100.0))
    stopped, restarted = (EngineWatch(watches), Looking()), (EngineWatch(watches), Looking())
    for watch, run in (stopped, restarted):
        watch.start(run)
    clock.advance(10.0)
    stopped[0].stop()
    restarted[0].restart()
    for work, arguments in later:
        work(*arguments)
    assert stopped[1].seen == restarted[1].seen == []
