"""Checks run in processes of their own: whatever they do, the gateway goes on."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from support.engine import MockEngine, Writer, answer, call
from support.gateway import GatewayUnderTest, running_gateway
from support.pdfs import make_pdf
from support.streams import check_stream, parse

from antiphon.app import Extensions
from antiphon.core.check_work import CheckOutcome, CheckWork, DefinitionWork, DocumentWork, GrammarWork, SchemaWork
from antiphon.core.tools import Grammar
from antiphon.gateway.checker import Checker

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


async def test_text_that_cannot_be_encoded_is_not_checked(checker: Checker) -> None:
    assert await checker.run(SchemaWork(NUMBER, "\ud800", repair=False)) == CheckOutcome(unfinished=True)


def test_the_process_ends_when_its_gateway_does() -> None:
    command = [sys.executable, "-m", "antiphon.gateway.check_process", "1"]
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

    monkeypatch.setattr("antiphon.core.item_sequence.ItemSequence.checked", bug)
    engine.will(slowly)
    events = await gateway.stream("Hi", tools=[tool])
    assert events[-1]["type"] == "response.failed"
    assert "bug" in caplog.text


class WaitingChecker(Checker):
    """Checks answers only once it may."""

    def __init__(self) -> None:
        super().__init__(deadline=30)
        self.may_check = asyncio.Event()

    async def run(self, work: CheckWork) -> CheckOutcome:
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
