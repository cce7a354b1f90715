"""What was measured: a line of JSON for each run, appended when the run is over, so that a measurement can be continued."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from bench.models.judges import Half

RESULTS = Path(__file__).parents[1] / "results" / "models.jsonl"
Part = Literal["tasks", "conversations", "questions"]
PARTS: tuple[Part, ...] = ("tasks", "conversations", "questions")
Key = tuple[str, str, str, str, int]


class Run(Struct, frozen=True, omit_defaults=True):
    """One task, conversation or question, done once by one subject."""

    model: str
    subject: str
    part: Part
    half: Half
    kind: str
    name: str
    number: int
    # What was right of what was asked: the one task or question, or the turns of a conversation.
    right: int
    asked: int
    seconds: float
    # Where it was measured.
    machine: str = ""
    responses: int = 0
    # Seconds until the first call. None: there was none.
    first_action: float | None = None
    # Why it ended before its time: it took too long, or the subject rejected a request.
    failure: str = ""
    # It ended by itself.
    ended: bool = True
    # Calls that were made again although they had succeeded, with nothing between. In conversations, those that change
    # something, wherever they were made again.
    repeated: Sequence[str] = ()
    # Sentences of the gateway in answers.
    parroted: Sequence[str] = ()
    # The calls and the last words of each turn.
    found: str = ""

    @property
    def key(self) -> Key:
        return self.model, self.subject, self.part, self.name, self.number

    @property
    def is_right(self) -> bool:
        return self.right == self.asked


def read_results(file: Path = RESULTS) -> list[Run]:
    """A line that was cut off is left out. Of two runs with one key, the later one counts."""
    runs: dict[Key, Run] = {}
    for line in file.read_bytes().splitlines() if file.exists() else ():
        try:
            run = msgspec.json.decode(line, type=Run)
        except msgspec.DecodeError:
            continue
        runs[run.key] = run
    return list(runs.values())


def append_result(run: Run, file: Path = RESULTS) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as lines:
        lines.write(msgspec.json.encode(run) + b"\n")


def is_complete(runs: Iterable[Run], names: Iterable[str]) -> bool:
    """All of these were done, and equally often."""
    numbers: dict[str, set[int]] = {name: set() for name in names}
    for run in runs:
        if run.name in numbers:
            numbers[run.name].add(run.number)
    most = max(map(len, numbers.values()), default=0)
    return most > 0 and all(len(each) == most for each in numbers.values())
