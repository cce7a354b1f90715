"""The questions about documents and about the files of a folder: what is asked, and how an answer is judged."""

import json
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

from antiphon.core.toolbox.examples import AGENT, FUNCTIONS, SEARCHES
from bench.models import claude_questions, searches
from bench.models.searches import DOCUMENTS, QUESTIONS, Judged, judge
from bench.models.watcher import Target
from bench.processes import BenchFailed

BICYCLE = next(each for each in QUESTIONS if "bicycle" in each.text)
BUILDER = next(each for each in QUESTIONS if "built" in each.text)


def answered(words: str, *, cites: str = "ferry.md", searched: bool = True) -> dict[str, Any]:
    search = {"type": "file_search_call", "queries": ["fares"]}
    notes = [{"type": "file_citation", "filename": cites}]
    message = {"type": "message", "content": [{"type": "output_text", "text": words, "annotations": notes}]}
    return {"output": [*([search] if searched else []), message]}


@pytest.mark.parametrize(
    ("asked", "given", "wrong"),
    [
        (BICYCLE, answered("It costs 4 euros."), []),
        (BICYCLE, answered("It costs 9 euros."), ["wrong words"]),
        (BICYCLE, answered("It costs 4 euros.", cites="garden.md"), ["no citation of its source"]),
        (BICYCLE, answered("It costs 4 euros.", searched=False), ["no search"]),
        (BICYCLE, answered(f"4 euros. {FUNCTIONS[0].says}"), ["copied 'the museum in graz'"]),
        (BUILDER, answered("The files say nothing about that.", cites=""), []),
        (BUILDER, answered("I found nothing about who built it.", cites=""), []),
        (BUILDER, answered(SEARCHES[2].says, cites=""), ["copied 'about who painted the'"]),
        (BUILDER, answered("It was built by Ulvik."), ["does not say that it is not there", "says 'was built by'"]),
    ],
    ids=["right", "wrong", "another source", "no search", "copied", "not there", "as in an example", "an example", "made up"],
)
def test_an_answer_about_documents_is_judged(asked: searches.Asked, given: dict[str, Any], wrong: list[str]) -> None:
    assert judge(asked, given).wrong == wrong


def test_each_set_has_questions_that_its_documents_do_not_answer() -> None:
    sets = {half: [each for each in QUESTIONS if each.half == half] for half in DOCUMENTS}
    assert {half: len(some) for half, some in sets.items()} == {"tuning": 6, "final": 12}
    assert {half: sum(not each.says for each in some) for half, some in sets.items()} == {"tuning": 3, "final": 3}
    for half, some in sets.items():
        assert {each.cites for each in some if each.says} <= DOCUMENTS[half].keys()


def test_the_documents_are_not_about_what_the_examples_are_about() -> None:
    """Otherwise, words of an example would be taken for those of a document."""
    texts = [text for example in (*AGENT, *FUNCTIONS, *SEARCHES) for text in (example.asks, example.says)]
    documents = "\n".join(text for half in DOCUMENTS.values() for text in half.values())
    assert {run for text in texts for run in searches.runs(text)}.isdisjoint(searches.runs(documents))


async def test_the_questions_are_asked_about_a_store_with_the_documents(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    def write(body: Any) -> bytes:
        last = body["messages"][-1]
        if last["role"] != "tool":
            return answer(call("file_search", json.dumps({"queries": [last["content"]]})), finish="tool_calls")
        assert "vinegar" in last["content"] or "euro" in last["content"]
        return text("Nothing is said about that.")

    engine.otherwise = write
    chosen = Namespace(set="tuning", repeat=2, jobs=2)
    done = await searches.ask_all(Target(gateway.url), "mock", chosen)
    assert len(done) == 12
    assert sum(not each.wrong for each in done) == 6
    assert all(each.searches for each in done)
    shown = searches.summary(done, "All")
    assert "  answered by the documents: 0 of 6 right\n  not answered by the documents: 6 of 6 right" in shown


def test_what_was_wrong_is_counted() -> None:
    done = [Judged(BICYCLE.text, wrong=["no search", "wrong words"]), Judged(BICYCLE.text)]
    assert "answered by the documents: 1 of 2 right" in searches.summary(done, "All")
    assert "  no search: 1\n  wrong words: 1\n" in searches.summary(done, "All")


# ---- Claude Code -----------------------------------------------------------------------------------------------------

RECORDED = {
    "model": "m",
    "max_tokens": 100,
    "messages": [
        {"role": "user", "content": "What is in notes.txt?"},
        {"role": "system", "content": "# Environment\n - Primary working directory: /somewhere/else"},
    ],
    "tools": [
        {"name": name, "input_schema": {"type": "object", "properties": {member: {"type": "string"}}}}
        for name, member in (("Read", "file_path"), ("Bash", "command"), ("Write", "file_path"))
    ],
}


async def asked_by_claude(tmp_path: Path, gateway: GatewayUnderTest, **changed: Any) -> list[claude_questions.Answered]:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"path": "/v1/messages", "body": RECORDED}))
    recorded = {"request": file, "question": "What is in notes.txt?", "folder": "/somewhere/else", "served": "mock"}
    return await claude_questions.ask_all(gateway.url, Namespace(**{**recorded, "repeat": 1, "jobs": 1, **changed}))


async def test_what_is_asked_of_claude_code_is_looked_up(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    def write(body: Any) -> bytes:
        last = body["messages"][-1]
        if last["role"] != "tool":
            words = json.dumps(body["messages"])
            assert "/somewhere/else" not in words
            name = next(name for name in claude_questions.FILES if name in last["content"])
            made = call("Read", json.dumps({"file_path": name})) if "?" in last["content"][-1] else None
            assert made is not None
            return answer(made, finish="tool_calls")
        return text(last["content"])

    engine.otherwise = write
    done = await asked_by_claude(tmp_path, gateway, jobs=2)
    assert len(done) == len(claude_questions.QUESTIONS)
    assert [each.question for each in done if each.wrong] == []
    assert all(each.calls and each.calls[0].startswith("Read(") for each in done)


async def test_an_answer_without_a_look_is_made_up(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    engine.otherwise = lambda body: text("It is 8080.")
    assert {each.wrong for each in await asked_by_claude(tmp_path, gateway)} == {"invented: nothing was looked up"}


async def test_a_request_that_was_recorded_elsewhere_is_rejected(gateway: GatewayUnderTest, tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="/another"):
        await asked_by_claude(tmp_path, gateway, folder="/another")


@pytest.mark.parametrize(
    ("name", "given", "content", "failed"),
    [
        ("Read", {"file_path": "a.txt"}, "1\tone\n2\ttwo", False),
        ("Read", {"file_path": "b.txt"}, "<tool_use_error>File does not exist.", True),
        ("Read", {}, "<tool_use_error>", True),
        ("Bash", {"command": "cat a.txt"}, "one\ntwo\n", False),
        ("Bash", {"command": "true"}, "(Bash completed with no output)", False),
        ("Bash", {"command": "echo no; exit 3"}, "Exit code 3\nno\n", True),
        ("Write", {"file_path": "a.txt", "content": ""}, claude_questions.NOT_ALLOWED, True),
    ],
)
def test_calls_are_run_as_claude_code_runs_them(
    name: str, given: dict[str, Any], content: str, failed: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    client = claude_questions.Client({"messages": []}, tmp_path)
    client.answered([{"type": "tool_use", "id": "t", "name": name, "input": given}])
    result = client.body["messages"][-1]["content"][0]
    assert result["content"].startswith(content)
    assert result.get("is_error", False) is failed


def test_both_programs_read_their_options(tmp_path: Path) -> None:
    assert searches.options(["--set", "final", "--repeat", "3"]).repeat == 3
    assert claude_questions.options(["--request", "f", "--folder", "/x"]).question == "What is in notes.txt?"


def test_sources_of_another_version_come_before_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/others")
    searches.use_sources(tmp_path)
    assert os.environ["PYTHONPATH"] == f"{tmp_path.resolve()}{os.pathsep}/others"
