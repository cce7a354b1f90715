"""Measures what a small model gets done: tasks for Codex, and tool questions. Writes docs/small_models.md."""

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.weights import alias_of
from bench.models.codex_runs import TaskRun, installed_codex, run_task
from bench.models.page import PAGE, page, question_table, task_tables, tool_questions
from bench.models.question_runs import QuestionRun, ask
from bench.models.questions import PLAIN_QUESTIONS, QUESTIONS
from bench.models.results import RESULTS, Measured, Results, keep_results, read_results
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


def report(found: Results) -> int:
    print("\n".join(["", *task_tables(found), "", *question_table(found)]))
    keep_results(found)
    write_page(next(iter(found.values())).model)
    return 0 if all(is_enough(measured) for name, measured in found.items() if name == "help") else 1


def write_page(model: str, file: Path = RESULTS) -> None:
    """Only of subjects with all of the tasks and questions: others cannot be compared with them."""
    results = read_results(model, file)
    complete = {name: measured for name, measured in results.items() if measured.is_complete}
    print()
    for name, subject in SUBJECTS.items():
        if name not in complete:
            print(f"not on the page: {subject.title}. Some of its tasks or questions were not measured with {model}")
    if complete:
        PAGE.write_text(page(complete))
        print(f"written: {PAGE}")


def is_enough(measured: Measured) -> bool:
    asked = tool_questions(measured.questions)
    done = sum(run.is_done for run in measured.tasks) >= ENOUGH_TASKS * len(measured.tasks)
    return done and sum(run.is_right for run in asked) >= ENOUGH_QUESTIONS * len(asked)


def options() -> argparse.Namespace:
    names = [task.name for task in TASKS]
    parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
    parser.add_argument("--model", default=MODEL, metavar="MODEL", help=f"as for `antiphon serve --model`. Default: {MODEL}")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="how often each task is done. Default: 3")
    parser.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds that a task may take. Default: 60")
    parser.add_argument("--tasks", nargs="+", default=names, choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument(
        "--subjects", type=subjects, default=[*SUBJECTS], metavar="NAMES", help=f"with commas, of: {', '.join(SUBJECTS)}"
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--questions-only", action="store_true", help="leave the tasks out")
    only.add_argument("--tasks-only", action="store_true", help="leave the questions out")
    only.add_argument("--page-only", action="store_true", help="measure nothing, and write the page from what is kept")
    return parser.parse_args()


def subjects(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SUBJECTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: must be of {', '.join(SUBJECTS)}")
    return names


async def until_stopped(chosen: argparse.Namespace) -> Results:
    """A signal ends the measurement like Ctrl-C, so that all that it has started is stopped."""
    measuring = asyncio.create_task(measure(chosen))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Once: a second one must not interrupt the stopping.
        loop.add_signal_handler(number, lambda: measuring.cancelling() or measuring.cancel())
    return await measuring


def main() -> int:
    chosen = options()
    try:
        if chosen.page_only:
            write_page(alias_of(chosen.model))
            return 0
        if not chosen.questions_only:
            installed_codex()
        return report(asyncio.run(until_stopped(chosen)))
    except (BenchFailed, CannotEmbed) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:
        return 143


if __name__ == "__main__":
    sys.exit(main())
