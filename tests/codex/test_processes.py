"""What `antiphon codex` leaves behind when it has ended: nothing that runs."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from support.codex import Person, calls, shell, typed
from support.engine import Body, MockEngine, text
from support.processes import none_runs, one_runs, running
from support.terminal import CTRL_C, ENTER, Terminal

from bench.processes import free_port

pytestmark = pytest.mark.timeout(120, func_only=True)

DANGEROUS = "--dangerously-bypass-approvals-and-sandbox"
# Nothing else on this machine has this in its command line.
SLEEP = f"sleep 4{os.getpid()}"
SERVE = "antiphon\0serve"


@pytest.fixture
async def person(person: Person, engine: MockEngine) -> Person:
    """With an engine, but no gateway."""
    person.environment |= {"ANTIPHON_UPSTREAM": engine.url, "ANTIPHON_PORT": str(free_port())}
    return person


def answer(body: Body) -> bytes:
    return text('{"title":"Sleep"}') if "task title" in str(body["messages"][-1]) else calls(shell(f"{SLEEP}; true"))


async def test_nothing_of_a_task_is_left(person: Person, engine: MockEngine) -> None:
    engine.will(calls(shell("echo hi > hello.txt")), text("It is there."))
    code, output = await person.types("codex", "exec", "--skip-git-repo-check", DANGEROUS, "Create hello.txt")
    assert code == 0, output
    assert (person.repository / "hello.txt").exists()
    assert not running(str(person.home))


async def test_nothing_of_a_session_in_a_terminal_is_left(person: Person, engine: MockEngine) -> None:
    engine.otherwise = lambda body: text("Greetings")
    terminal = Terminal()
    async with typed(person, "Say hello", terminal=terminal) as process:
        await terminal.shows(b"Greetings")
        terminal.type(b"/quit")
        await terminal.shows(b"exit Codex")
        terminal.type(ENTER)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
        assert not running(str(person.home))
        assert not list(person.home.rglob("app-server-daemon")), "the shared server of Codex was never installed"
    terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
async def test_a_signal_ends_codex_its_commands_and_the_gateway(
    person: Person, engine: MockEngine, number: signal.Signals
) -> None:
    engine.otherwise = answer
    async with typed(person, "exec", "--skip-git-repo-check", DANGEROUS, "Sleep") as process:
        await one_runs(SLEEP)
        assert running(str(person.home), SERVE)
        process.send_signal(number)
        async with asyncio.timeout(30):
            code = await process.wait()
        assert not running(str(person.home))
        assert not running(SLEEP)
    # At Ctrl-C it is Codex that ends, and says so.
    assert code == (1 if number == signal.SIGINT else 128 + number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
async def test_a_signal_ends_a_session_in_a_terminal_with_its_commands(
    person: Person, engine: MockEngine, number: signal.Signals
) -> None:
    engine.otherwise = answer
    terminal = Terminal()
    async with typed(person, DANGEROUS, "Sleep", terminal=terminal) as process:
        await one_runs(SLEEP)
        # As when the window is closed: all of its processes get it at once.
        os.killpg(process.pid, number)
        async with asyncio.timeout(30):
            assert await process.wait() == 128 + number
        assert not running(str(person.home))
        assert not running(SLEEP)
    terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
async def test_a_signal_while_it_waits_for_an_engine_ends_the_gateway(
    person: Person, engine: MockEngine, tmp_path: Path, number: signal.Signals
) -> None:
    await engine.stop()
    async with typed(person, "exec", "Sleep") as process:
        await one_runs(str(person.home), SERVE)
        process.send_signal(number)
        async with asyncio.timeout(30):
            assert await process.wait() == 128 + number
        assert not running(str(person.home))


async def test_ctrl_c_in_a_terminal_is_for_codex(person: Person, engine: MockEngine) -> None:
    engine.otherwise = answer
    terminal = Terminal()
    async with typed(person, DANGEROUS, "Sleep", terminal=terminal) as process:
        await one_runs(SLEEP)
        terminal.type(CTRL_C)
        await none_runs(SLEEP)
        assert process.returncode is None, "Codex goes on, and so does the gateway"
        assert running(str(person.home), SERVE)
    terminal.close()
