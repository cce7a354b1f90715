"""The questions with function tools: asked of each API, judged, and continued where a run was stopped; and their page."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from support.doc_blocks import ROOT
from support.engine import MockEngine, Refusal, Writer, answer, call, text
from support.gateway import GatewayUnderTest
from support.servers import running_app

from bench.endpoints import page
from bench.endpoints.__main__ import options
from bench.endpoints.questions import APIS, KINDS, QUESTIONS, ask, ask_all, counts, left, measure
from bench.endpoints.results import Finding, Results, Setup, compact
from bench.endpoints.subjects import SUBJECTS, Endpoint, engine_at
from bench.processes import family

PENCILS = next(each for each in QUESTIONS if each.text == "Order 12 pencils.")
CAPITAL = next(each for each in QUESTIONS if each.text == "What is the capital of Peru?")


def ordered(number: int) -> bytes:
    return answer(call("create_order", f'{{"article": "pencils", "quantity": {number}}}', id="a"), finish="tool_calls")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("said", "question", "wrong"),
    [
        (ordered(12), PENCILS, None),
        (ordered(11), PENCILS, "[('create_order', {'article': 'pencils', 'quantity': 11})] "),
        (text("They are ordered."), PENCILS, "[] They are ordered."),
        (text("It is Lima."), CAPITAL, None),
    ],
    ids=["right call", "wrong argument", "no call", "in words"],
)
async def test_a_question_is_judged_by_its_calls(
    api: str, said: bytes, question: Any, wrong: str | None, gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    engine.otherwise = lambda body: said
    async with aiohttp.ClientSession() as session:
        assert await ask(session, Endpoint(gateway.url, "mock"), APIS[api], question) == wrong
    assert len(engine.last["tools"]) == 10
    assert engine.last["temperature"] == 0


async def test_an_error_is_a_wrong_answer(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.otherwise = lambda body: Refusal(400, "no")
    async with aiohttp.ClientSession() as session:
        wrong = await ask(session, Endpoint(gateway.url, "mock"), APIS["chat"], CAPITAL)
    assert wrong is not None
    assert wrong.startswith("HTTP 400: ")


async def test_what_was_asked_is_not_asked_again(gateway: GatewayUnderTest, engine: MockEngine, tmp_path: Path) -> None:
    engine.otherwise = lambda body: text("Hello.")
    file = tmp_path / "found.jsonl"
    results = Results(file)
    for api in APIS:
        results.add(*(Finding("questions", api, "antiphon", each.text, 1) for each in QUESTIONS[2:]))
    assert len(left(results, "antiphon")) == 2 * len(APIS)
    before = len(engine.requests)
    await ask_all(Endpoint(gateway.url, "mock"), "antiphon", results, jobs=2)
    assert len(engine.requests) - before == 2 * len(APIS)
    assert left(Results(file), "antiphon") == []
    assert len(left(Results(file), "llama.cpp")) == len(QUESTIONS) * len(APIS)


def test_a_run_that_is_stopped_has_asked_some_of_each_kind() -> None:
    assert len(QUESTIONS) == 60
    assert {each.kind for each in QUESTIONS[:6]} == set(KINDS)


async def test_an_engine_that_runs_is_asked_itself(engine: MockEngine, tmp_path: Path) -> None:
    engine.otherwise = lambda body: text("Hello.")
    engine.paths["/props"] = {"build_info": "b1"}
    chosen = options(["--parts", "questions", "--engine", engine.url, "--subjects", "llama.cpp", "--jobs", "4"])
    results = Results(tmp_path / "found.jsonl")
    await measure(chosen, results)
    # The engine of the tests knows Chat Completions only.
    assert counts(results, "chat", "llama.cpp", "in words") == (20, 20)
    assert counts(results, "messages", "llama.cpp", "in words") == (0, 20)
    assert results.setups["questions", "llama.cpp"].versions == ["llama.cpp b1"]


async def test_an_engine_that_runs_says_its_model_and_its_build() -> None:
    app = web.Application()
    app.router.add_get("/v1/models", answers({"data": [{"id": "qwen"}]}))
    app.router.add_get("/props", answers({"build_info": "b11549-abc"}))
    async with running_app(app) as url:
        engine = await engine_at(url)
    assert (engine.model, engine.about) == ("qwen", "llama.cpp b11549-abc")


def answers(value: Any) -> Callable[[web.Request], Any]:
    async def handler(request: web.Request) -> web.Response:
        return web.json_response(value)

    return handler


async def test_a_signal_ends_a_run_and_the_gateway_that_it_has_started(engine: MockEngine, tmp_path: Path) -> None:
    async def says_nothing(write: Writer) -> None:
        await asyncio.Event().wait()

    engine.otherwise = lambda body: says_nothing
    engine.paths["/props"] = {"build_info": "b1"}
    command = ["-m", "bench.endpoints", "--parts", "questions", "--subjects", "antiphon", "--engine", engine.url]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--results", str(tmp_path / "found.jsonl"), cwd=ROOT, stderr=PIPE
    )
    await engine.asked.wait()
    _, *started = family(process.pid)
    process.terminate()
    assert await process.wait() == 143
    assert started
    assert [each for each in started if is_there(each)] == []


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# ---- results and their page ------------------------------------------------------------------------------------------


def test_a_line_that_was_cut_off_is_left_out_and_the_later_of_two_counts(tmp_path: Path) -> None:
    file = tmp_path / "found.jsonl"
    results = Results(file)
    results.add(Finding("questions", "chat", "litellm", "a", 0, wrong="no"), Finding("questions", "chat", "litellm", "a", 1))
    with file.open("ab") as lines:
        lines.write(b'{"type":"finding","part":"questions","api"')
    read = Results(file)
    assert [each.right for each in read.of("questions", "chat")] == [1]
    compact(read, file)
    assert file.read_bytes().count(b"\n") == 1
    assert Results(file).findings == read.findings


def test_the_page_says_what_was_asked_of_whom(tmp_path: Path) -> None:
    results = Results(tmp_path / "found.jsonl")
    assert page.summary(results) == page.sections(results) == ""
    one, two = (next(each for each in QUESTIONS if each.kind == kind) for kind in ("one call", "two calls"))
    results.add(
        Setup("questions", "antiphon", ["llama.cpp b1", "Antiphon 0.1.0"], "qwen", "2 cores"),
        Finding("questions", "chat", "antiphon", one.text, 1),
        Finding("questions", "chat", "antiphon", two.text, 0, wrong="no"),
        Setup("checks", "litellm", ["llama.cpp b1", "LiteLLM 1"], "random weights", "2 cores"),
        Finding("checks", "messages", "litellm", "streams", 3, 5),
        Finding("cache", "messages", "llama.cpp", "turns 2 to 10", 1, 4),
        Setup("cache", "llama.cpp", ["llama.cpp b1"], "smollm2", "2 cores"),
    )
    text = page.summary(results) + page.sections(results)
    assert "| questions with tools, Chat Completions | – | – | 1 of 2 |" in text
    assert "| checks of the form, Messages | – | 3 of 5 | – |" in text
    assert "| Claude Code, cached: turns 2 to 10 | 25.0 % | – | – |" in text
    assert "checks of the form, Chat Completions" not in text
    assert "2 questions, each with ten tools" in text
    assert "| Chat Completions, two calls | – | – | 0 of 1 |" in text
    assert "llama.cpp b1, Antiphon 0.1.0; model: qwen; on 2 cores." in text
    assert "llm-comply" not in text
    assert counts(results, "chat", "antiphon", "one call") == (1, 1)
    assert [*SUBJECTS] == ["llama.cpp", "litellm", "antiphon"]
