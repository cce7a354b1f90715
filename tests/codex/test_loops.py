"""A small model that makes the same call of Codex again and again."""

from pathlib import Path

import pytest
from support.codex import Codex, arguments, calls
from support.engine import Body, MockEngine, call, text
from support.gateway import running_gateway

pytestmark = pytest.mark.timeout(120, func_only=True)


def results(body: Body) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def offers(body: Body, name: str) -> bool:
    return any(tool["function"]["name"] == name for tool in body["tools"])


async def test_a_model_cannot_write_to_a_process_that_is_not_there(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    again = calls(call("write_stdin", arguments(session_id=7, chars="")))
    engine.otherwise = lambda body: again if offers(body, "write_stdin") else text("Nothing runs there.")
    engine.lists("tiny-1.5b")
    async with running_gateway(engine) as gateway:
        run = await Codex(binary, gateway.url, tmp_path).run("Fix the tests")
    assert (run.code, run.last_message) == (0, "Nothing runs there."), run.output
    _, second = engine.requests
    assert second["messages"][-1]["content"].startswith("Do not call write_stdin now, because no result says that something")


async def test_codex_ends_with_a_model_that_makes_the_same_call_again_and_again(
    binary: Path, engine: MockEngine, tmp_path: Path
) -> None:
    again = calls(call("shell", arguments(command="python3 nothing.py")))
    # It stops when it does not see the tool.
    engine.otherwise = lambda body: again if offers(body, "shell") else text("There is no such program.")
    engine.lists("tiny-1.5b")
    async with running_gateway(engine) as gateway:
        run = await Codex(binary, gateway.url, tmp_path).run("Fix the tests")
    assert (run.code, run.last_message) == (0, "There is no such program."), run.output
    assert "No such file" in results(engine.requests[1])[0]
    assert ["Do not make it again" in each for each in results(engine.last)] == [False, False, True, True]
    # Four calls, the fifth that is not carried out, and the answer without the tool.
    assert len(engine.requests) == 6


async def test_without_help_nobody_ends_it(binary: Path, engine: MockEngine, tmp_path: Path) -> None:
    again = calls(call("write_stdin", arguments(session_id=7, chars="")))
    engine.will(*[again] * 8)
    engine.otherwise = lambda body: text("At last.")
    engine.lists("tiny-1.5b")
    async with running_gateway(engine, help="off") as gateway:
        run = await Codex(binary, gateway.url, tmp_path).run("Fix the tests")
    assert (run.code, run.last_message) == (0, "At last."), run.output
    assert len(engine.requests) == 9
    assert len(set(results(engine.last))) == 1
