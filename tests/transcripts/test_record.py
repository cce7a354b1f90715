"""The recording itself, with an engine that is none: what was recorded is stable, ours, and replays."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from support.codex import calls, installed, shell
from support.engine import OWN_FIELDS, MockEngine, Refusal, text
from support.gateway import running_gateway, started
from transcripts.differences import encoded
from transcripts.normal_forms import PATCH_GRAMMAR, Normaliser, OwnTexts
from transcripts.record import Asked, EngineProxy, Exchanges, do_task, keep, proxied
from transcripts.replay import SETTINGS, StandIn, pin_facts, replayed, stream
from transcripts.transcript import RecordedEngine, Transcript

from antiphon.core.checks.grammars import complaint
from antiphon.core.checks.work import Grammar
from bench.models.watcher import Target

pytestmark = pytest.mark.timeout(120, func_only=True)

MODELS = {"object": "list", "data": [{"id": "mock", "object": "model", "owned_by": "llamacpp"}]}
KNOWN = RecordedEngine("mock", {"/v1/models": MODELS}, {"shows_images": False})
FOLDER = f"{tempfile.gettempdir()}/antiphon-task-x_1"
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "exec_command",
    "description": "A long text of the client.",
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string", "description": "More of it."}}},
    "strict": False,
}
DEVELOPER = {"role": "developer", "content": [{"type": "input_text", "text": "Rules, rules, rules."}]}
CALL = {"type": "function_call", "call_id": "call_1", "name": "exec_command", "arguments": '{"cmd":"ls"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Wall time: 0.0514 seconds\nfile.txt"}
FIRST: list[Any] = [DEVELOPER, {"role": "user", "content": "List the files."}]
INPUTS = (FIRST, [*FIRST, CALL, OUTPUT], [*FIRST, CALL, OUTPUT])


async def hold_session(proxy: EngineProxy) -> None:
    """Some requests of a client, as a recording sees them."""
    async with running_gateway(embedded=StandIn("mock", proxy.url), **SETTINGS) as gateway:
        await gateway.probed()
        pin_facts(gateway, KNOWN.facts)
        for items in INPUTS:
            request = {"model": "mock", "input": items, "tools": [TOOL], "stream": True, "store": False}
            proxy.exchanges.begin(encoded(request))
            await stream(gateway, request)


async def test_what_was_recorded_replays_to_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    engine.will(calls(shell("ls")), text("One", " file."), Refusal(400, {"error": {"message": "No more today.", "code": 400}}))
    async with started(engine), proxied(Target(engine.url)) as proxy:
        await hold_session(proxy)
        await keep("session", proxy.exchanges, KNOWN, tmp_path)
    assert capsys.readouterr().out == "", "the engine got what the replay shows"
    read = Transcript.read(tmp_path / "session")
    assert [answer.status for answer in read.answers] == [200, 200, 400]
    again = (await replayed(read, KNOWN)).files()
    assert again == {path.name: path.read_text() for path in (tmp_path / "session").iterdir()}
    assert engine.requests[0]["temperature"] == 0, "the recorded answers are the most likely ones"
    assert "temperature" not in again["chats.jsonl"]


async def test_an_answer_that_did_not_end_ends_the_transcript(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exchanges = Exchanges()
    exchanges.begin(b'{"model": "mock", "input": "Hi"}')
    exchanges.requests[-1][1].append(Asked({}))
    await keep("session", exchanges, KNOWN, tmp_path)
    assert "no response came to its end" in capsys.readouterr().out
    assert not (tmp_path / "session").exists()


def test_texts_of_the_client_are_replaced_and_its_shape_stays() -> None:
    texts = OwnTexts()
    (tool,) = texts.of_request({"tools": [TOOL], "input": FIRST})["tools"]
    assert tool["description"] == "What exec_command is for, in a few words."
    assert tool["parameters"]["properties"]["cmd"] == {"type": "string", "description": "What cmd is for, in a few words."}
    assert texts.of_chat({"content": "Rules, rules, rules. List."}) == {"content": "Some rules of the client. List."}


def test_what_differs_from_run_to_run_is_always_the_same() -> None:
    gateway_id, engine_id = f"msg_{'0a' * 24}", "aB3" + "x" * 29
    value = {
        "ids": [gateway_id, engine_id, gateway_id, "01a1e203-c0c8-7570-82b7-bac7842f92dc"],
        "text": f"Chunk ID: 6d3b51 Wall time: 1.05 seconds <current_date>2026-11-16< {FOLDER}/a",
        "created_at": 1763250000,
    }
    assert Normaliser().normal(value) == {
        "ids": [f"msg_{1:048x}", f"{2:032}", f"msg_{1:048x}", f"00000000-0000-0000-0000-{3:012x}"],
        "text": "Chunk ID: 000000 Wall time: 0.1 seconds <current_date>2026-01-01< /task/a",
        "created_at": 1,
    }


async def test_a_task_of_the_real_codex_is_recorded_without_its_texts_and_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed()
    engine = MockEngine(owned_by="llamacpp", own_fields=OWN_FIELDS["llamacpp"])
    engine.will(calls(shell("echo 'Hello, world!' > hello.txt && pwd")), text("It is there."))
    async with started(engine), proxied(Target(engine.url)) as proxy:
        async with running_gateway(embedded=StandIn("mock", proxy.url), **SETTINGS) as gateway:
            await gateway.probed()
            pin_facts(gateway, KNOWN.facts)
            words = await do_task("hello", gateway, proxy, limit=60)
        await keep("hello", proxy.exchanges, KNOWN, tmp_path)
    assert words.startswith("done"), words
    assert capsys.readouterr().out == "", "the engine got what the replay shows"
    files = {path.name: path.read_text() for path in (tmp_path / "hello").iterdir()}
    assert files == (await replayed(Transcript.read(tmp_path / "hello"), KNOWN)).files()
    assert "/task/repository" in files["requests.jsonl"]
    assert tempfile.gettempdir() not in "".join(files.values())
    assert sum(map(len, files.values())) < 60_000


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-    pass\n+    return 1\n*** Add File: b\n+x\n*** End Patch\n"


@pytest.mark.parametrize(("patch", "follows"), [(PATCH, True), (PATCH.replace("+x", "x"), False), (PATCH[:-5], False)])
def test_the_grammar_in_recordings_is_as_strict_as_that_of_codex(patch: str, follows: bool) -> None:
    grammar = Grammar(syntax="lark", definition=PATCH_GRAMMAR)
    assert (complaint(grammar, patch) is None) is follows
