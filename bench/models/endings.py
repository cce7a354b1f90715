"""Collects how models end their answers where tools are offered: a line of JSON for each answer in words, without a call.

It speaks Chat Completions to an engine, and needs nothing but aiohttp. Every conversation is in the middle of a task: some of
its calls were made, with their results, and the model goes on. What it says where it makes no call is written to the file.
"""

import argparse
import asyncio
import itertools
import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import aiohttp

MOST_TOKENS = 320
# Of one conversation: what the user says after an answer in words, and how often calls are answered.
MOST_ANSWERS = 4
# For each ending that is wanted.
MOST_REQUESTS = 8
# In a row: an engine that is gone is not asked without end.
MOST_FAILURES = 20
# Seconds for one answer.
TIMEOUT = 120.0
TEMPERATURES = (0.7, 0.8, 0.9, 1.0)
# A call that the model has written into its text. The gateway reads it as a call, so it is no answer in words.
WRITTEN_CALL = re.compile(r'<tool_call>|<function|"(?:arguments|parameters)"\s*:|"name"\s*:\s*"(?:shell|read_file|write_file)"')

SYSTEMS: Mapping[str, str] = {
    "none": "",
    "short": "You are a helpful assistant with access to tools.",
    "agent": "You are a coding agent in a terminal. Keep going until the task is completely done, then end your turn with a "
    "short summary. Use the tools; do not guess what a file contains.",
    "preamble": "You are a coding agent. Before you make a tool call, send a brief message that says what you are about to "
    "do, such as: I've looked at the project; now I will check the routes. Then make the call.",
    "plan": "You are a careful engineer. First explain your plan step by step, then carry it out with the tools, one at a "
    "time. Always tell the user what you will do next.",
    "careful": "You are an assistant on the user's computer. Ask before you change anything that cannot be undone. "
    "Explain what you found in plain words.",
    "friendly": "You are a friendly pair programmer. Think aloud, keep the user informed, and offer to do more when you "
    "are done.",
    "terse": "Answer in as few words as possible. Use tools where they are needed.",
}
FOLLOW_UPS = (
    "Thanks! Anything else that I should know?", "Yes, please.", "Why is that?", "What did you change?",
    "What would you do next?", "Explain it to a beginner.", "Are you sure? Check it again.", "And now run the tests.",
)  # fmt: skip


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    properties = {each: {"type": "string", "description": words} for each, words in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = (
    _tool("shell", "Runs a command in the project's folder, and returns what it prints.", command="The command"),
    _tool("read_file", "Returns the content of a file.", path="The path of the file"),
    _tool("write_file", "Replaces the content of a file, or makes it.", path="The path of the file", content="Its new content"),
    _tool("search", "Finds the lines that contain a text in all files.", text="The text"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A call that was made, what the model said before it, and its result."""

    name: str
    arguments: Mapping[str, str]
    result: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    kind: str
    prompts: Sequence[str]
    steps: Sequence[Step] = ()
    # What any further call reports.
    otherwise: str = "(no output)"


def _ran(command: str, result: str, words: str = "") -> Step:
    return Step("shell", {"command": command}, result, words)


def _read(path: str, result: str, words: str = "") -> Step:
    return Step("read_file", {"path": path}, result, words)


def _wrote(path: str, content: str, words: str = "") -> Step:
    return Step("write_file", {"path": path, "content": content}, f"Wrote {path}.", words)


LOG = "02:14 INFO start\n02:15 ERROR db timeout\n02:15 ERROR db timeout\n02:16 INFO retry ok\n02:20 WARN slow query"
PRICE = "def reduced(price, percent):\n    return price - percent / 100\n"
FAILED = (
    "FAILED test_price.py::test_reduced - assert 49.9 == 45.0\nE  assert reduced(50, 10) == 45.0\n1 failed, 3 passed in 0.04s"
)
STORIES = (
    Story(
        "fix a test",
        ("The tests fail. Find out why and fix it.", "test_price.py is red, please make it pass.", "Fix the failing test."),
        (
            _ran("python -m pytest -q", FAILED, "I'll run the tests first."),
            _read("price.py", PRICE),
            _wrote("price.py", PRICE.replace("- percent", "- price * percent"), "The discount is not multiplied by the price."),
            _ran("python -m pytest -q", "4 passed in 0.03s"),
        ),
    ),
    Story(
        "read",
        ("Which port does the server listen on?", "Look at config.toml and tell me the port.", "What's in config.toml?"),
        (_ran("ls", "README.md\nconfig.toml\nserver.py"), _read("config.toml", '[server]\nhost = "0.0.0.0"\nport = 9417\n')),
    ),
    Story(
        "write",
        (
            "Write a script countdown.py that prints the numbers from 5 to 1.",
            "Create hello.txt with a greeting in it.",
            "Add a .gitignore for a Python project.",
            "Make a README for this project.",
        ),
        (_ran("ls", "main.py\nrequirements.txt"), _wrote("countdown.py", "for n in range(5, 0, -1):\n    print(n)\n")),
    ),
    Story(
        "rename",
        ("Rename the function load to load_config everywhere.", "Rename draft.md to plan.md and fix all links to it."),
        (
            Step("search", {"text": "load("}, "app.py:3: config = load('app.toml')\nconfig.py:1: def load(path):"),
            _read("config.py", "def load(path):\n    return open(path).read()\n"),
            _wrote("config.py", "def load_config(path):\n    return open(path).read()\n"),
            _wrote("app.py", "config = load_config('app.toml')\n"),
        ),
    ),
    Story(
        "error",
        ("Install the requirements and start the app.", "Run the migration.", "Deploy this, please.", "Start the dev server."),
        (
            _ran("pip install -r requirements.txt", "ERROR: Could not find a version that satisfies the requirement flaskk"),
            _read("requirements.txt", "flaskk==3.0\nrequests\n", "There may be a typo in the requirements."),
        ),
        "Permission denied",
    ),
    Story(
        "log",
        ("What went wrong last night? See app.log.", "Summarise app.log.", "How many errors are in app.log?"),
        (
            _ran("tail -5 app.log", LOG),
            _ran("grep -c ERROR app.log", "2"),
        ),
    ),
    Story(
        "explain",
        (
            "Explain what this project does.",
            "What is a race condition?",
            "How does git rebase differ from merge?",
            "What is the capital of Peru?",
            "Is Python or Rust better for this?",
            "What does HTTP status 418 mean?",
        ),
        (
            _ran("ls", "README.md\nsrc\ntests"),
            _read("README.md", "# Tern\nA small tool that watches folders and syncs them to S3.\n"),
        ),
    ),
    Story(
        "impossible",
        (
            "Fix the bug in billing.rs.",
            "Read budget.csv and add it up.",
            "Send this file to Anna by email.",
            "Book me a flight to Oslo.",
        ),
        (_read("billing.rs", "No such file or directory"), _ran("ls -R", "README.md\nsrc\nsrc/main.py")),
        "No such file or directory",
    ),
    Story(
        "unclear",
        ("Clean this up.", "Make it faster.", "Delete the old stuff.", "It doesn't work.", "Can you help me with my project?"),
        (
            _ran("ls", "main.py\nmain_old.py\nbackup\nnotes.txt"),
            _read("main.py", "import time\ntime.sleep(5)\nprint('done')\n"),
        ),
    ),
    Story(
        "several steps",
        (
            "Add a function is_even to parity.py with a test, run the tests, and commit.",
            "Move old.txt into archive/, then write done.txt with the word done, then show me the tree.",
            "Check the style with ruff, fix what it finds, and tell me what you changed.",
            "Update the version to 1.3.0 in all files and make sure the tests still pass.",
        ),
        (
            _ran("git status --short", " M parity.py"),
            _wrote("parity.py", "def is_even(number):\n    return number % 2 == 0\n"),
            _wrote("test_parity.py", "from parity import is_even\n\ndef test_even():\n    assert is_even(2)\n"),
            _ran("python -m pytest -q", "1 passed in 0.02s"),
        ),
    ),
    Story(
        "review",
        (
            "Review price.py.",
            "Do you see a bug in price.py?",
            "Suggest improvements for price.py, but don't change anything yet.",
        ),
        (_read("price.py", PRICE),),
    ),
    Story(
        "plan",
        (
            "How would you add a login to this app? Only the plan, please.",
            "Which steps are needed to move this to Python 3.12?",
            "What would you check first if the site is slow?",
            "Give me the commands to make a release, I will run them myself.",
        ),
        (_ran("ls", "app.py\ntemplates\nrequirements.txt"),),
    ),
    Story(
        "small talk",
        ("Hi!", "Good morning, who are you?", "What can you do?", "Thanks, that was all.", "Are you able to run programs?"),
    ),
    Story(
        "other languages",
        (
            "Führe die Tests aus und behebe den Fehler.",
            "Was steht in config.toml?",
            "Lance les tests et corrige l'erreur.",
            "Que contient README.md ?",
            "Ejecuta las pruebas y arregla el fallo.",
            "¿Qué hay en config.toml?",
            "Esegui i test e correggi l'errore.",
            "请运行测试并修复错误。",
            "config.toml 里有什么？",
            "Rode os testes, por favor.",
        ),
        (_ran("python -m pytest -q", FAILED), _read("price.py", PRICE)),
    ),
)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a conversation begins."""

    story: Story
    system: str
    prompt: str
    # How many of the calls were made already.
    made: int
    temperature: float
    seed: int

    def messages(self) -> list[dict[str, Any]]:
        words = SYSTEMS[self.system]
        messages: list[dict[str, Any]] = [{"role": "system", "content": words}] if words else []
        messages.append({"role": "user", "content": self.prompt})
        for number, step in enumerate(self.story.steps[: self.made]):
            messages += _made(f"call{number:05}", step.name, json.dumps(step.arguments), step.words, step.result)
        return messages


def _made(id: str, name: str, arguments: str, words: str, result: str) -> list[dict[str, Any]]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": words, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": result},
    ]


def starts(seed: int) -> Iterator[Start]:
    """Without end: every story, with every number of calls made, under systems and prompts by chance."""
    chance = random.Random(seed)
    places = [(story, made) for story in STORIES for made in range(len(story.steps) + 1)]
    for number in itertools.count():
        if number % len(places) == 0:
            chance.shuffle(places)
        story, made = places[number % len(places)]
        yield Start(
            story,
            chance.choice([*SYSTEMS]),
            chance.choice(story.prompts),
            made,
            chance.choice(TEMPERATURES),
            chance.randrange(2**31),
        )


class Collector:
    """Asks until so many endings are written."""

    def __init__(self, session: aiohttp.ClientSession, url: str, model: str, count: int, out: TextIO, seed: int) -> None:
        self.written = self.requests = self.calls = 0
        self.failure = ""
        self._session, self._model, self._count, self._out = session, model, count, out
        self._url = f"{url.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
        self._starts = starts(seed)
        # How many requests in a row.
        self._failed = 0

    async def work(self) -> None:
        for start in self._starts:
            # A model may make calls and nothing else.
            is_enough = self.written >= self._count or self.requests >= MOST_REQUESTS * self._count
            if is_enough or self._failed >= MOST_FAILURES:
                return
            await self._converse(start)

    async def _converse(self, start: Start) -> None:
        chance = random.Random(start.seed)
        messages = start.messages()
        turn, rest = 1, list(start.story.steps[start.made :])
        for number in range(MOST_ANSWERS):
            answer = await self._answer(messages, start, number)
            if answer is None or self.written >= self._count:
                return
            message = answer["message"]
            words, calls = message.get("content") or "", message.get("tool_calls") or []
            if calls or WRITTEN_CALL.search(words):
                self.calls += 1
                result = rest.pop(0).result if rest else start.story.otherwise
                function = calls[0]["function"] if calls else {"name": "shell", "arguments": '{"command": "ls"}'}
                messages += _made(f"more{number:05}", function["name"], function["arguments"], words if calls else "", result)
                continue
            if answer.get("finish_reason") != "stop" or not words.strip():
                return
            self._write(start, turn, words)
            turn += 1
            messages += [{"role": "assistant", "content": words}, {"role": "user", "content": chance.choice(FOLLOW_UPS)}]

    async def _answer(self, messages: list[dict[str, Any]], start: Start, number: int) -> dict[str, Any] | None:
        body = {
            "model": self._model, "messages": messages, "tools": TOOLS, "max_tokens": MOST_TOKENS,
            "temperature": start.temperature, "seed": start.seed + number,
        }  # fmt: skip
        self.requests += 1
        try:
            async with self._session.post(self._url, json=body) as answer:
                if answer.status == 200:
                    self._failed = 0
                    choice: dict[str, Any] = (await answer.json())["choices"][0]
                    return choice
                self.failure = f"{answer.status}: {(await answer.text())[:300]}"
        except (aiohttp.ClientError, TimeoutError, ValueError, LookupError) as failed:
            self.failure = repr(failed)
        self._failed += 1
        return None

    def _write(self, start: Start, turn: int, words: str) -> None:
        ending = {
            "model": self._model, "kind": start.story.kind, "system": start.system, "made": start.made, "turn": turn,
            "prompt": start.prompt, "temperature": start.temperature, "text": words,
        }  # fmt: skip
        self._out.write(json.dumps(ending, ensure_ascii=False) + "\n")
        self.written += 1


async def collect(chosen: argparse.Namespace) -> Collector:
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        with chosen.out.open("w", encoding="utf-8") as out:
            collector = Collector(session, chosen.engine, chosen.model_name, chosen.count, out, chosen.seed)
            async with asyncio.TaskGroup() as workers:
                for _ in range(chosen.concurrency):
                    workers.create_task(collector.work())
    return collector


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.models.endings", description=__doc__)
    parser.add_argument("--engine", required=True, metavar="URL", help="an engine that speaks Chat Completions")
    parser.add_argument("--model-name", required=True, metavar="NAME", help="sent to the engine, and written into each line")
    parser.add_argument("--count", type=int, default=2000, metavar="N", help="how many endings are written. Default: 2000")
    parser.add_argument("--concurrency", type=int, default=32, metavar="N", help="requests at the same time. Default: 32")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all that is chosen by chance. Default: 1")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="it is replaced")
    collector = asyncio.run(collect(parser.parse_args(arguments)))
    print(f"{collector.requests} requests, {collector.calls} answers with a call, {collector.written} endings")
    if collector.failure:
        print(f"the last request that failed: {collector.failure}", file=sys.stderr)
    return 0 if collector.written else 1


if __name__ == "__main__":
    sys.exit(main())
