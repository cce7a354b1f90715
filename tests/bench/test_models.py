"""The measurement of small models: its judges, what it sees of a response, its results, its page and its processes."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from support.codex import calls, shell
from support.commands import bare_environment, python_path
from support.engine import MockEngine, Refusal, call, text
from support.gateway import GatewayUnderTest
from support.servers import running_app

import bench
from bench.models.__main__ import is_enough, options, write_page
from bench.models.codex_runs import TaskRun, Workplace
from bench.models.page import page
from bench.models.question_runs import QuestionRun, ask
from bench.models.questions import PLAIN_QUESTIONS, QUESTIONS, TOOLS
from bench.models.results import Measured, keep_results, read_results
from bench.models.subjects import SUBJECTS, Running, gateway_settings
from bench.models.tasks import CITIES, GREETING, LETTER, TASKS, Task
from bench.models.watcher import Seen, Target, watching

TASKS_BY_NAME = {task.name: task for task in TASKS}


def writes(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def renames(old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / old).rename(folder / new)


# What a model may do that has understood the task.
SOLUTIONS: dict[str, Callable[[Path], object]] = {
    "hello": writes("hello.txt", "Hello, world!\n"),
    "settings": writes("settings.json", '{\n  "debug": true,\n  "port": 8080\n}'),
    "cities": renames("towns.txt", "cities.txt"),
    "plan": renames("draft.md", "plan.md"),
    "letter": writes("letter.txt", LETTER.replace("recieve", "receive")),
    "greeting": writes("greeting.py", GREETING.replace("Helo", "Hello")),
    "data": writes("count.txt", "7"),
    "log": writes("lines.txt", "12\n"),
    "add": writes("calc.py", "def add(a, b):\n    return a + b\n"),
    "parity": writes("parity.py", "def is_even(number):\n    return number % 2 == 0\n"),
    "build": lambda folder: (folder / "build").mkdir(),
    "images": lambda folder: (folder / "docs" / "images").mkdir(parents=True),
}


@pytest.mark.parametrize("task", TASKS, ids=TASKS_BY_NAME)
def test_a_task_is_done_by_its_solution_and_not_before(task: Task, tmp_path: Path) -> None:
    task.prepare(tmp_path)
    assert not task.is_done(tmp_path)
    SOLUTIONS[task.name](tmp_path)
    assert task.is_done(tmp_path)


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_a_repository_is_made_without_the_git_settings_of_the_machine(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text("[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = false\n")
    monkeypatch.setenv(variable, str(settings))
    assert (Workplace(tmp_path, TASKS[0]).repository / ".git").is_dir()


def test_a_copy_is_no_renamed_file_and_a_wrong_program_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "towns.txt").write_text(CITIES)
    (tmp_path / "cities.txt").write_text(CITIES)
    assert not TASKS_BY_NAME["cities"].is_done(tmp_path)
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return 5\n")
    assert not TASKS_BY_NAME["add"].is_done(tmp_path)


def test_a_question_is_answered_by_one_call_of_its_tool_with_its_arguments() -> None:
    paris = QUESTIONS[0]
    assert paris.is_answered_by([("get_weather", {"city": "Paris, France"})])
    assert not paris.is_answered_by([])
    assert not paris.is_answered_by([("get_time", {"city": "Paris"})])
    assert not paris.is_answered_by([("get_weather", {"city": "Oslo"})])
    assert not paris.is_answered_by([("get_weather", {"city": "Paris"})] * 2)
    assert PLAIN_QUESTIONS[0].is_answered_by([])
    assert not PLAIN_QUESTIONS[0].is_answered_by([("get_time", {"city": "Paris"})])


async def see(gateway: GatewayUnderTest, *inputs: str, **fields: Any) -> Seen:
    """What a watcher sees of these responses."""
    target = Target(gateway.url)
    tool = {"type": "function", "name": "exec_command", "parameters": {"type": "object"}, "strict": False}
    async with watching(target, target) as watcher, aiohttp.ClientSession() as client:
        for each in inputs:
            body = {"model": "mock", "input": each, "tools": [tool], "stream": True, **fields}
            async with client.post(f"http://127.0.0.1:{watcher.port}/v1/responses", json=body) as answer:
                await answer.read()
        return watcher.seen


async def test_the_watcher_sees_responses_and_the_first_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(text("Let me see."))
    seen = await see(gateway, "Hi")
    assert (seen.responses, seen.first_action) == (1, None)
    engine.will(calls(shell("ls")), text("Done."))
    seen = await see(gateway, "Hi", "Go on")
    assert seen.responses == 2
    assert seen.first_action is not None


async def test_the_watcher_sees_that_a_request_was_rejected(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(Refusal(400, {"error": {"message": "no such thing", "code": 400}}))
    seen = await see(gateway, "Hi")
    assert seen.rejected.startswith("400: ")


async def test_the_watcher_sends_responses_to_one_place_and_the_rest_to_another(gateway: GatewayUnderTest) -> None:
    other = MockEngine()
    await other.start()
    try:
        async with watching(Target(other.url), Target(gateway.url)) as watcher, aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{watcher.port}"
            async with client.get(f"{url}/ready") as ready, client.post(f"{url}/v1/responses", json={}) as response:
                assert (ready.status, response.status) == (200, 404)
    finally:
        await other.stop()


async def test_a_question_is_asked_through_the_gateway(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(
        calls(call("get_weather", '{"city": "Paris"}')), text("It is sunny."), Refusal(400, {"error": {"message": "no"}})
    )
    target = Target(gateway.url)
    subject = Running(SUBJECTS["help"], "mock", target, target)
    async with aiohttp.ClientSession() as session:
        runs = [await ask(QUESTIONS[0], subject, session) for _ in range(3)]
    assert [run.is_right for run in runs] == [True, False, False]
    assert "sunny" in runs[1].found
    assert engine.requests[0]["temperature"] == 0
    assert [tool["function"]["name"] for tool in engine.requests[0]["tools"]] == [tool["name"] for tool in TOOLS]


async def test_a_question_is_asked_by_the_engines_own_endpoint() -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    paths = {"/v1/chat/completions": {"choices": [{"message": message, "finish_reason": "tool_calls"}]}}
    async with serving_json(paths) as url, aiohttp.ClientSession() as session:
        subject = Running(SUBJECTS["engine"], "mock", Target(url), Target(url))
        assert (await ask(QUESTIONS[0], subject, session)).is_right
        assert not (await ask(QUESTIONS[5], subject, session)).is_right


@asynccontextmanager
async def serving_json(paths: dict[str, Any]) -> AsyncIterator[str]:
    """A server that answers a POST of each path with its document."""
    app = web.Application()
    for path, document in paths.items():
        app.router.add_post(path, partial(_answer, document))
    async with running_app(app) as url:
        yield url


async def _answer(document: Any, request: web.Request) -> web.Response:
    return web.json_response(document)


# ---- results ---------------------------------------------------------------------------------------------------------


def measured(done: int, right: int, *, runs: int = 1, timeout: float = 60) -> Measured:
    """Of some model: all tasks and questions, the first ones done and right."""
    plan = [task for _ in range(runs) for task in TASKS]
    tasks = [TaskRun(task.kind, task.name, number < done, 4.0, 2.0, 2) for number, task in enumerate(plan)]
    questions = [
        QuestionRun(question.text, question.tool, number < right, 0.5, "")
        for number, question in enumerate((*QUESTIONS, *PLAIN_QUESTIONS))
    ]
    return Measured("some-model", runs, timeout, tasks, questions)


def without(found: Measured, *, tasks: int = 0, questions: int = 0) -> Measured:
    """As if the measurement had left the last ones out."""
    kept, asked = found.tasks[: len(found.tasks) - tasks], found.questions[: len(found.questions) - questions]
    return Measured(found.model, found.runs, found.timeout, kept, asked)


def test_enough_is_sixty_percent_of_the_tasks_and_ninety_five_of_the_questions() -> None:
    assert is_enough(measured(8, 48))
    assert not is_enough(measured(7, 50))
    assert not is_enough(measured(12, 47))


def test_a_task_may_take_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench.models"])
    assert (options().timeout, options().runs) == (60, 3)


def test_what_was_left_out_stays_as_it_was_with_its_runs_and_its_timeout(tmp_path: Path) -> None:
    file = tmp_path / "results" / "models.json"
    before, after = measured(6, 19, runs=3, timeout=120), measured(0, 1)
    keep_results({"help": before, "off": before}, file)
    keep_results({"help": without(after, tasks=12)}, file)
    keep_results({"off": without(after, questions=60)}, file)
    kept = read_results("some-model", file)
    assert kept["help"] == Measured("some-model", 3, 120, before.tasks, after.questions)
    assert kept["off"] == Measured("some-model", 1, 60, after.tasks, before.questions)


def test_a_part_of_the_tasks_replaces_nothing(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    keep_results({"help": measured(6, 19)}, file)
    keep_results({"help": without(measured(9, 9), tasks=1, questions=1)}, file)
    assert read_results("some-model", file) == {"help": measured(6, 19)}


def test_the_results_of_another_model_are_kept_apart(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    other = msgspec.structs.replace(measured(1, 1), model="hf:owner/other/file.gguf")
    keep_results({"help": measured(6, 19), "off": measured(1, 2)}, file)
    keep_results({"help": other}, file)
    assert read_results(other.model, file) == {"help": other}
    assert read_results("some-model", file) == {"help": measured(6, 19), "off": measured(1, 2)}


def test_results_by_the_name_of_the_subject_alone_are_read(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_bytes(msgspec.json.encode({"help": measured(6, 19), "off": Measured("another")}))
    assert read_results("some-model", file) == {"help": measured(6, 19)}
    keep_results({"off": measured(1, 2)}, file)
    assert read_results("some-model", file) == {"help": measured(6, 19), "off": measured(1, 2)}


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_each_kind_and_subject() -> None:
    shown = page({"help": measured(6, 19), "off": measured(1, 52)})
    assert "| **Antiphon with help** | 6 of 12 | 4.0 | 2.0 | 2.0 |" in shown
    assert "| make a file | Antiphon without help | 1 of 2 | 4.0 | 2.0 | 2.0 |" in shown
    assert "| Antiphon with help | 19 of 50 | 0 of 10 | 0.5 |" in shown
    assert "| Antiphon without help | 50 of 50 | 2 of 10 | 0.5 |" in shown
    assert "llama.cpp" not in shown, "it was not measured"


def test_the_page_says_runs_and_timeouts_of_each_subject_where_they_differ() -> None:
    def words(**results: Measured) -> str:
        return " ".join(page(results).split())

    assert "more than 60 seconds is not done. Sampling varies, so every task was done 3 times." in words(
        help=measured(6, 19, runs=3), off=measured(1, 2, runs=3)
    )
    assert (
        "Antiphon with help: 3 times, at most 120 seconds each; Antiphon without help: once, at most 60 seconds each."
    ) in words(off=measured(1, 2), help=measured(6, 19, runs=3, timeout=120))


@pytest.mark.parametrize("left_out", [{"tasks": 1}, {"tasks": 12}, {"questions": 1}, {"questions": 60}])
def test_a_subject_with_a_part_of_the_tasks_or_questions_is_not_on_the_page(
    left_out: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, written = tmp_path / "models.json", tmp_path / "page.md"
    monkeypatch.setattr("bench.models.__main__.PAGE", written)
    part = without(measured(6, 19), **left_out)
    file.write_bytes(msgspec.json.encode({"help": part}))
    write_page("some-model", file)
    assert not written.exists()
    file.write_bytes(msgspec.json.encode({"help": part, "off": measured(1, 2)}))
    write_page("some-model", file)
    assert "Antiphon with help" not in written.read_text()
    assert "not on the page: Antiphon with help." in capsys.readouterr().out


# ---- processes -------------------------------------------------------------------------------------------------------


def test_the_engine_alone_has_the_settings_of_the_gateway_that_it_is_compared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "antiphon.toml").write_text("model_slots = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_MODEL_CONTEXT", "1234")
    monkeypatch.setenv("ANTIPHON_MODEL_THREADS", "3")
    settings = gateway_settings()
    assert (settings.model_slots, settings.model_context, settings.model_threads) == (2, None, 3)


def test_a_signal_stops_the_gateway_and_codex_which_run_in_the_same_session(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    path = os.pathsep.join((python_path(), str(Path(bench.__file__).parents[1])))
    command = [sys.executable, "-m", "support.bench_command", "--subjects", "help", "--tasks-only"]
    with subprocess.Popen(command, env=bare_environment(PYTHONPATH=path, PIDS=str(pids)), stdout=subprocess.DEVNULL) as running:
        started: dict[str, int] = {}
        try:
            started |= [_next_process(pids), _next_process(pids)]
            assert started.keys() == {"serve", "codex"}
            assert {os.getsid(pid) for pid in started.values()} == {os.getsid(running.pid)}
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 143
            assert not [pid for pid in started.values() if Path(f"/proc/{pid}").exists()]
        finally:
            running.kill()
            for pid in started.values():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _next_process(pids: Path) -> tuple[str, int]:
    """The name and pid that it has written into the pipe. Waits for it."""
    name, pid = pids.read_text().split()
    return name, int(pid)
