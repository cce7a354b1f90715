"""Tasks for Codex, two of each of six kinds. What counts is what the files are afterwards, and nothing that the model says."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

Judge = Callable[[Path], bool]
# Seconds that a program of the model may run.
PROGRAM_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Task:
    kind: str
    name: str
    prompt: str
    # Looks at the folder afterwards.
    is_done: Judge
    # The files of the folder beforehand.
    files: Mapping[str, str] = field(default_factory=dict)

    def prepare(self, folder: Path) -> None:
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


# ---- judges ----------------------------------------------------------------------------------------------------------


def has_text(name: str, text: str) -> Judge:
    """The file has this text, whatever white space is around it."""
    return lambda folder: _read(folder / name).strip() == text.strip()


def has_json(name: str, value: object) -> Judge:
    def judge(folder: Path) -> bool:
        try:
            return bool(msgspec.json.decode(_read(folder / name)) == value)
        except msgspec.DecodeError:
            return False

    return judge


def was_renamed(old: str, new: str, text: str) -> Judge:
    return lambda folder: not (folder / old).exists() and has_text(new, text)(folder)


def is_folder(name: str) -> Judge:
    return lambda folder: (folder / name).is_dir()


def passes(program: str) -> Judge:
    """A program that imports the files of the folder runs without an error."""

    def judge(folder: Path) -> bool:
        command = [sys.executable, "-c", program]
        try:
            return subprocess.run(command, cwd=folder, capture_output=True, timeout=PROGRAM_TIMEOUT).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    return judge


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


# ---- the tasks -------------------------------------------------------------------------------------------------------

LETTER = "Dear Ana,\nwe did not recieve your parcel.\nKind regards,\nTom\n"
GREETING = 'def greet(name):\n    return "Helo, " + name\n\n\nprint(greet("Ana"))\n'
DRAFT = "# Plan\n\n1. Measure\n2. Change\n"
CITIES = "".join(f"{city}\n" for city in "Oslo Rome Lima Cairo Delhi Tokyo Paris".split())
LOG = "".join(f"{hour:02}:00 request served\n" for hour in range(12))
ADD = 'def add(a, b):\n    """Returns the sum of a and b."""\n    raise NotImplementedError\n'
IS_EVEN = 'def is_even(number):\n    """Returns True if the number is even, and False if it is odd."""\n    pass\n'

TASKS = (
    Task(
        "make a file",
        "hello",
        "Create a file named hello.txt that contains the text: Hello, world!",
        has_text("hello.txt", "Hello, world!"),
    ),
    Task(
        "make a file",
        "settings",
        'Create a file named settings.json with this content: {"debug": true, "port": 8080}',
        has_json("settings.json", {"debug": True, "port": 8080}),
    ),
    Task(
        "rename",
        "cities",
        "Rename the file towns.txt to cities.txt.",
        was_renamed("towns.txt", "cities.txt", CITIES),
        {"towns.txt": CITIES},
    ),
    Task(
        "rename",
        "plan",
        "Rename draft.md to plan.md. Its content stays the same.",
        was_renamed("draft.md", "plan.md", DRAFT),
        {"draft.md": DRAFT},
    ),
    Task(
        "fix a word",
        "letter",
        "In letter.txt the word receive is misspelled as recieve. Correct it.",
        has_text("letter.txt", LETTER.replace("recieve", "receive")),
        {"letter.txt": LETTER},
    ),
    Task(
        "fix a word",
        "greeting",
        "The program greeting.py says Helo. It should say Hello. Fix the file.",
        has_text("greeting.py", GREETING.replace("Helo,", "Hello,")),
        {"greeting.py": GREETING},
    ),
    Task(
        "count lines",
        "data",
        "Count the lines of the file data.txt and write the number into a new file named count.txt.",
        has_text("count.txt", "7"),
        {"data.txt": CITIES},
    ),
    Task(
        "count lines",
        "log",
        "How many lines does server.log have? Write only the number to lines.txt.",
        has_text("lines.txt", "12"),
        {"server.log": LOG},
    ),
    Task(
        "implement a function",
        "add",
        "Implement the function add in calc.py.",
        passes("from calc import add; assert add(2, 3) == 5 and add(-1, 1) == 0"),
        {"calc.py": ADD},
    ),
    Task(
        "implement a function",
        "parity",
        "The function is_even in parity.py does nothing yet. Write its body.",
        passes("from parity import is_even; assert is_even(4) is True and is_even(7) is False and is_even(0) is True"),
        {"parity.py": IS_EVEN},
    ),
    Task("make a folder", "build", "Make a folder named build.", is_folder("build")),
    Task("make a folder", "images", "Create the directory docs/images.", is_folder("docs/images")),
)
