"""The measurement of small models: its judges, what it sees of a response, and its page."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from support.codex import calls, shell
from support.engine import MockEngine, Refusal, call, text
from support.gateway import GatewayUnderTest

from bench.models.__main__ import completed, is_enough
from bench.models.codex_runs import TaskRun, Workplace
from bench.models.page import Measured, page
from bench.models.question_runs import QuestionRun, ask
from bench.models.questions import PLAIN_QUESTIONS, QUESTIONS, TOOLS
from bench.models.subjects import SUBJECTS, Running
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
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _answer(document: Any, request: web.Request) -> web.Response:
    return web.json_response(document)


def measured(done: int, right: int) -> Measured:
    tasks = [TaskRun("rename", "plan", number < done, 4.0, 2.0, 2) for number in range(10)]
    questions = [QuestionRun("?", "get_time", number < right, 0.5, "") for number in range(20)]
    return Measured("some-model", 3, 120, tasks, [*questions, QuestionRun("!", None, True, 0.5, "")])


def test_enough_is_sixty_percent_of_the_tasks_and_ninety_five_of_the_questions() -> None:
    assert is_enough(measured(6, 19))
    assert not is_enough(measured(5, 20))
    assert not is_enough(measured(10, 18))


def test_what_was_left_out_comes_from_before_if_the_model_is_the_same() -> None:
    before, questions = measured(6, 19), Measured("some-model", 1, 60, [], measured(0, 1).questions)
    both = completed(questions, before)
    assert (both.runs, both.timeout, both.tasks, both.questions) == (3, 120, before.tasks, questions.questions)
    assert completed(Measured("another"), before) == Measured("another")
    assert completed(questions, None) is questions


def test_the_page_has_a_row_for_each_kind_and_subject() -> None:
    shown = page({"help": measured(6, 19), "off": measured(1, 2)})
    assert "| **Antiphon with help** | 6 of 10 | 4.0 | 2.0 | 2.0 |" in shown
    assert "| rename | Antiphon without help | 1 of 10 | 4.0 | 2.0 | 2.0 |" in shown
    assert "| Antiphon with help | 19 of 20 | 1 of 1 | 0.5 |" in shown
