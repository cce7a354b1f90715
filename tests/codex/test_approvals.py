"""Codex asks before it acts: what was accepted is done, what was declined is not, and the model learns which it was."""

from collections.abc import AsyncIterator

import pytest
from support.codex import Codex, arguments, calls, shell
from support.codex_app_server import AppServer, app_server
from support.engine import Body, MockEngine, call, text

pytestmark = pytest.mark.timeout(120, func_only=True)

DECLINED = "rejected by user"


@pytest.fixture
async def server(codex: Codex) -> AsyncIterator[AppServer]:
    async with app_server(codex) as server:
        yield server


@pytest.fixture
async def thread(server: AppServer, codex: Codex) -> str:
    """Codex asks here before it runs a command that it does not know to be harmless."""
    return await server.new_thread(codex, approval_policy="untrusted")


def results(body: Body) -> dict[str, str]:
    return {message["tool_call_id"]: message["content"] for message in body["messages"] if message["role"] == "tool"}


def files(codex: Codex) -> set[str]:
    return {path.name for path in codex.repository.glob("*.txt")}


def new_file(name: str, *, id: str) -> bytes:
    patch = f"*** Begin Patch\n*** Add File: {name}\n+hi\n*** End Patch\n"
    return call("apply_patch", arguments(input=patch), id=id)


async def test_a_command_that_is_accepted_runs_and_the_model_gets_its_output(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    engine.will(calls(shell("touch hello.txt; echo made")), text("It is there."))
    turn = await server.turn(thread, "Create hello.txt", {"call_1": "accept"})
    assert server.asked == ["command"]
    assert files(codex) == {"hello.txt"}
    assert "made" in results(engine.last)["call_1"]
    assert [item["text"] for item in turn["items"]] == ["It is there."]


async def test_a_command_that_is_declined_does_not_run_and_the_model_is_informed(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    engine.will(calls(shell("touch hello.txt; echo made")), text("As you wish."))
    turn = await server.turn(thread, "Create hello.txt", {"call_1": "decline"})
    assert files(codex) == set()
    assert DECLINED in results(engine.last)["call_1"]
    assert turn["status"] == "completed"
    assert [item["text"] for item in turn["items"]] == ["As you wish."]


async def test_parallel_commands_are_decided_one_by_one(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    both = calls(shell("touch one.txt; echo one"), shell("touch two.txt; echo two", id="call_2", index=1))
    engine.will(both, text("One of them is there."))
    await server.turn(thread, "Create both", {"call_1": "decline", "call_2": "accept"})
    assert files(codex) == {"two.txt"}
    *_, asked, first, second = engine.last["messages"]
    assert [made["id"] for made in asked["tool_calls"]] == ["call_1", "call_2"]
    assert DECLINED in first["content"]
    assert "two" in second["content"]


async def test_several_decisions_in_a_row_are_one_conversation(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    engine.will(
        calls(shell("touch one.txt")),
        calls(shell("touch two.txt", id="call_2")),
        calls(new_file("three.txt", id="call_3")),
        text("Two of them are there."),
        calls(shell("touch four.txt", id="call_4")),
        text("All the others are there."),
    )
    await server.turn(thread, "Create three files", {"call_1": "accept", "call_2": "decline", "call_3": "accept"})
    await server.turn(thread, "And a fourth", {"call_4": "accept"})
    assert server.asked == ["command", "command", "file change", "command"]
    assert files(codex) == {"one.txt", "three.txt", "four.txt"}
    assert list(results(engine.last)) == ["call_1", "call_2", "call_3", "call_4"]
    assert [DECLINED in result for result in results(engine.last).values()] == [False, True, False, False]
    for earlier, later in zip(engine.requests, engine.requests[1:], strict=False):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"], "each request only appends"


async def test_a_patch_that_is_declined_is_not_applied(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    engine.will(calls(new_file("new.txt", id="call_1")), text("As you wish."))
    await server.turn(thread, "Create new.txt", {"call_1": "decline"})
    assert server.asked == ["file change"]
    assert files(codex) == set()
    assert DECLINED in results(engine.last)["call_1"]


async def test_a_command_that_is_accepted_for_the_session_is_not_asked_about_again(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    again = calls(shell("touch hello.txt; echo made", id="call_2"))
    engine.will(calls(shell("touch hello.txt; echo made")), text("Once."), again, text("Twice."))
    await server.turn(thread, "Create hello.txt", {"call_1": "acceptForSession"})
    await server.turn(thread, "Again", {})
    assert server.asked == ["command"]
    assert ["made" in result for result in results(engine.last).values()] == [True, True]


async def test_a_command_that_is_cancelled_ends_the_turn_and_the_next_one_knows(
    server: AppServer, thread: str, codex: Codex, engine: MockEngine
) -> None:
    engine.will(calls(shell("touch hello.txt")), text("As you wish."))
    assert (await server.turn(thread, "Create hello.txt", {"call_1": "cancel"}))["status"] == "interrupted"
    await server.turn(thread, "Never mind", {})
    assert files(codex) == set()
    assert "aborted by user" in results(engine.last)["call_1"]
    assert engine.last["messages"][-1] == {"role": "user", "content": "Never mind"}
