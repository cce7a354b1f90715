"""Codex with models whose chat templates make demands, and with models that write their calls as text."""

import asyncio

import pytest
from msgspec.structs import replace
from support.codex import Codex, arguments, calls, shell
from support.demands import complaint
from support.engine import MockEngine, objection, text

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN

pytestmark = pytest.mark.timeout(120, func_only=True)

MISTRAL = replace(PLAIN, alternates=True, begins_with_user=True, call_id_length=9)
LLAMA = replace(PLAIN, takes_parallel_calls=False, begins_with_user=True)
FAMILIES = {"Mistral": MISTRAL, "Llama": LLAMA}


def demand(engine: MockEngine, dialect: Dialect) -> None:
    """Like an engine with such a template, which rejects all other messages."""
    engine.objects_to = lambda body: objection(body) or complaint(body["messages"], dialect)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_session_with_an_interrupted_call_goes_on(codex: Codex, engine: MockEngine, family: str) -> None:
    demand(engine, FAMILIES[family])
    engine.will(
        calls(shell("echo one > one.txt"), shell("echo two > two.txt", id="call_2", index=1)),
        calls(shell("touch started; sleep 100", id="call_3")),
    )
    session = asyncio.create_task(codex.run("Create one.txt and two.txt, and wait"))
    async with asyncio.timeout(60):
        while not (codex.repository / "started").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    session.cancel()
    with pytest.raises(asyncio.CancelledError):
        await session
    assert {path.name for path in codex.repository.glob("*.txt")} == {"one.txt", "two.txt"}
    engine.will(calls(shell("echo three > three.txt", id="call_4")), text("All three are there."))
    run = await codex.does("resume", "--last", "Do not wait. Create three.txt")
    assert run.last_message == "All three are there."
    assert (codex.repository / "three.txt").read_text() == "three\n"
    sent = str(engine.last["messages"])
    assert all(command in sent for command in ("one.txt", "two.txt", "touch started", "three.txt"))


@pytest.mark.parametrize(
    "marks", [("<tools>\n", "\n</tools>"), ("functools[", "]"), ("```json\n", "\n```")], ids=lambda marks: marks[0]
)
async def test_a_call_that_is_written_as_text_is_made(codex: Codex, engine: MockEngine, marks: tuple[str, str]) -> None:
    written = arguments(name="exec_command", arguments={"cmd": "echo hi > hello.txt"})
    engine.will(text(marks[0], written, marks[1]), text("It is there."))
    run = await codex.does("Create hello.txt")
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    assert run.last_message == "It is there."
