"""Measures what a small model gets done: tasks for Codex, and tool questions. Writes docs/small_models.md."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from antiphon.embedded import CannotEmbed
from bench.models.codex_runs import TaskRun, installed_codex, run_task
from bench.models.page import (
    PAGE,
    RESULTS,
    Measured,
    Results,
    page,
    question_table,
    read_results,
    task_tables,
    tool_questions,
    write_results,
)
from bench.models.question_runs import QuestionRun, ask
from bench.models.questions import PLAIN_QUESTIONS, QUESTIONS
from bench.models.subjects import SUBJECTS, Running, Subject, running
from bench.models.tasks import TASKS, Task, has_text
from bench.models.watcher import long_session, watching
from bench.processes import BenchFailed

MODEL = "qwen2.5-coder-1.5b"
# What the help is for: so large a part of the tasks done, and of the tool questions right.
ENOUGH_TASKS, ENOUGH_QUESTIONS = 0.6, 0.95
WARM_UP = Task("warm up", "warm", "Create a file named warm.txt that contains the word: warm", has_text("warm.txt", "warm"))

# The first prompt is read whole. What it has in common with later ones is then remembered by the engine.
WARM_UP_TIMEOUT = 600.0


async def measure(chosen: argparse.Namespace) -> Results:
    results: Results = {}
    for name in chosen.subjects:
        with tempfile.TemporaryDirectory(prefix="antiphon-bench-", ignore_cleanup_errors=True) as folder:
            async with running(SUBJECTS[name], chosen.model, Path(folder)) as subject:
                found = Measured(subject.model, chosen.runs, chosen.timeout)
                if not chosen.tasks_only:
                    found.questions = await measure_questions(subject)
                if not chosen.questions_only:
                    found.tasks = await measure_tasks(subject, chosen)
                results[name] = found
    return results


async def measure_tasks(subject: Running, chosen: argparse.Namespace) -> list[TaskRun]:
    runs = []
    async with watching(subject.responses, subject.gateway) as watcher:
        tasks = [task for task in TASKS if task.name in chosen.tasks]
        plan = [(0, WARM_UP), *((number, task) for number in range(1, chosen.runs + 1) for task in tasks)]
        for number, task in plan:
            log = log_file(subject.subject, number, task)
            limit = WARM_UP_TIMEOUT if task is WARM_UP else chosen.timeout
            run = await run_task(task, watcher, subject.subject.help, limit, log)
            show_task(subject.subject, number, run)
            if task is not WARM_UP:
                runs.append(run)
    return runs


def log_file(subject: Subject, number: int, task: Task) -> Path:
    folder = RESULTS.parent / "models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{subject.name}-{number}-{task.name}.log"


async def measure_questions(subject: Running) -> list[QuestionRun]:
    runs = []
    async with long_session() as session:
        for question in (*QUESTIONS, *PLAIN_QUESTIONS):
            run = await ask(question, subject, session)
            runs.append(run)
            verdict = "right" if run.is_right else "WRONG"
            print(f"{subject.subject.name:<7}{verdict}  {run.seconds:6.1f} s  {run.text}", flush=True)
            if not run.is_right:
                print(f"{'':7}{run.found}", flush=True)
    return runs


def show_task(subject: Subject, number: int, run: TaskRun) -> None:
    verdict = "done    " if run.is_done else "not done"
    action = "no call" if run.first_action is None else f"first call after {run.first_action:.1f} s"
    name = f"{run.kind}: {run.task}"
    words = f"{run.seconds:6.1f} s  {name:<32}{action}, {run.responses} responses  {run.failure}"
    print(f"{subject.name:<7}run {number}  {verdict}  {words}".rstrip(), flush=True)


def report(found: Results, chosen: argparse.Namespace) -> int:
    print("\n".join(["", *task_tables(found), "", *question_table(found)]))
    # A part of the tasks says nothing about all of them.
    if set(chosen.tasks) == {task.name for task in TASKS}:
        kept = read_results()
        for name, measured in found.items():
            kept[name] = completed(measured, kept.get(name))
        of_model = {name: each for name, each in kept.items() if each.model == next(iter(found.values())).model}
        write_results(of_model)
        PAGE.write_text(page(of_model))
        print(f"\nwritten: {PAGE}")
    return 0 if all(is_enough(measured) for name, measured in found.items() if name == "help") else 1


def completed(measured: Measured, before: Measured | None) -> Measured:
    """With what was measured of the same model before, and was left out now."""
    if before is None or before.model != measured.model:
        return measured
    with_tasks = measured if measured.tasks else before
    questions = measured.questions or before.questions
    return Measured(measured.model, with_tasks.runs, with_tasks.timeout, with_tasks.tasks, questions)


def is_enough(measured: Measured) -> bool:
    asked = tool_questions(measured.questions)
    done = sum(run.is_done for run in measured.tasks) >= ENOUGH_TASKS * len(measured.tasks)
    return done and sum(run.is_right for run in asked) >= ENOUGH_QUESTIONS * len(asked)


def options() -> argparse.Namespace:
    names = [task.name for task in TASKS]
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--model", default=MODEL, metavar="MODEL", help=f"as for `antiphon serve --model`. Default: {MODEL}")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="how often each task is done. Default: 3")
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="seconds that a task may take. Default: 120")
    parser.add_argument("--tasks", nargs="+", default=names, choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument(
        "--subjects", type=subjects, default=[*SUBJECTS], metavar="NAMES", help=f"with commas, of: {', '.join(SUBJECTS)}"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--questions-only", action="store_true", help="leave the tasks out")
    only.add_argument("--tasks-only", action="store_true", help="leave the questions out")
    return parser.parse_args()


def subjects(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SUBJECTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: must be of {', '.join(SUBJECTS)}")
    return names


def main() -> int:
    chosen = options()
    try:
        if not chosen.questions_only:
            installed_codex()
        return report(asyncio.run(measure(chosen)), chosen)
    except (BenchFailed, CannotEmbed) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
