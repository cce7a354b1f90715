"""A gateway that dies while a tool runs: another one begins the response again, and runs nothing twice that must not be."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.background import Background
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, running_gateway
from support.postgres import PostgresServer
from support.stores import interposed
from support.toy_tool import DICE, NATIVE, KnownDice

from antiphon.app.parts import Extensions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolResult
from antiphon.gateway.state.record_format import encode_call
from antiphon.store import open_store
from antiphon.tools.runner import ToolContext


class Mail(KnownDice):
    """Sends mail, says the toy: it must not be run twice. It never ends the first time."""

    def __init__(self, *, idempotent: bool = False) -> None:
        self._idempotent = idempotent
        self.begun = asyncio.Event()
        self.ran: list[str] = []

    def define(self, box: Toolbox, tool: dict[str, Any], where: str, namespace: str | None = None) -> None:
        super().define(box, tool, where, namespace)
        if not self._idempotent:
            box.not_idempotent.add(NATIVE)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        self.ran.append(call.arguments)
        if not self.begun.is_set():
            self.begun.set()
            await asyncio.Event().wait()
        return await super().run(call, context)


def rolls(sides: int, id: str) -> bytes:
    return answer(call("roll", f'{{"sides": {sides}}}', id=id), finish="tool_calls")


async def run_twice(engine: MockEngine, mail: Mail, where: str, *answers: bytes) -> dict[str, Any]:
    """The response, of which the first gateway gives up the first call, and the second one gets these answers."""
    extensions = Extensions(tools={"dice": mail}, checker=CHECKER)
    engine.will(rolls(6, "a"))
    async with open_store(where) as store, running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        async with running_gateway(engine, shares=store, extensions=extensions, shutdown_timeout=0.05):
            id = (await background.create(tools=[DICE]))["id"]
            await mail.begun.wait()
        engine.will(*answers)
        async with running_gateway(engine, shares=store, extensions=extensions):
            return await background.ended(id)


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'responses.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


async def test_a_call_that_may_have_run_is_not_run_again_and_a_notice_says_so(engine: MockEngine, where: str) -> None:
    mail = Mail()
    response = await run_twice(engine, mail, where, rolls(6, "b"), text("It may have been sent."))
    assert mail.ran == ['{"sides": 6}']
    assert response["status"] == "completed"
    assert [item.get("status") for item in response["output"]] == ["failed", "completed"]
    told = engine.last["messages"][-1]["content"]
    assert 'with the arguments {"sides": 6}. It may have run already.' in told
    assert response["antiphon_notices"] == [
        "a call of roll was not run: before the gateway was restarted such a call had begun, and it may have run already"
    ]


async def test_a_gateway_that_died_has_left_a_note_of_the_call(engine: MockEngine, where: str) -> None:
    mail = Mail()
    mail.begun.set()
    engine.will(rolls(6, "b"), text("It may have been sent."))
    extensions = Extensions(tools={"dice": mail}, checker=CHECKER)
    async with open_store(where) as store, running_gateway(engine, shares=store, background_workers=0) as idle:
        background = Background(idle)
        id = (await background.create(tools=[DICE]))["id"]
        assert await store.claim("dead", 0, 9) is not None
        begun = ToolCall("a", "dice", "roll", None, '{"sides": 6}', idempotent=False)
        assert await store.begin_call(id, "dead", 1, encode_call(begun))
        async with running_gateway(engine, shares=store, extensions=extensions):
            response = await background.ended(id)
    assert mail.ran == []
    assert [item.get("status") for item in response["output"]] == ["failed", "completed"]


async def test_the_same_call_in_other_words_is_not_run_either_but_the_next_one_is(engine: MockEngine, tmp_path: Path) -> None:
    mail = Mail()
    answers = rolls(7, "b"), rolls(8, "c"), text("Sent.")
    response = await run_twice(engine, mail, f"sqlite:{tmp_path / 'responses.db'}", *answers)
    assert mail.ran == ['{"sides": 6}', '{"sides": 8}']
    assert [item.get("status") for item in response["output"]] == ["failed", "completed", "completed"]


async def test_a_tool_without_an_effect_of_its_own_is_run_again(engine: MockEngine, tmp_path: Path) -> None:
    mail = Mail(idempotent=True)
    response = await run_twice(engine, mail, f"sqlite:{tmp_path / 'responses.db'}", rolls(6, "b"), text("Six."))
    assert mail.ran == ['{"sides": 6}'] * 2
    assert [item.get("output") for item in response["output"]] == ["6", None]
    assert "antiphon_notices" not in response


async def test_a_call_that_cannot_be_noted_is_not_run(engine: MockEngine) -> None:
    mail = Mail()
    mail.begun.set()
    engine.will(rolls(6, "a"), text("Not sent."))

    async def lost(*call: Any) -> bool:
        return False

    store, interference = interposed()
    interference.instead["begin_call"] = lost
    extensions = Extensions(tools={"dice": mail}, checker=CHECKER)
    async with running_gateway(engine, shares=store, extensions=extensions) as gateway:
        response = await Background(gateway).made(tools=[DICE])
    assert mail.ran == []
    assert "must not be run twice" in engine.last["messages"][-1]["content"]
    assert response["status"] == "completed"
