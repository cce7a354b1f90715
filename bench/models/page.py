"""docs/small_models.md: what was measured, in tables."""

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill

from bench.models.codex_runs import TaskRun
from bench.models.question_runs import QuestionRun
from bench.models.results import Results
from bench.models.subjects import SUBJECTS

PAGE = Path(__file__).parents[2] / "docs" / "small_models.md"
MOST_FAILURES = 3
WIDTH = 128

HEAD = """\
# What a small model gets done

This page is written by `make bench-models`. It measures {model} on the embedded engine, on {machine}:

{subjects}

To repeat it: `make bench-models`. It needs npm for Codex, and downloads the model if it is not there.
`make bench-models ARGS="--subjects help --runs 1"` measures a part. Codex runs without its sandbox, in temporary folders: the
model may run any command.

## Tasks for Codex

{tasks}
"""
SUBJECT_LINES = {
    "help": '- **{title}**: `antiphon codex` and the gateway as they are shipped (`help = "auto"`).',
    "off": '- **{title}**: the same with `help = "off"`.',
    "engine": "- **{title}**: Codex, configured as without help, is answered by the engine's `/v1/responses`. The tool\n"
    "  questions go to its `/v1/chat/completions`.",
}
TASKS = (
    "Each task is given to `antiphon codex exec` in a fresh folder with a git repository, and judged by its files alone. "
    "{conditions} One task before the measurement warms the engine up, and does not count. Times are medians in seconds, from "
    "the start of the command: until Codex ended, and until the model's first call was there. The tasks are in "
    "`bench/models/tasks.py`."
)
SAME_CONDITIONS = (
    "A task that takes more than {timeout:.0f} seconds is not done. Sampling varies, so every task was done {runs}."
)
OWN_CONDITIONS = "Sampling varies, so tasks were repeated, and one that takes too long is not done. {each}."
QUESTIONS = """
## Tool questions

50 questions that one of ten tools answers, and 10 that none does, asked once at temperature 0. Right is exactly one call, of
the right tool with the right arguments; and no call where no tool helps. The questions are in `bench/models/questions.py`.
"""


def page(results: Results) -> str:
    """`results`: complete ones, of one model."""
    shown = [subject for name, subject in SUBJECTS.items() if name in results]
    head = HEAD.format(
        model=results[shown[0].name].model,
        machine=machine(),
        subjects="\n".join(SUBJECT_LINES[subject.name].format(title=subject.title) for subject in shown),
        tasks=fill(TASKS.format(conditions=conditions(results)), WIDTH, break_long_words=False, break_on_hyphens=False),
    )
    return "\n".join([head, *task_tables(results), QUESTIONS, *question_table(results), ""])


def conditions(results: Results) -> str:
    """How often the tasks were done, and in which time: for each subject, if they differ."""
    own = [(subject.title, results[name].runs, results[name].timeout) for name, subject in SUBJECTS.items() if name in results]
    if len({(runs, timeout) for _, runs, timeout in own}) == 1:
        _, runs, timeout = own[0]
        return SAME_CONDITIONS.format(timeout=timeout, runs=_times(runs))
    each = (f"{title}: {_times(runs)}, at most {timeout:.0f} seconds each" for title, runs, timeout in own)
    return OWN_CONDITIONS.format(each="; ".join(each))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


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
