"""A task for Codex, and the judges of what it has become: they look at the files, and at the words of the last answer."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

# By the one half, the help was made; only by the other one is it judged.
Half = Literal["tuning", "final"]
# Seconds that a program of the model may run.
PROGRAM_TIMEOUT = 10.0
# Seconds that a task may take on two cores, unless its kind needs more steps.
SHORT, LONG = 180.0, 420.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task has become."""

    folder: Path
    # The last answer of the model.
    words: str = ""

    def text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(errors="replace") if path.is_file() else ""

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()


Judge = Callable[[Outcome], bool]


@dataclass(frozen=True, slots=True)
class Task:
    kind: str
    name: str
    half: Half
    prompt: str
    is_done: Judge
    # The files of the folder beforehand.
    files: Mapping[str, str] = field(default_factory=dict)
    limit: float = SHORT

    def prepare(self, folder: Path) -> None:
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def both(*judges: Judge) -> Judge:
    return lambda outcome: all(judge(outcome) for judge in judges)


# ---- files -----------------------------------------------------------------------------------------------------------


def has_text(name: str, text: str) -> Judge:
    """The file has this text, whatever white space is around it."""
    return lambda outcome: outcome.has(name) and outcome.text(name).strip() == text.strip()


def has_texts(files: Mapping[str, str]) -> Judge:
    return both(*(has_text(name, text) for name, text in files.items()))


def has_json(name: str, value: object) -> Judge:
    def judge(outcome: Outcome) -> bool:
        try:
            return bool(msgspec.json.decode(outcome.text(name)) == value)
        except msgspec.DecodeError:
            return False

    return judge


def was_moved(old: str, new: str, text: str) -> Judge:
    return lambda outcome: not outcome.has(old) and has_text(new, text)(outcome)


def is_folder(name: str) -> Judge:
    return lambda outcome: (outcome.folder / name).is_dir()


def is_missing(name: str) -> Judge:
    return lambda outcome: not outcome.has(name)


# ---- programs --------------------------------------------------------------------------------------------------------


def passes(program: str) -> Judge:
    """A program that imports the files of the folder runs without an error."""
    return lambda outcome: _output(outcome.folder, "-c", program) is not None


def prints(file: str, output: str) -> Judge:
    return lambda outcome: (_output(outcome.folder, file) or "").split() == output.split()


def _output(folder: Path, *arguments: str) -> str | None:
    """None: it failed."""
    # What the model has run may have left compiled files of an older state.
    command = [sys.executable, "-B", "-X", f"pycache_prefix={os.devnull}", *arguments]
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, timeout=PROGRAM_TIMEOUT, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return None
    return ran.stdout if ran.returncode == 0 else None


# ---- words -----------------------------------------------------------------------------------------------------------

_FAILURE = re.compile(
    r"\b(?:not|no|cannot|unable|fail(?:s|ed|ure)?|missing|could ?n[o']t|error|impossible)\b|n['’]t\b", re.IGNORECASE
)


def says(*texts: str) -> Judge:
    """The answer has one of these texts, whatever its case is."""
    return lambda outcome: any(text.casefold() in outcome.words.casefold() for text in texts)


def says_that_it_failed(outcome: Outcome) -> bool:
    return _FAILURE.search(outcome.words) is not None
