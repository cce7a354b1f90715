"""The measurement of small models: its judges, what it sees of a response, its results, its page and its processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
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
from support.engine import OWN_FIELDS, MockEngine, Refusal, call, text
from support.gateway import GatewayUnderTest
from support.servers import running_app

import bench
from bench.models.__main__ import main, options
from bench.models.agent_tasks import COMPANY, SALES, VERSIONS
from bench.models.codex_runs import Workplace
from bench.models.conversations import CONVERSATIONS, SHOP, Conversation
from bench.models.judges import Outcome, Task
from bench.models.page import PAGE, announcements, page
from bench.models.plan import ALL, Entry, measure
from bench.models.questions import ALL_QUESTIONS, PAIRS, PLAIN_QUESTIONS, QUESTIONS, TOOLS
from bench.models.results import PARTS, Run, append_result, read_results
from bench.models.subjects import SUBJECTS, OutsideEngine, Running, gateway_settings, outside_engine
from bench.models.talks import ask, converse, parroted
from bench.models.tasks import CITIES, GREETING, LETTER, TASKS
from bench.models.watcher import Seen, Target, watching
from bench.processes import BenchFailed

TASKS_BY_NAME = {task.name: task for task in TASKS}


# What a model may do that has understood the task, with the words of its last answer.
Solution = Callable[[Path], object]


def writes(name: str, content: str) -> Solution:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)

    return write


def renames(old: str, new: str) -> Solution:
    def rename(folder: Path) -> None:
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        (folder / old).rename(folder / new)

    return rename


def says(words: str) -> Solution:
    return lambda folder: words


def then(*solutions: Solution) -> Solution:
    return lambda folder: [each(folder) for each in solutions]


def replaces(files: Mapping[str, str], old: str, new: str) -> Solution:
    return then(*(writes(name, text.replace(old, new)) for name, text in files.items()))


SOLUTIONS: dict[str, Solution] = {
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
    "discount": writes("price.py", "def reduced(price, percent):\n    return price - price * percent / 100\n"),
    "longest": writes("words.py", "def longest(words):\n    return max(words, key=len)\n"),
    "version": replaces(VERSIONS, "1.2.0", "1.3.0"),
    "company": replaces(COMPANY, "Acme", "Apex"),
    "errors": writes("errors.txt", "3"),
    "sales": writes("total.txt", str(sum(int(line.split(",")[1]) for line in SALES.splitlines()[1:]))),
    "port": writes("port.txt", "9417"),
    "backups": writes("owner.txt", "li@example.com\n"),
    "archive": then(renames("old.txt", "archive/old.txt"), writes("done.txt", "done")),
    "package": then(renames("main.py", "app/main.py"), writes("app/version.txt", "0.1\n")),
    "release": says("It is version 4.7.2."),
    "deadline": says("The deadline is 14 March."),
    "capital": says("The capital of France is Paris."),
    "hour": says("Two hours have 120 minutes."),
    "report": says("There is no file report.txt."),
    "budget": says("I could not find budget.csv."),
    "folder": writes("out/report.txt", "all is well\n"),
    "settings-file": writes("settings.json", '{"port": 8080}'),
    "countdown": writes("countdown.py", "for number in range(5, 0, -1):\n    print(number)\n"),
    "squares": writes("squares.py", "print(*(number**2 for number in range(1, 6)), sep='\\n')\n"),
}


@pytest.mark.parametrize("task", TASKS, ids=TASKS_BY_NAME)
def test_a_task_is_done_by_its_solution_and_not_before(task: Task, tmp_path: Path) -> None:
    task.prepare(tmp_path)
    assert not task.is_done(Outcome(tmp_path, "Done."))
    words = SOLUTIONS[task.name](tmp_path)
    assert task.is_done(Outcome(tmp_path, str(words)))


@pytest.mark.parametrize("part", PARTS)
def test_every_kind_has_a_half_for_tuning_and_one_that_only_the_table_is_made_of(part: Any) -> None:
    entries = [Entry(part, what, 1) for what in ALL[part]]
    assert len({entry.name for entry in entries}) == len(entries), "results are kept by name"
    halves = {half: {entry.kind for entry in entries if entry.half == half} for half in ("tuning", "final")}
    assert all(halves.values())
    # The tools of conversations are others in each half: nothing can be tuned to them.
    assert halves["tuning"].isdisjoint(halves["final"]) if part == "conversations" else halves["tuning"] == halves["final"]


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
    assert not TASKS_BY_NAME["cities"].is_done(Outcome(tmp_path))
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return 5\n")
    assert not TASKS_BY_NAME["add"].is_done(Outcome(tmp_path))


def test_a_question_is_answered_by_one_call_of_its_tool_with_its_arguments() -> None:
    paris = QUESTIONS[0]
    assert paris.is_answered_by([("get_weather", {"city": "Paris, France"})])
    assert not paris.is_answered_by([])
    assert not paris.is_answered_by([("get_time", {"city": "Paris"})])
    assert not paris.is_answered_by([("get_weather", {"city": "Oslo"})])
    assert not paris.is_answered_by([("get_weather", {"city": "Paris"})] * 2)
    paris_and_rome = [("get_weather", {"city": city}) for city in ("Rome", "Paris")]
    assert PAIRS[0].is_answered_by(paris_and_rome)
    assert not PAIRS[0].is_answered_by(paris_and_rome[:1])
    assert not PAIRS[0].is_answered_by([*paris_and_rome, paris_and_rome[0]])


def test_a_plain_question_is_answered_in_words_that_are_no_call() -> None:
    plain = PLAIN_QUESTIONS[0]
    assert plain.is_answered_by([], "I am a model.")
    assert not plain.is_answered_by([("get_time", {"city": "Paris"})], "I am a model.")
    assert not plain.is_answered_by([], " ")
    assert not plain.is_answered_by([], '```json\n{"name": "get_time", "arguments": {"city": "Paris"}}\n```')


def conversation(name: str) -> Conversation:
    return next(each for each in CONVERSATIONS if each.name == name)


def test_a_turn_is_right_by_its_calls_and_its_words() -> None:
    find, order, _ = conversation("shop-1").turns
    lookup, made = (
        ("find_customer", {"name": "Maria Lopez"}),
        ("create_order", {"customer_id": "C-104", "product": "Lamp", "quantity": 2}),
    )
    assert find.is_right([lookup], "She has the id C-104.", SHOP.acts)
    assert find.is_right([lookup, lookup], "C-104", SHOP.acts), "looking something up again does no harm"
    assert not find.is_right([lookup], "I have found her.", SHOP.acts)
    assert not find.is_right([], "C-104", SHOP.acts)
    assert find.is_right([], "C-104", SHOP.acts, [lookup]), "it was looked up in an earlier turn"
    assert not order.is_right([], "Done.", SHOP.acts, [made])
    assert order.is_right([made], "Done.", SHOP.acts)
    assert not order.is_right([made, made], "Done.", SHOP.acts)
    assert not order.is_right([made], "", SHOP.acts)
    assert '"C-104"' in SHOP.result_of(lookup)
    assert SHOP.result_of(("find_customer", {"name": "Zoe"})) == '{"customers": []}'


async def see(gateway: GatewayUnderTest, *inputs: Any, **fields: Any) -> Seen:
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


async def test_the_watcher_sees_what_was_done_twice_and_the_last_words(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    def step(number: int, command: str, code: int) -> list[dict[str, Any]]:
        called = {"type": "function_call", "name": "exec_command", "arguments": f'{{"cmd": "{command}"}}'}
        ids = {"call_id": f"call_{number}"}
        return [called | ids, {"type": "function_call_output", "output": f"Process exited with code {code}\nOutput:\n"} | ids]

    steps = [*step(1, "ls", 0), *step(2, "ls", 0), *step(3, "make", 1), *step(4, "make", 1)]
    engine.will(text("All is well."))
    seen = await see(gateway, steps)
    assert seen.repeated == ['exec_command {"cmd": "ls"}'], "what failed may be tried again"
    assert seen.words == "All is well."


async def test_questions_and_conversations_are_talked_through_the_gateway(
    gateway: GatewayUnderTest, engine: MockEngine
) -> None:
    target = Target(gateway.url)
    subject = Running(SUBJECTS["help"], "mock", target, target)
    paris = calls(call("get_weather", '{"city": "Paris"}'))
    find = calls(call("find_customer", '{"name": "Maria Lopez"}'))
    order = calls(call("create_order", '{"customer_id": "C-104", "product": "lamp", "quantity": 2}'))
    async with aiohttp.ClientSession() as session:
        engine.will(paris, text("It is sunny."), Refusal(400, {"error": {"message": "no"}}))
        asked = [await ask(QUESTIONS[0], subject, session) for _ in range(3)]
        assert engine.requests[0]["temperature"] == 0
        assert [tool["function"]["name"] for tool in engine.requests[0]["tools"]] == [tool["name"] for tool in TOOLS]
        engine.will(find, text("Her id is C-104."), order, order, text("Ordered."), text("It was O-77."))
        talked = await converse(conversation("shop-1"), subject, session)
    assert [each.right for each in asked] == [1, 0, 0]
    assert "sunny" in asked[1].found[0]
    assert (talked.right, talked.responses, talked.repeated, talked.ended) == (2, 6, ["create_order"], True)
    assert engine.requests[-1]["messages"][-2]["role"] == "assistant"


def test_a_sentence_of_the_gateway_in_an_answer_is_seen() -> None:
    assert parroted("Do not make it again: you have its result. All is done.")
    assert parroted("The goats and the hens were fed."), "an example is copied"
    assert not parroted("I have made it again, and have its result.")


async def test_a_question_is_asked_by_the_engines_own_endpoint() -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    paths = {"/v1/chat/completions": {"choices": [{"message": message, "finish_reason": "tool_calls"}]}}
    async with serving_json(paths) as url, aiohttp.ClientSession() as session:
        subject = Running(SUBJECTS["engine"], "mock", Target(url), Target(url))
        assert [(await ask(question, subject, session)).right for question in (QUESTIONS[0], QUESTIONS[5])] == [1, 0]


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


def runs_of(subject: str, *, fails: Collection[str] = (), numbers: int = 1) -> list[Run]:
    """Of everything in the final half: all is right, but for what has one of these kinds."""
    entries = [Entry(part, what, number) for part in PARTS for what in ALL[part] for number in range(1, numbers + 1)]
    return [
        Run(
            "some-model", subject, entry.part, entry.half, entry.kind, entry.name, entry.number,
            right=0 if entry.kind in fails else entry.asked, asked=entry.asked, seconds=4.0, machine="some", found="so it was",
        )
        for entry in entries
        if entry.half == "final"
    ]  # fmt: skip


def test_a_measurement_is_continued_by_its_lines_even_if_the_last_one_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "results" / "models.jsonl"
    runs = runs_of("help")[:3]
    for run in runs:
        append_result(run, file)
    file.write_bytes(file.read_bytes()[:-20])
    assert read_results(file) == runs[:2]
    again = msgspec.structs.replace(runs[0], right=0)
    append_result(runs[2], file)
    append_result(again, file)
    assert read_results(file) == [again, runs[1]], "the line after one that was cut off is lost with it"
    append_result(runs[2], file)
    assert read_results(file) == [again, runs[1], runs[2]]


def test_what_was_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gateway is started for it."""
    file = tmp_path / "models.jsonl"
    for run in runs_of("help"):
        append_result(run, file)
    started: list[str] = []
    monkeypatch.setattr("bench.models.plan._work", lambda name, *rest: _note(started, name))
    chosen = options(["--model", "some-model", "--results", str(file), "--runs", "1", "--subjects", "help,off", "--jobs", "2"])
    asyncio.run(measure(chosen))
    assert started == ["off", "off"]


async def _note(started: list[str], name: str) -> None:
    started.append(name)


def test_only_the_final_half_is_on_the_page_and_only_whole_parts_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written, file = tmp_path / "page.md", tmp_path / "models.jsonl"
    monkeypatch.setattr("bench.models.__main__.PAGE", written)
    for run in (*runs_of("help", fails=["impossible", "two calls"], numbers=3), *runs_of("off")[1:]):
        append_result(run, file)
    command = ["bench.models", "--model", "some-model", "--page-only", "--results", str(file)]
    monkeypatch.setattr("sys.argv", [*command, "--half", "tuning"])
    assert (main(), written.exists()) == (0, False)
    monkeypatch.setattr("sys.argv", command)
    assert main() == 0
    shown = written.read_text()
    assert "| **Antiphon with help** | 45 of 48 | 4.0 | – | 0.0 | 48 of 48 | 0 | 0 |" in shown
    assert "| impossible | 0 of 3 |\n" in shown, "one task without help is missing, so none is shown"
    assert "| **Antiphon without help** | 54 of 54 | 18 of 18 | 18 of 18 | 0 | 0 |" in shown
    assert "| two calls | 0 of 30 | 10 of 10 |" in shown
    assert "so every task was done 3 times" in " ".join(shown.split())
    assert "| impossible | 0 of 3 | `budget` | `so it was` |" in shown
    assert "not on the page: tasks for codex of Antiphon without help" in capsys.readouterr().out


def test_a_page_without_failures_says_so() -> None:
    shown = page(runs_of("help"))
    assert shown is not None
    assert "\nNothing did in these runs.\n" in shown
    assert page([]) is None


def test_the_page_names_what_was_made_twice_and_what_was_repeated_of_the_prompt() -> None:
    runs = runs_of("help", numbers=2)
    runs = [
        msgspec.structs.replace(run, repeated=["play"], parroted=["is done already"] if run.number == 1 else [])
        if run.name == "music-1"
        else run
        for run in runs
    ]
    shown = page(runs) or ""
    assert "Made twice, by the task or conversation: `music-1`, `play` (2)." in shown
    assert "Words of the gateway at the end, by the task or conversation: `music-1`, `is done already` (1)." in shown


def test_the_page_ends_with_what_the_labelled_endings_say() -> None:
    shown = page(runs_of("help"))
    assert shown is not None
    assert shown.endswith(announcements())
    assert PAGE.read_text().endswith(announcements()), "write docs/small_models.md anew"


def test_a_measurement_is_of_the_final_half_and_of_everything_unless_said_otherwise() -> None:
    chosen = options([])
    assert (chosen.half, chosen.runs, chosen.jobs, chosen.patience) == ("final", 3, 1, 1.0)
    assert (chosen.subjects, chosen.parts) == (list(SUBJECTS), list(PARTS))
    assert len(ALL_QUESTIONS) == len(ALL["questions"])


# ---- an engine that runs already -------------------------------------------------------------------------------------


@asynccontextmanager
async def llamacpp_server(*, slots: int = 2, context: int = 32_768, trained: int = 32_768) -> AsyncIterator[MockEngine]:
    props = {"total_slots": slots, "build_info": "b1-some", "default_generation_settings": {"n_ctx": context}}
    own_fields = OWN_FIELDS["llamacpp"]
    engine = MockEngine(owned_by="llamacpp", own_fields=own_fields, paths={"/props": props, "/health": {"status": "ok"}})
    model = {"id": "name-of-the-server", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": trained}}
    engine.list_answer = msgspec.json.encode({"object": "list", "data": [model]})
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def test_an_engine_that_runs_already_has_the_context_of_the_embedded_one_and_a_slot_for_each_gateway() -> None:
    async with llamacpp_server() as engine:
        assert await outside_engine(f"{engine.url}/v1/", 2) == OutsideEngine(engine.url, "b1-some", 2, 32_768)
        with pytest.raises(BenchFailed, match=r"has 2 slots.* Start it with -np 3$"):
            await outside_engine(engine.url, 3)
    async with llamacpp_server(context=8192, trained=8192) as engine:
        assert (await outside_engine(engine.url, 1)).context == 8192
    async with llamacpp_server(context=16_384, trained=131_072) as engine:
        with pytest.raises(BenchFailed, match=r"16384 tokens in a slot, .* 32768.* -c 65536 -np 2 --no-kv-unified"):
            await outside_engine(engine.url, 1)


async def test_what_is_no_llamacpp_server_is_not_measured(engine: MockEngine) -> None:
    with pytest.raises(BenchFailed, match=r"is no llama\.cpp server with a model"):
        await outside_engine(engine.url, 1)


async def test_gateways_and_the_engine_alone_are_measured_with_an_engine_that_runs_already(tmp_path: Path) -> None:
    file = tmp_path / "models.jsonl"
    async with llamacpp_server() as engine:
        engine.otherwise = lambda body: text("It is Lima.")
        given = ["--engine", engine.url, "--device", "one GPU", "--model", "some-model", "--results", str(file)]
        parts = ["--parts", "questions", "--only", "What is the capital of Peru?", "--jobs", "2"]
        await measure(options([*given, *parts, "--subjects", "help,engine"]))
        questions = [body for body in engine.requests if body.get("temperature") == 0 and len(body.get("tools", [])) == 10]
    runs = read_results(file)
    assert [(run.model, run.subject, run.is_right) for run in runs] == [
        ("some-model", "help", True), ("some-model", "engine", True),
    ]  # fmt: skip
    served = "one GPU, served by one llama.cpp (build b1-some, 2 x 32,768 tokens), 2 gateways at the same time"
    assert {run.machine for run in runs} == {served}
    assert questions[-1]["model"] == "name-of-the-server"


@pytest.mark.parametrize("given", [["--engine", "http://127.0.0.1:1"], ["--device", "one GPU"]])
def test_an_engine_is_given_with_the_words_for_its_device(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(given)
    assert "--engine and --device are given together" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        options(["--engine", "http://127.0.0.1:1", "--device", "one GPU", "--threads", "2"])


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
    command = [sys.executable, "-m", "support.bench_command", "--subjects", "help", "--parts", "tasks"]
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
