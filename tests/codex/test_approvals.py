"""Codex asks before it runs a command or applies a patch: what is allowed happens, and the model learns of both."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.app_server import AppServer, app_server
from support.codex import Codex, arguments, calls, shell
from support.engine import MockEngine, call, text

pytestmark = pytest.mark.timeout(120, func_only=True)

PATCH = "*** Begin Patch\n*** Add File: new.txt\n+made by a patch\n*** End Patch\n"


@pytest_asyncio.fixture
async def server(codex: Codex) -> AsyncIterator[AppServer]:
    """Asks about everything that is not known to be harmless."""
    async with app_server(codex, approvalPolicy="untrusted", sandbox="danger-full-access") as running:
        yield running


def write(name: str, *, id: str = "call_1", index: int = 0) -> bytes:
    return shell(f"echo written | tee {name}.txt", id=id, index=index)


def files(codex: Codex) -> list[str]:
    return sorted(path.name for path in codex.repository.glob("*.txt"))


def results(engine: MockEngine) -> dict[str, str]:
    """The results of calls in the last chat request, by their call."""
    messages = engine.last["messages"]
    return {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}


async def test_an_accepted_command_runs(codex: Codex, engine: MockEngine, server: AppServer) -> None:
    server.decisions = {"call_1": "accept"}
    engine.will(calls(write("a")), text("It is there."))
    assert await server.turn("Write a.txt") == ("completed", ["It is there."])
    assert server.asked == ["call_1"]
    assert files(codex) == ["a.txt"]
    assert results(engine)["call_1"].endswith("Output:\nwritten\n")


async def test_a_declined_command_does_not_run_and_the_model_is_told(
    codex: Codex, engine: MockEngine, server: AppServer
) -> None:
    server.decisions = {"call_1": "decline"}
    engine.will(calls(write("a")), text("Then not."))
    assert await server.turn("Write a.txt") == ("completed", ["Then not."])
    assert server.asked == ["call_1"]
    assert files(codex) == []
    assert "rejected by user" in results(engine)["call_1"]


async def test_several_commands_in_a_row_are_decided_one_by_one(codex: Codex, engine: MockEngine, server: AppServer) -> None:
    server.decisions = {"call_1": "accept", "call_2": "decline", "call_3": "accept"}
    rounds = [calls(write(name, id=id)) for name, id in (("a", "call_1"), ("b", "call_2"), ("c", "call_3"))]
    engine.will(*rounds, text("Two are there."))
    assert await server.turn("Write three files") == ("completed", ["Two are there."])
    assert server.asked == ["call_1", "call_2", "call_3"]
    assert files(codex) == ["a.txt", "c.txt"]
    # What was sent once is the beginning of what is sent next.
    for before, after in zip(engine.requests, engine.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    assert ["rejected" in content for content in results(engine).values()] == [False, True, False]


async def test_commands_that_are_called_at_once_are_decided_one_by_one(
    codex: Codex, engine: MockEngine, server: AppServer
) -> None:
    server.decisions = {"call_1": "decline", "call_2": "accept"}
    engine.will(calls(write("a"), write("b", id="call_2", index=1)), text("One is there."))
    assert await server.turn("Write two files") == ("completed", ["One is there."])
    assert sorted(server.asked) == ["call_1", "call_2"]
    assert files(codex) == ["b.txt"]
    assert list(results(engine)) == ["call_1", "call_2"]
    assert ["rejected" in content for content in results(engine).values()] == [True, False]


async def test_a_command_that_is_accepted_for_the_session_is_not_asked_about_again(
    codex: Codex, engine: MockEngine, server: AppServer
) -> None:
    server.decisions = {"call_1": "acceptForSession"}
    engine.will(calls(write("a")), text("Once."), calls(write("a", id="call_2")), text("Twice."))
    assert await server.turn("Write a.txt") == ("completed", ["Once."])
    assert await server.turn("Again") == ("completed", ["Twice."])
    assert server.asked == ["call_1"]
    assert all(content.endswith("Output:\nwritten\n") for content in results(engine).values())
    assert len(results(engine)) == 2


async def test_a_cancelled_command_ends_the_turn_and_the_next_one_knows(
    codex: Codex, engine: MockEngine, server: AppServer
) -> None:
    server.decisions = {"call_1": "cancel"}
    engine.will(calls(write("a")), text("As you wish."))
    assert await server.turn("Write a.txt") == ("interrupted", [])
    assert await server.turn("Never mind") == ("completed", ["As you wish."])
    assert files(codex) == []
    assert "aborted by user" in results(engine)["call_1"]
    assert engine.last["messages"][-1] == {"role": "user", "content": "Never mind"}


@pytest.mark.parametrize(
    ("decision", "made", "told"), [("accept", ["new.txt"], "A new.txt"), ("decline", [], "rejected by user")]
)
async def test_a_patch_is_applied_only_if_it_is_accepted(
    codex: Codex, engine: MockEngine, server: AppServer, decision: str, made: list[str], told: str
) -> None:
    server.decisions = {"call_1": decision}
    engine.will(calls(call("apply_patch", arguments(input=PATCH))), text("That was the patch."))
    assert await server.turn("Patch it") == ("completed", ["That was the patch."])
    assert server.asked == ["call_1"]
    assert files(codex) == made
    assert told in results(engine)["call_1"]
