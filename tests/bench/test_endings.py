"""The collection of endings: which answers it writes, how its conversations go on, and when it stops."""

import asyncio
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.codex import calls, shell
from support.engine import MockEngine, Refusal, call, text

from bench.models.endings import FOLLOW_UPS, MOST_FAILURES, MOST_REQUESTS, STORIES, SYSTEMS, main, starts

WRITTEN = '```json\n{"name": "shell", "arguments": {"command": "ls"}}\n```'


async def collected(engine: MockEngine, out: Path, count: int, concurrency: int = 1) -> tuple[int, list[dict[str, Any]]]:
    given = ["--engine", engine.url, "--model-name", "some", "--count", str(count), "--concurrency", str(concurrency)]
    status = await asyncio.to_thread(main, [*given, "--out", str(out)])
    lines = await asyncio.to_thread(out.read_text)
    return status, [json.loads(line) for line in lines.splitlines()]


async def test_answers_in_words_are_written_and_calls_are_answered(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(calls(shell("ls")), text(WRITTEN), text("I will now run the tests."), text("All is well."))
    status, endings = await collected(engine, tmp_path / "endings.jsonl", 2)
    assert status == 0
    assert [(each["model"], each["text"], each["turn"]) for each in endings] == [
        ("some", "I will now run the tests.", 1),
        ("some", "All is well.", 2),
    ]
    roles = [message["role"] for message in engine.last["messages"]]
    assert roles[-6:] == ["assistant", "tool", "assistant", "tool", "assistant", "user"]
    assert engine.last["messages"][-1]["content"] in FOLLOW_UPS
    assert all(len(body["tools"]) == 4 and 0.7 <= body["temperature"] <= 1.0 for body in engine.requests)


async def test_an_answer_that_was_cut_off_or_is_empty_is_no_ending(engine: MockEngine, tmp_path: Path) -> None:
    engine.will(text("I will now", finish="length"), text("\n"), text("Done."))
    _, endings = await collected(engine, tmp_path / "endings.jsonl", 1)
    assert [each["text"] for each in endings] == ["Done."]


async def test_many_are_asked_for_at_the_same_time(engine: MockEngine, tmp_path: Path) -> None:
    _, endings = await collected(engine, tmp_path / "endings.jsonl", 60, concurrency=8)
    assert len(endings) == 60
    assert len({each["kind"] for each in endings}) > 8


@pytest.mark.parametrize(
    ("answer", "requests"),
    [(Refusal(500, {"error": {"message": "no"}}), MOST_FAILURES), (calls(call("shell", "{}")), 10 * MOST_REQUESTS)],
)
async def test_it_stops_where_there_are_no_endings(
    engine: MockEngine, tmp_path: Path, answer: Any, requests: int, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.otherwise = lambda body: answer
    status, endings = await collected(engine, tmp_path / "endings.jsonl", 10)
    assert (status, endings) == (1, [])
    assert len(engine.requests) == requests
    assert ("500: " in capsys.readouterr().err) == isinstance(answer, Refusal)


def test_every_story_is_told_at_each_of_its_steps_and_the_same_seed_begins_the_same() -> None:
    begun = list(islice(starts(7), 2000))
    assert {(start.story.kind, start.made) for start in begun} == {
        (story.kind, made) for story in STORIES for made in range(len(story.steps) + 1)
    }
    assert {start.system for start in begun} == SYSTEMS.keys()
    assert begun == list(islice(starts(7), 2000))
    assert begun != list(islice(starts(8), 2000))
