"""Checks run in processes of their own: whatever they do, the gateway goes on."""

import asyncio
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, Writer, answer, call
from support.gateway import GatewayUnderTest, running_gateway
from support.pdfs import make_pdf
from support.raw_client import dialled, post
from support.streams import check_stream, parse

from antiphon.app.parts import Extensions
from antiphon.core.checks.work import CheckOutcome, CheckWork, DefinitionWork, DocumentWork, Grammar, GrammarWork, SchemaWork
from antiphon.errors import RateLimited
from antiphon.gateway.runs.checker import Checker, CheckProcess, PendingCheck

NUMBER = msgspec.json.encode({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
# Lark tries every way to split a text of this kind, and does not come to an end in a lifetime.
ENDLESS = Grammar(type="grammar", syntax="lark", definition='start: x x x x x x x x x x\nx: "a"* | x x')
ENDLESS_TEXT = msgspec.json.encode({"input": "a" * 4000 + "b"}).decode()


@pytest_asyncio.fixture
async def checker() -> AsyncIterator[Checker]:
    checker = Checker(deadline=30)
    yield checker
    checker.close()


async def test_a_check_is_done_elsewhere_and_its_outcome_comes_back(checker: Checker) -> None:
    assert await checker.run(SchemaWork(NUMBER, '{"n": "7"}', repair=True)) == CheckOutcome('{"n":7}')
    assert (await checker.run(SchemaWork(NUMBER, "{}", repair=True))).complaint is not None


async def test_definitions_are_compiled_there_too(checker: Checker) -> None:
    assert await checker.run(DefinitionWork(NUMBER)) == CheckOutcome()
    assert (await checker.run(DefinitionWork(b'{"type": "frob"}'))).complaint is not None
    assert (await checker.run(DefinitionWork(Grammar("grammar", "lark", "start: (")))).complaint is not None


async def test_work_that_takes_too_long_is_killed_and_the_next_is_done() -> None:
    checker = Checker(deadline=1.0, most_processes=1)
    try:
        endless = GrammarWork(ENDLESS, ENDLESS_TEXT)
        assert await checker.run(endless) == CheckOutcome(unfinished=True)
        assert await checker.run(SchemaWork(NUMBER, '{"n": 7}', repair=True)) == CheckOutcome('{"n": 7}')
    finally:
        checker.close()


async def test_a_pdf_is_read_there_too(checker: Checker) -> None:
    assert await checker.run(DocumentWork(make_pdf("Hello"))) == CheckOutcome("[page 1]\nHello")


async def test_a_pdf_that_takes_too_long_is_given_up() -> None:
    checker = Checker(deadline=1.0, most_processes=1)
    try:
        # Each of its letters is a command: it takes minutes.
        endless = make_pdf("a) Tj (b" * 2_000_000)
        assert await checker.run(DocumentWork(endless)) == CheckOutcome(unfinished=True)
    finally:
        checker.close()


async def test_a_process_that_dies_is_replaced(checker: Checker) -> None:
    await checker.run(SchemaWork(NUMBER, "{}", repair=False))
    (process,) = checker._idle
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    outcomes = [await checker.run(SchemaWork(NUMBER, '{"n": 7}', repair=False)) for _ in range(2)]
    assert outcomes == [CheckOutcome(unfinished=True), CheckOutcome('{"n": 7}')]


async def test_closing_ends_the_checks_that_run() -> None:
    checker = Checker(deadline=600, most_processes=1)
    await checker.run(SchemaWork(NUMBER, "{}", repair=False))
    endless = asyncio.create_task(checker.run(GrammarWork(ENDLESS, ENDLESS_TEXT)))
    while not checker._busy:
        await asyncio.sleep(0)
    checker.close()
    assert await endless == CheckOutcome(unfinished=True)


async def test_a_process_that_cannot_be_started_leaves_the_work_unfinished(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert await checker.run(SchemaWork(NUMBER, "{}", repair=False)) == CheckOutcome(unfinished=True)
    assert "check_process_not_started" in caplog.text


class Failing(Checker):
    """Its libraries fail at everything."""

    def _ask(self, check: PendingCheck) -> CheckOutcome | None:
        return CheckOutcome(unfinished=True)


async def test_work_that_fails_is_in_the_log_too(caplog: pytest.LogCaptureFixture) -> None:
    checker = Failing()
    assert await checker.run(SchemaWork(NUMBER, "{}", repair=False)) == CheckOutcome(unfinished=True)
    checker.close()
    (line,) = [record.members for record in caplog.records if record.message == "check_unfinished"]  # type: ignore[attr-defined]
    assert line == {"kind": "SchemaWork", "reason": "the work failed"}


async def test_text_that_cannot_be_encoded_is_not_checked(checker: Checker) -> None:
    assert await checker.run(SchemaWork(NUMBER, "\ud800", repair=False)) == CheckOutcome(unfinished=True)


# ---- whose turn it is ------------------------------------------------------------------------------------------------


class Gate(Checker):
    """Its checks have no process: those of texts with "slow" in them end when they may. `begun` are the texts of all that had
    their turn, in order."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)
        self.may_end = threading.Semaphore(0)
        self.begun: list[str] = []
        self.ended = 0

    def _ask(self, check: PendingCheck) -> CheckOutcome | None:
        found = re.search(rb"(slow|quick) \w* \d+", check.message)
        assert found is not None
        self.begun.append(found[0].decode())
        if b"slow" in found[0]:
            self.may_end.acquire()
        self.ended += 1
        return CheckOutcome()

    def close(self) -> None:
        self.may_end.release(1000)
        super().close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


def start_checks(checker: Checker, owner: str, number: int) -> list[asyncio.Task[CheckOutcome]]:
    texts = [f"slow {owner} {at}" for at in range(number)]
    return [asyncio.create_task(checker.run(SchemaWork(NUMBER, text, repair=False), owner)) for text in texts]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_owners_take_turns_with_a_process() -> None:
    gate = Gate(most_processes=1)
    tasks = [task for owner, number in (("eve", 4), ("ada", 2), ("bob", 1)) for task in start_checks(gate, owner, number)]
    await until(lambda: len(gate.begun) == 1)
    for at in range(1, len(tasks)):
        gate.may_end.release()
        await until(lambda at=at: len(gate.begun) == at + 1)  # type: ignore[misc]
    gate.close()
    assert await asyncio.gather(*tasks) == [CheckOutcome()] * 7
    assert [text.removeprefix("slow ") for text in gate.begun] == [
        "eve 0",
        "eve 1",
        "ada 0",
        "bob 0",
        "eve 2",
        "ada 1",
        "eve 3",
    ]


async def test_no_owner_has_all_processes(gate: Gate) -> None:
    slow = start_checks(gate, "eve", 10)
    await until(lambda: len(gate.begun) == 2)
    assert await gate.run(SchemaWork(NUMBER, "quick ada 0", repair=False), "ada") == CheckOutcome()
    assert (sorted(gate.begun), gate.ended) == (["quick ada 0", "slow eve 0", "slow eve 1"], 1)
    gate.close()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_an_owner_with_too_many_checks_is_refused_and_others_are_not() -> None:
    gate = Gate(most_processes=1, most_waiting=3)
    slow = start_checks(gate, "eve", 4)
    await until(lambda: len(gate.begun) == 1)
    work = SchemaWork(NUMBER, "slow eve 9", repair=False)
    with pytest.raises(RateLimited) as refused:
        await gate.run(work, "eve")
    assert refused.value.retry_after is not None
    # The last of those that wait gives way to the check of another owner, and is refused as well. A patient one never is.
    others = [*start_checks(gate, "ada", 1), asyncio.create_task(gate.run(work, "eve", patient=True))]
    with pytest.raises(RateLimited):
        await slow.pop()
    gate.close()
    done = await asyncio.gather(*slow, *others, return_exceptions=True)
    assert not any(isinstance(outcome, RateLimited) for outcome in done)


async def test_a_check_that_is_given_up_while_it_waits_takes_no_process(gate: Gate) -> None:
    first, second, third, fourth = start_checks(gate, "eve", 4)
    await until(lambda: len(gate.begun) == 2)
    third.cancel()
    await asyncio.wait({third})
    gate.may_end.release(3)
    assert [await check for check in (first, second, fourth)] == [CheckOutcome()] * 3
    assert sorted(gate.begun) == ["slow eve 0", "slow eve 1", "slow eve 3"]


async def test_closing_gives_up_the_checks_that_wait(gate: Gate) -> None:
    slow = start_checks(gate, "eve", 5)
    await until(lambda: len(gate.begun) == 2)
    gate.close()
    done = await asyncio.gather(*slow, return_exceptions=True)
    assert [type(outcome) for outcome in done] == [CheckOutcome, CheckOutcome, *[asyncio.CancelledError] * 3]


def grammar_tool(text: str) -> dict[str, Any]:
    """A custom tool whose grammar has to be compiled."""
    return {"type": "custom", "name": "say", "format": {"type": "grammar", "syntax": "regex", "definition": text}}


async def test_thirty_slow_grammars_of_one_key_do_not_delay_the_check_of_another(engine: MockEngine, gate: Gate) -> None:
    """Of all that the one key has sent, only its share is running, and nothing of it has ended."""
    async with running_gateway(engine, extensions=Extensions(checker=gate), api_key=("eve", "ada")) as gateway:

        async def send(key: str, text: str) -> int:
            body = {"model": "mock", "input": "Hi", "tools": [grammar_tool(text)]}
            status, _ = await gateway.post(body, headers={"Authorization": f"Bearer {key}"})
            return status

        slow = [asyncio.create_task(send("eve", f"slow eve {number}")) for number in range(30)]
        await until(lambda: gate._queue.waiting == 28)
        assert await send("ada", "quick ada 0") == 200
        assert (len(gate.begun), gate.ended, gate.begun[-1]) == (3, 1, "quick ada 0")
        gate.may_end.release(30)
        assert await asyncio.gather(*slow) == [200] * 30


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_whose_key_has_too_many_checks_is_a_429(engine: MockEngine, stream: bool) -> None:
    gate = Gate(most_processes=1, most_waiting=0)
    async with running_gateway(engine, extensions=Extensions(checker=gate)) as gateway:
        (slow,) = start_checks(gate, "", 1)
        await until(lambda: len(gate.begun) == 1)
        body = {"model": "mock", "input": "Hi", "stream": stream, "tools": [grammar_tool("quick ada 0")]}
        status, refused = await gateway.post(body)
        assert (status, refused["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(gateway.headers["Retry-After"]) >= 1
        assert engine.requests == []
        gate.close()
        await slow


async def test_an_answer_that_cannot_be_checked_for_that_reason_fails_with_it(engine: MockEngine) -> None:
    gate = Gate(most_processes=1, most_waiting=0)
    async with running_gateway(engine, extensions=Extensions(checker=gate)) as gateway:

        async def answered(write: Writer) -> None:
            slow.extend(start_checks(gate, "", 1))
            await until(lambda: len(gate.begun) == 2)
            await write(answer(call("say", '{"input": "quick ada 1"}')))

        slow: list[asyncio.Task[CheckOutcome]] = []
        engine.will(answered)
        events = await gateway.stream("Hi", tools=[grammar_tool("quick ada 0")])
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "rate_limit_exceeded"
        gate.close()
        await asyncio.gather(*slow)


# ---- clients that go away --------------------------------------------------------------------------------------------


class CountingChecker(Checker):
    """Its deadline never comes. `asked` counts the checks that a process began, `started` the processes."""

    def __init__(self) -> None:
        super().__init__(deadline=600, most_processes=1)
        self.asked = 0
        self.started: set[CheckProcess] = set()

    def _begin(self, check: PendingCheck, process: CheckProcess) -> bool:
        self.started.add(process)
        begun = super()._begin(check, process)
        self.asked += begun
        return begun


@pytest_asyncio.fixture
async def counting() -> AsyncIterator[CountingChecker]:
    checker = CountingChecker()
    yield checker
    checker.close()


async def test_a_check_that_is_given_up_while_it_runs_is_killed(counting: CountingChecker) -> None:
    endless = asyncio.create_task(counting.run(GrammarWork(ENDLESS, ENDLESS_TEXT)))
    await until(lambda: counting.asked == 1)
    endless.cancel()
    assert await counting.run(SchemaWork(NUMBER, '{"n": 7}', repair=False)) == CheckOutcome('{"n": 7}')
    assert (counting.asked, len(counting.started), len(counting._idle), len(counting._busy)) == (2, 2, 1, 0)


async def test_a_process_that_starts_for_a_check_that_is_given_up_serves_the_next(counting: CountingChecker) -> None:
    endless = asyncio.create_task(counting.run(GrammarWork(ENDLESS, ENDLESS_TEXT)))
    await until(lambda: bool(counting._busy))
    endless.cancel()
    assert await counting.run(SchemaWork(NUMBER, '{"n": 7}', repair=False)) == CheckOutcome('{"n": 7}')
    assert (counting.asked, len(counting.started)) == (1, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_check_of_a_client_that_has_gone_is_killed(
    engine: MockEngine, counting: CountingChecker, stream: bool
) -> None:
    tool = {"type": "custom", "name": "say", "format": msgspec.to_builtins(ENDLESS)}
    engine.will(answer(call("say", ENDLESS_TEXT)))
    body = msgspec.json.encode({"model": "mock", "input": "Hi", "stream": stream, "tools": [tool]})
    async with running_gateway(engine, extensions=Extensions(checker=counting)) as gateway:
        async with dialled(gateway) as client:
            await client.send(post(body))
            # The grammar of the tool, and the call.
            await until(lambda: counting.asked == 2)
        await until(lambda: not counting._busy and not counting._queue.running)
    assert (counting.asked, len(counting.started), len(counting._idle)) == (2, 1, 0)


async def test_the_checks_of_clients_that_have_gone_do_not_wait(engine: MockEngine, gate: Gate) -> None:
    async with running_gateway(engine, extensions=Extensions(checker=gate)) as gateway:
        async with AsyncExitStack() as clients:
            for number in range(6):
                client = await clients.enter_async_context(dialled(gateway))
                body = {"model": "mock", "input": "Hi", "tools": [grammar_tool(f"slow eve {number}")]}
                await client.send(post(msgspec.json.encode(body)))
            await until(lambda: gate._queue.waiting == 4)
        await until(lambda: not gate._queue.waiting)
        gate.may_end.release(6)
        await until(lambda: not gate._queue.running)
    assert (len(gate.begun), gate.ended, engine.requests) == (2, 2, [])


# ---- one process -----------------------------------------------------------------------------------------------------


def test_the_process_ends_when_its_gateway_does() -> None:
    command = [sys.executable, "-m", "antiphon.gateway.runs.check_process", "1"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = process.communicate(b"", timeout=60)
    assert (process.returncode, out) == (0, b"\0\0\0\x05ready")


# ---- behind the API --------------------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def impatient(engine: MockEngine) -> AsyncIterator[GatewayUnderTest]:
    checker = Checker(deadline=0.5)
    async with running_gateway(engine, extensions=Extensions(checker=checker)) as gateway:
        yield gateway
    checker.close()


async def test_no_grammar_stops_the_gateway(impatient: GatewayUnderTest, engine: MockEngine) -> None:
    """The engine's call is checked for half a second; others are served meanwhile."""
    tool = {"type": "custom", "name": "say", "format": {"type": "grammar", "syntax": "lark", "definition": ENDLESS.definition}}
    engine.will(answer(call("say", ENDLESS_TEXT)))
    slow = asyncio.create_task(impatient.create("Hi", tools=[tool]))
    served = 0
    while not slow.done():
        assert (await impatient.get("/health"))[0] == 200
        served += 1
    assert served > 5
    # It could not be checked, and is passed on as it is: the tool will say what it thinks.
    assert [item["type"] for item in (await slow)["output"]] == ["custom_tool_call"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_whose_check_was_killed_has_a_notice(
    impatient: GatewayUnderTest, engine: MockEngine, caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    notice = "a call of say was not checked: its check took too long, or failed"
    caplog.set_level(logging.INFO, "antiphon")
    engine.will(answer(call("say", ENDLESS_TEXT)))
    tools = [{"type": "custom", "name": "say", "format": msgspec.to_builtins(ENDLESS)}]
    if stream:
        response = (await impatient.stream("Hi", tools=tools))[-1]["response"]
    else:
        response = await impatient.create("Hi", tools=tools)
        assert notice in impatient.notice
    assert [(item["type"], item["status"]) for item in response["output"]] == [("custom_tool_call", "completed")]
    assert response["antiphon_notices"] == [notice]
    lines = {record.message: record.members for record in caplog.records if record.name == "antiphon"}  # type: ignore[attr-defined]
    assert lines["request"]["notices"] == [notice]
    assert lines["check_unfinished"]["kind"] == "GrammarWork"


async def test_a_definition_that_takes_too_long_is_said(impatient: GatewayUnderTest, engine: MockEngine) -> None:
    """Its calls are not checked."""
    optional = " ".join(f'["{number}"]' for number in range(24))
    format = {"type": "grammar", "syntax": "lark", "definition": f"start: {optional}"}
    for _ in range(2):
        engine.will(answer(call("say", '{"input": "1"}')))
        await impatient.create("Hi", tools=[{"type": "custom", "name": "say", "format": format}])
        assert "its calls are not checked: it takes too long to compile" in impatient.notice


async def test_a_bug_behind_a_check_ends_the_stream_properly(
    gateway: GatewayUnderTest, engine: MockEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tool = {"type": "custom", "name": "say", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}}

    def bug(*_: object) -> None:
        raise ZeroDivisionError

    async def slowly(write: Writer) -> None:
        await write(call("say", '{"input": "aaa"}'))
        await engine.cancelled.wait()

    monkeypatch.setattr("antiphon.core.items.item_sequence.ItemSequence.checked", bug)
    engine.will(slowly)
    events = await gateway.stream("Hi", tools=[tool])
    assert events[-1]["type"] == "response.failed"
    assert "bug" in caplog.text


class WaitingChecker(Checker):
    """Checks answers only once it may."""

    def __init__(self) -> None:
        super().__init__(deadline=30)
        self.may_check = asyncio.Event()

    async def run(self, work: CheckWork, owner: str = "", *, patient: bool = False) -> CheckOutcome:
        if isinstance(work, SchemaWork):
            await self.may_check.wait()
        return await super().run(work)


async def test_signs_of_life_during_a_check_are_sent_once(engine: MockEngine) -> None:
    checker = WaitingChecker()
    tool = {"type": "function", "name": "f", "strict": True, "parameters": msgspec.Raw(NUMBER)}
    body = msgspec.json.encode({"model": "mock", "input": "Hi", "stream": True, "tools": [tool]})
    engine.will(answer(call("f", '{"n": 7}'), finish="tool_calls"))
    received = b""
    async with (
        running_gateway(engine, extensions=Extensions(checker=checker), heartbeat=0.02) as gateway,
        gateway.client.post(f"{gateway.url}/v1/responses", data=body) as streamed,
    ):
        while received.count(b"event: response.in_progress") < 3:
            received += await streamed.content.readany()
        checker.may_check.set()
        received += await streamed.read()
    checker.close()
    events = parse(received)
    check_stream(events)
    assert events[-1]["type"] == "response.completed"
