"""Asks a small model questions about the files of a folder, by a request of Claude Code, and judges what it answers.

python -m bench.models.claude_questions --request FILE                     an embedded engine
python -m bench.models.claude_questions --request FILE --engine URL        a llama.cpp that runs already
python -m bench.models.claude_questions --request FILE --sources FOLDER    the gateway of another version of the sources

Claude Code is too large to be carried to every machine, and its texts are not ours to keep. FILE has the body of one request of
it, as JSON, which was recorded with a question in a folder: `--question` and `--folder` say which. Both are replaced. Then the
calls of Bash and Read are run as Claude Code runs them, until the model answers in words.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from bench.models.searches import use_sources
from bench.models.subjects import SUBJECTS, Running, outside_engine, running
from bench.processes import BenchFailed, until_stopped

MODEL = "qwen2.5-coder-1.5b"
# Of one question, and seconds for one of them, and for a command.
MOST_ANSWERS = 8
TIMEOUT, COMMAND_TIMEOUT = 900.0, 10.0
MOST_TOKENS = 300
# Of the output of one call, in characters.
LONGEST = 4000
HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "any"}
NOT_ALLOWED = "The user wants you to look only, and to change nothing."

FILES = {
    "notes.txt": "Buy milk and eggs.\nCall the plumber on Tuesday.\n",
    "setup.py": "from setuptools import setup\n\n"
    'setup(name="harbour", version="0.4.1", python_requires=">=3.9", install_requires=["click>=8"])\n',
    "config.yaml": "host: pelican.local\nport: 4410\nretries: 3\n",
    "shapes.py": "def area(width, height):\n    return width * height\n\n\n"
    "def perimeter(width, height):\n    return 2 * (width + height)\n",
    "README.md": "# Harbour\n\nRun `harbour --dock` to start. The licence is MPL-2.0.\n",
}
# What a right answer has in it, one of each group, whatever its case is.
QUESTIONS: dict[str, Sequence[Sequence[str]]] = {
    "What is in notes.txt?": (("milk",), ("plumber",)),
    "Which Python version does setup.py ask for?": (("3.9",),),
    "On which port does config.yaml say that the host listens?": (("4410",),),
    "Which functions are in shapes.py?": (("area",), ("perimeter",)),
    "Under which licence is this program, according to README.md?": (("mpl",),),
    "How many retries are set in config.yaml?": (("3", "three"),),
}


@dataclass(slots=True)
class Answered:
    question: str
    words: str = ""
    calls: list[str] = field(default_factory=list)
    wrong: str = ""


class Client:
    """Does what Claude Code does with an answer."""

    def __init__(self, body: dict[str, Any], folder: Path) -> None:
        self.body = body
        self._folder = folder

    def answered(self, content: list[dict[str, Any]]) -> list[str]:
        """The calls of the answer, which have been run. The next request has their results."""
        calls = [block for block in content if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call["id"], **self._run(call)} for call in calls]
        self.body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
        return [f"{call['name']}({json.dumps(call['input'])[:120]})" for call in calls]

    def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        given = call["input"]
        try:
            if call["name"] == "Read":
                return {"content": self._read(Path(str(given["file_path"])))[:LONGEST]}
            if call["name"] == "Bash":
                return self._shell(str(given["command"]))
        except (KeyError, OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as failed:
            return {"content": f"<tool_use_error>{failed}</tool_use_error>", "is_error": True}
        return {"content": NOT_ALLOWED, "is_error": True}

    def _read(self, path: Path) -> str:
        """A path that is not absolute counts from the folder."""
        file = self._folder / path
        if not file.exists():
            raise OSError(f"File does not exist. Note: your current working directory is {self._folder}.")
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(file.read_text().splitlines(), 1))

    def _shell(self, command: str) -> dict[str, Any]:
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_TIMEOUT,
            text=True,
            errors="replace",
        )
        output = ran.stdout[:LONGEST]
        if ran.returncode:
            return {"content": f"Exit code {ran.returncode}\n{output}", "is_error": True}
        return {"content": output or "(Bash completed with no output)"}


async def ask(session: aiohttp.ClientSession, recorded: str, chosen: argparse.Namespace, question: str) -> Answered:
    answered = Answered(question)
    with tempfile.TemporaryDirectory(prefix="harbour-") as name:
        folder = Path(name)
        for each, text in FILES.items():
            (folder / each).write_text(text)
        body = json.loads(recorded.replace(_inside(chosen.question), _inside(question)).replace(chosen.folder, name))
        client = Client({**body, "model": chosen.served, "stream": False, "max_tokens": MOST_TOKENS}, folder)
        for _ in range(MOST_ANSWERS):
            try:
                async with session.post("/v1/messages", json=client.body, headers=HEADERS) as answer:
                    given = await answer.json()
            except (aiohttp.ClientError, TimeoutError) as failed:
                answered.wrong = f"no answer: {failed!r}"
                return answered
            if given["type"] == "error":
                answered.wrong = f"failed: {given['error']}"
                return answered
            if not (calls := client.answered(given["content"])):
                answered.words = "\n".join(block.get("text", "") for block in given["content"])
                said = answered.words.casefold()
                is_right = all(any(word in said for word in group) for group in QUESTIONS[question])
                answered.wrong = "" if is_right else ("wrong words" if answered.calls else "invented: nothing was looked up")
                return answered
            answered.calls += calls
    answered.wrong = "no end"
    return answered


def _inside(text: str) -> str:
    """As it is written inside a text of JSON."""
    return json.dumps(text)[1:-1]


async def ask_all(url: str, chosen: argparse.Namespace) -> list[Answered]:
    given = json.loads(chosen.request.read_text())
    recorded = json.dumps(given.get("body", given))
    if recorded.count(_inside(chosen.question)) != 1 or chosen.folder not in recorded:
        raise BenchFailed(
            f"{chosen.request} does not have the question {chosen.question!r} once, and the folder {chosen.folder}"
        )
    done: list[Answered] = []
    waiting = [question for _ in range(chosen.repeat) for question in QUESTIONS]
    async with aiohttp.ClientSession(url, timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session:

        async def work() -> None:
            while waiting:
                answered = await ask(session, recorded, chosen, waiting.pop(0))
                done.append(answered)
                print(f"{'WRONG' if answered.wrong else 'right'}  {answered.question}  {answered.calls}", flush=True)
                print(
                    f"       {' '.join(answered.words.split())[:400]}  {answered.wrong and f'<- {answered.wrong}'}", flush=True
                )

        async with asyncio.TaskGroup() as workers:
            for _ in range(chosen.jobs):
                workers.create_task(work())
    return done


async def measure(chosen: argparse.Namespace) -> None:
    if chosen.sources is not None:
        use_sources(chosen.sources)
    outside = await outside_engine(chosen.engine, 1) if chosen.engine else None
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as name:
        subject: Running
        async with running(SUBJECTS[chosen.subject], chosen.model, Path(name), outside=outside) as subject:
            chosen.served = subject.model
            done = await ask_all(subject.gateway.url, chosen)
    sources = f", sources of {chosen.sources}" if chosen.sources is not None else ""
    right, looked = sum(not each.wrong for each in done), sum(bool(each.calls) for each in done)
    print(f"{chosen.served}, {subject.subject.title}{sources}: {right} of {len(done)} right, {looked} looked something up")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    described = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m bench.models.claude_questions", description=described)
    parser.add_argument("--request", type=Path, required=True, metavar="FILE", help="a recorded request of Claude Code")
    parser.add_argument("--question", default="What is in notes.txt?", help="the one of that request. Default: %(default)s")
    parser.add_argument("--folder", required=True, help="the one of that request")
    parser.add_argument("--model", default=MODEL, help=f"as for `antiphon serve --model`. Default: {MODEL}")
    parser.add_argument("--engine", metavar="URL", help="a llama.cpp server that has the model. Default: an embedded engine")
    parser.add_argument("--subject", choices=("help", "off"), default="help", help="with help or without. Default: help")
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="of another version, from which the gateway is run")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="how often each question is asked. Default: 1")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="questions at the same time. Default: 1")
    return parser.parse_args(arguments)


def main() -> int:
    chosen = options()
    try:
        asyncio.run(until_stopped(measure(chosen)))
    except (BenchFailed, ExceptionGroup) as failed:
        reasons = failed.exceptions if isinstance(failed, ExceptionGroup) else [failed]
        print(*(f"bench: {reason}" for reason in reasons), sep="\n", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143
    return 0


if __name__ == "__main__":
    sys.exit(main())
