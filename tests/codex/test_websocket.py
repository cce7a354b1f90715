"""Codex over a WebSocket: it warms up, sends only what is new, and comes back when the connection is gone."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import WSCloseCode
from support.codex import Codex, Person, asked, calls, shell
from support.engine import CUT, Body, MockEngine, Writer, chunk, text
from support.gateway import GatewayUnderTest

from antiphon.server.readiness import GOING_AWAY, Leave
from antiphon.server.routes.websocket import Connection, too_old

pytestmark = pytest.mark.timeout(120, func_only=True)


@pytest.fixture
def codex(codex: Codex) -> Codex:
    codex.config["model_providers.gateway.supports_websockets"] = True
    return codex


@pytest.fixture
def turns(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """The requests in the log so far."""
    caplog.set_level(logging.INFO, "antiphon")

    def logged() -> list[dict[str, Any]]:
        lines = [record.members for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]
        return [line for line in lines if line["path"] == "/v1/responses" and line["method"] != "GET"]

    return logged


Turns = Callable[[], list[dict[str, Any]]]


async def test_a_plain_turn(codex: Codex, engine: MockEngine, turns: Turns) -> None:
    engine.will(text("Good ", "morning."))
    run = await codex.does("Greet me")
    assert run.last_message == "Good morning."
    # It warms up first. The engine gets no request for that.
    assert [(turn["method"], turn["status"]) for turn in turns()] == [("WEBSOCKET", 200)] * 2
    assert len(engine.requests) == 1
    assert "<permissions instructions>" in engine.last["messages"][0]["content"]


async def test_codex_uses_one_if_antiphon_starts_it(
    person: Person, engine: MockEngine, gateway: GatewayUnderTest, turns: Turns
) -> None:
    person.environment["ANTIPHON_PORT"] = gateway.url.rpartition(":")[2]
    engine.will(calls(shell("true")), text("Good morning."))
    code, output = await person.types("codex", "exec", "--skip-git-repo-check", "Greet me")
    assert code == 0, output
    assert "Good morning." in output
    assert {turn["method"] for turn in turns()} == {"WEBSOCKET"}
    assert len({turn["request_id"] for turn in turns()}) == 1


async def test_a_call_is_answered_on_the_same_connection(codex: Codex, engine: MockEngine, turns: Turns) -> None:
    engine.will(calls(chunk({"reasoning_content": "A file is wanted."}), shell("echo hi > hello.txt")), text("It is there."))
    run = await codex.does("Create hello.txt")
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    assert run.last_message == "It is there."
    assert [turn["status"] for turn in turns()] == [200] * 3
    assert len({turn["request_id"] for turn in turns()}) == 1
    before, after = (body["messages"] for body in engine.requests)
    assert after[: len(before)] == before, "the engine finds its cache as it left it"
    assert [message["role"] for message in after[len(before) :]] == ["assistant", "tool"]
    assert "A file is wanted." in str(after[-2])


async def test_the_engine_is_asked_the_same_as_over_http(codex: Codex, engine: MockEngine) -> None:
    asked_for = []
    for over_socket in (True, False):
        codex.config["model_providers.gateway.supports_websockets"] = over_socket
        engine.will(calls(chunk({"reasoning_content": "Hm."}), shell("printf done")), text("Done."))
        await codex.does("Do nothing")
        asked_for.append([comparable(body) for body in engine.requests])
        engine.requests.clear()
    assert asked_for[0] == asked_for[1]


def comparable(body: Body) -> Any:
    """All but the output of a command, which says how long it took."""
    messages = [message | {"content": ""} if message["role"] == "tool" else message for message in body["messages"]]
    return body | {"messages": messages}


@pytest.mark.parametrize(
    "why", [too_old(3600), GOING_AWAY, Leave(WSCloseCode.INTERNAL_ERROR)], ids=["age", "shutdown", "error"]
)
async def test_a_session_continues_on_another_connection_after_one_was_closed(
    codex: Codex, engine: MockEngine, gateway: GatewayUnderTest, turns: Turns, why: Leave
) -> None:
    def closing(body: Body) -> bytes:
        for connection in gateway.connections:
            connection.leave(why)
        return calls(shell("echo hi > hello.txt"))

    engine.will(asked(engine, closing), text("It is there."))
    run = await codex.does("Create hello.txt")
    assert run.last_message == "It is there."
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    # Nothing was lost with the connection, and nothing was asked for twice.
    assert len(engine.requests) == 2
    before, after = (body["messages"] for body in engine.requests)
    assert after[: len(before)] == before
    assert {turn["method"] for turn in turns()} == {"WEBSOCKET"}
    assert len({turn["request_id"] for turn in turns()}) == 2


async def test_codex_reconnects_when_the_connection_is_cut_in_an_answer(
    codex: Codex, engine: MockEngine, gateway: GatewayUnderTest, turns: Turns
) -> None:
    async def torn(write: Writer) -> None:
        await write(chunk({"content": "Good "}))
        for connection in gateway.connections:
            cut(connection)

    engine.will(torn, text("Good morning."))
    run = await codex.run("Greet me")
    assert run.code == 0, run.output
    assert run.last_message == "Good morning."
    assert {turn["method"] for turn in turns()} == {"WEBSOCKET"}


def cut(connection: Connection) -> None:
    transport = connection._request.transport
    assert transport is not None
    transport.abort()


async def test_a_continuation_that_fails_is_tried_again_with_the_whole_history(
    codex: Codex, engine: MockEngine, turns: Turns
) -> None:
    async def broken(write: Writer) -> None:
        await write(chunk({"content": "It is"}))
        await write(CUT)

    engine.will(calls(shell("echo hi > hello.txt")), broken, text("It is there."))
    run = await codex.run("Create hello.txt")
    assert run.code == 0, run.output
    assert run.last_message == "It is there."
    # With what Codex has seen of the answer that broke off.
    seen = {"role": "assistant", "content": "It is"}
    assert engine.requests[2]["messages"] == [*engine.requests[1]["messages"], seen]
    assert {turn["method"] for turn in turns()} == {"WEBSOCKET"}


async def test_a_rejection_is_shown_as_over_http(codex: Codex, engine: MockEngine) -> None:
    engine.objects_to = lambda body: "The moon is in the wrong house."
    run = await codex.run("Greet me")
    assert run.code != 0
    assert "The moon is in the wrong house." in run.output
    assert "Reconnecting" not in run.output
    assert len(engine.requests) == 1


async def test_a_context_that_is_too_small_is_reported_as_such(codex: Codex, engine: MockEngine) -> None:
    engine.objects_to = lambda body: (
        "This model's maximum context length is 100 tokens. Please reduce the length of the messages."
    )
    run = await codex.run("Greet me")
    assert run.code != 0
    assert "ran out of room" in run.output
    assert len(engine.requests) == 1
