"""What was measured, and the file in which it is kept from one run of the benchmark to the next."""

from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.models.codex_runs import TaskRun
from bench.models.question_runs import QuestionRun
from bench.models.questions import PLAIN_QUESTIONS, QUESTIONS
from bench.models.tasks import TASKS

RESULTS = Path(__file__).parents[1] / "results" / "models.json"


class Measured(Struct):
    """What was measured of one subject."""

    model: str = ""
    # How often each task was done, and how many seconds it was given.
    runs: int = 0
    timeout: float = 0
    tasks: list[TaskRun] = msgspec.field(default_factory=list)
    questions: list[QuestionRun] = msgspec.field(default_factory=list)

    @property
    def has_all_tasks(self) -> bool:
        return bool(self.tasks) and Counter(run.task for run in self.tasks) == {task.name: self.runs for task in TASKS}

    @property
    def has_all_questions(self) -> bool:
        return [run.text for run in self.questions] == [question.text for question in (*QUESTIONS, *PLAIN_QUESTIONS)]

    @property
    def is_complete(self) -> bool:
        return self.has_all_tasks and self.has_all_questions


# By the names of subjects, all of one model.
Results = dict[str, Measured]


def read_results(model: str, file: Path = RESULTS) -> Results:
    return {_subject(key): each for key, each in _read(file).items() if each.model == model}


def keep_results(found: Results, file: Path = RESULTS) -> None:
    """What is measured of a model stays when another one is measured, and a part of the tasks replaces nothing."""
    kept = {f"{each.model}/{_subject(key)}": each for key, each in _read(file).items()}
    for name, measured in found.items():
        key = f"{measured.model}/{name}"
        kept[key] = merged(measured, kept.get(key))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def merged(measured: Measured, before: Measured | None) -> Measured:
    """Whole parts of what was measured. What it does not have whole is as it was before."""
    before = before or Measured(measured.model)
    tasks = measured if measured.has_all_tasks else before
    questions = measured if measured.has_all_questions else before
    return Measured(measured.model, tasks.runs, tasks.timeout, tasks.tasks, questions.questions)


def _read(file: Path) -> Results:
    return msgspec.json.decode(file.read_bytes(), type=Results) if file.exists() else {}


def _subject(key: str) -> str:
    """Keys are MODEL/SUBJECT, or only SUBJECT."""
    return key.rpartition("/")[2]
