"""docs/small_models.md: what was measured, in tables."""

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from bench.models.codex_runs import TaskRun
from bench.models.question_runs import QuestionRun
from bench.models.subjects import SUBJECTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "small_models.md"
RESULTS = ROOT / "bench" / "results" / "models.json"
MOST_FAILURES = 3

HEAD = """\
# What a small model gets done

This page is written by `make bench-models`. It measures {model} on the embedded engine, on {machine}, three ways:

- **{help}**: `antiphon codex` and the gateway as they are shipped (`help = "auto"`).
- **{off}**: the same with `help = "off"`.
- **{engine}**: Codex, configured as without help, is answered by the engine's `/v1/responses`. The tool questions go
  to its `/v1/chat/completions`.

To repeat it: `make bench-models`. It needs npm for Codex, and downloads the model if it is not there.
`make bench-models ARGS="--subjects help --runs 1"` measures a part. Codex runs without its sandbox, in temporary folders: the
model may run any command.

## Tasks for Codex

Each task is given to `antiphon codex exec` in a fresh folder with a git repository, and judged by its files alone. A task that
takes more than {timeout:.0f} seconds is not done. Sampling varies, so every task was done {runs}. One task before the
measurement warms the engine up, and does not count. Times are medians in seconds, from the start of the command: until Codex
ended, and until the model's first call was there. The tasks are in `bench/models/tasks.py`.
"""
QUESTIONS = """
## Tool questions

50 questions that one of ten tools answers, and 10 that none does, asked once at temperature 0. Right is exactly one call, of
the right tool with the right arguments; and no call where no tool helps. The questions are in `bench/models/questions.py`.
"""


class Measured(Struct):
    """What was measured of one subject."""

    model: str = ""
    runs: int = 0
    timeout: float = 0
    tasks: list[TaskRun] = msgspec.field(default_factory=list)
    questions: list[QuestionRun] = msgspec.field(default_factory=list)


Results = dict[str, Measured]


def read_results() -> Results:
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results) if RESULTS.exists() else {}


def write_results(results: Results) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def page(results: Results) -> str:
    some = next(iter(results.values()))
    with_tasks = [each for each in results.values() if each.tasks] or [some]
    head = HEAD.format(
        model=some.model,
        machine=machine(),
        timeout=with_tasks[0].timeout,
        runs="once" if with_tasks[0].runs == 1 else f"{with_tasks[0].runs} times",
        **{subject.name: subject.title for subject in SUBJECTS.values()},
    )
    return "\n".join([head, *task_tables(results), QUESTIONS, *question_table(results), ""])


def machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()})"


def task_tables(results: Results) -> list[str]:
    lines = [_row("", "done", "seconds", "to the first call", "responses"), _row("---", *["---:"] * 4)]
    measured = [(name, results[name].tasks) for name in SUBJECTS if name in results and results[name].tasks]
    for name, runs in measured:
        lines.append(_task_row(f"**{SUBJECTS[name].title}**", runs))
    lines += ["", "By kind:", "", _row("kind", "by", "done", "seconds", "to the first call", "responses")]
    lines.append(_row("---", "---", *["---:"] * 4))
    for kind in dict.fromkeys(run.kind for _, runs in measured for run in runs):
        for name, runs in measured:
            lines.append(f"| {kind} " + _task_row(SUBJECTS[name].title, [run for run in runs if run.kind == kind]))
    for name, runs in measured:
        if failures := dict.fromkeys(run.failure for run in runs if run.failure):
            lines += ["", f"{SUBJECTS[name].title}, what went wrong: {'; '.join(map(_code, list(failures)[:MOST_FAILURES]))}."]
    return lines


def _task_row(title: str, runs: Sequence[TaskRun]) -> str:
    actions = [run.first_action for run in runs if run.first_action is not None]
    done = f"{sum(run.is_done for run in runs)} of {len(runs)}"
    return _row(title, done, _median(run.seconds for run in runs), _median(actions), _median(run.responses for run in runs))


def question_table(results: Results) -> list[str]:
    lines = [_row("", "tool questions", "plain questions", "seconds each"), _row("---", *["---:"] * 3)]
    for name, subject in SUBJECTS.items():
        if name in results and (runs := results[name].questions):
            seconds = _median(run.seconds for run in runs)
            lines.append(_row(subject.title, right_of(tool_questions(runs)), right_of(plain_questions(runs)), seconds))
    return lines


def tool_questions(runs: Iterable[QuestionRun]) -> list[QuestionRun]:
    return [run for run in runs if run.tool is not None]


def plain_questions(runs: Iterable[QuestionRun]) -> list[QuestionRun]:
    return [run for run in runs if run.tool is None]


def right_of(runs: Sequence[QuestionRun]) -> str:
    return f"{sum(run.is_right for run in runs)} of {len(runs)}"


def _median(values: Iterable[float]) -> str:
    known = list(values)
    return f"{median(known):.1f}" if known else "–"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"
