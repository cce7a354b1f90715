"""The parts of a turn of Codex: reasoning of any shape, one system message, calls, and the shape of the answer."""

from pathlib import Path

import msgspec
import pytest
from support.codex import Codex, calls, shell
from support.engine import MockEngine, call, chunk, text

pytestmark = pytest.mark.timeout(120, func_only=True)

THOUGHT = "A file is wanted."
TAGGED = ("<th", "ink>A file ", "is wanted.</thi", "nk>\n\n")

SHAPES = {
    "reasoning_content": [{"reasoning_content": "A file "}, {"reasoning_content": "is wanted."}],
    "reasoning": [{"reasoning": "A file "}, {"reasoning": "is wanted."}],
    "think tags": [{"content": piece} for piece in TAGGED],
    "both at once": [{"reasoning_content": THOUGHT}, *({"content": piece} for piece in TAGGED)],
}

SCHEMA = {
    "type": "object",
    "properties": {"files": {"type": "integer"}},
    "required": ["files"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_reasoning_of_every_shape_is_followed_by_a_call_and_an_answer(
    codex: Codex, engine: MockEngine, shape: str
) -> None:
    thinking = [chunk(delta) for delta in SHAPES[shape]]
    engine.will(calls(*thinking, shell("echo hi > hello.txt")), text("It is there."))
    run = await codex.does("Create hello.txt")
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    assert run.last_message == "It is there."
    assert run.output.count(THOUGHT) == 1
    assert "think>" not in run.output
    assert engine.last["messages"][3]["content"].count(THOUGHT) == 1, "the model is shown its thought again, once"


async def test_the_engine_gets_one_system_message_and_no_developer(codex: Codex, engine: MockEngine) -> None:
    engine.will(calls(shell("true")), text("Done."))
    await codex.does("Do nothing")
    for body in engine.requests:
        assert [message["role"] for message in body["messages"][:3]] == ["system", "user", "user"]
        assert "<permissions instructions>" in body["messages"][0]["content"]
        assert body["messages"][0]["content"].startswith("You are a coding agent of the tests.")
    assert [message["role"] for message in engine.last["messages"][3:]] == ["assistant", "tool"]


async def test_two_calls_in_one_turn_are_both_made(codex: Codex, engine: MockEngine) -> None:
    engine.will(
        calls(shell("echo one > one.txt; echo first"), shell("echo two > two.txt; echo second", id="call_2", index=1)),
        text("Both are there."),
    )
    run = await codex.does("Create one.txt and two.txt")
    assert {path.name for path in codex.repository.glob("*.txt")} == {"one.txt", "two.txt"}
    assert run.last_message == "Both are there."
    *_, both, first, second = engine.last["messages"]
    assert [made["id"] for made in both["tool_calls"]] == ["call_1", "call_2"]
    assert "first" in first["content"]
    assert "second" in second["content"]


async def test_broken_arguments_do_not_break_the_turns_after_them(codex: Codex, engine: MockEngine) -> None:
    broken = '{"cmd": "echo hi > hello.txt'
    engine.will(calls(call("exec_command", broken)), calls(shell("echo hi > hello.txt", id="call_2")), text("It is there."))
    run = await codex.run("Create hello.txt")
    assert run.code == 0, run.output
    assert "Reconnecting" not in run.output
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    assert run.last_message == "It is there."
    replayed = engine.last["messages"][3]["tool_calls"][0]["function"]["arguments"]
    assert msgspec.json.decode(replayed) == {"invalid_json": broken}


async def test_the_answer_has_the_shape_that_was_asked_for(codex: Codex, engine: MockEngine, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(msgspec.json.encode(SCHEMA))
    engine.will(calls(shell("ls")), text('{"files"', ": 0}"))
    run = await codex.does("--output-schema", str(file), "How many files are there?")
    assert msgspec.json.decode(run.last_message) == {"files": 0}
    for body in engine.requests:
        assert body["response_format"]["type"] == "json_schema"
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_an_answer_that_never_has_the_shape_is_not_asked_for_again_and_again(
    codex: Codex, engine: MockEngine, tmp_path: Path
) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(msgspec.json.encode(SCHEMA))
    engine.otherwise = lambda body: text("There are none.")
    run = await codex.run("--output-schema", str(file), "How many files are there?")
    assert run.code != 0
    assert "The model gave no valid answer in two attempts" in run.output
    assert "Reconnecting" not in run.output
    assert len(engine.requests) == 2, "the answer, and its repair"
