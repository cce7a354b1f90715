"""What was found: a line of JSON for each finding, appended at once, so that a run can be continued where it was stopped."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

RESULTS = Path(__file__).parents[1] / "results" / "endpoints.jsonl"
# Of what an endpoint answered where it was wrong.
MOST_SHOWN = 300
FindingKey = tuple[str, str, str, str]


class Finding(Struct, frozen=True, omit_defaults=True, tag="finding"):
    """How often one endpoint of a subject did what was asked of it."""

    part: str
    api: str
    subject: str
    # Of the check, the question or the test.
    name: str
    right: int
    asked: int = 1
    # What was wrong, the first time.
    wrong: str = ""

    @property
    def key(self) -> FindingKey:
        return self.part, self.api, self.subject, self.name


class Setup(Struct, frozen=True, omit_defaults=True, tag="setup"):
    """With what one subject was measured."""

    part: str
    subject: str
    versions: list[str]
    model: str
    machine: str


class Results:
    """The lines of a file. Of two about the same, the later one counts; one that was cut off is left out."""

    def __init__(self, file: Path = RESULTS) -> None:
        self._file = file
        self.findings: dict[FindingKey, Finding] = {}
        self.setups: dict[tuple[str, str], Setup] = {}
        for line in file.read_bytes().splitlines() if file.exists() else ():
            try:
                self._take(msgspec.json.decode(line, type=Finding | Setup))
            except msgspec.DecodeError:
                continue

    def add(self, *found: Finding | Setup) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as lines:
            lines.write(b"".join(msgspec.json.encode(each) + b"\n" for each in found))
        for each in found:
            self._take(each)

    def _take(self, found: Finding | Setup) -> None:
        if isinstance(found, Setup):
            self.setups[found.part, found.subject] = found
        else:
            self.findings[found.key] = found

    def of(self, part: str, api: str | None = None) -> list[Finding]:
        return [each for each in self.findings.values() if each.part == part and api in (None, each.api)]


def compact(results: Results, file: Path) -> None:
    """Writes only the lines that count."""
    kept: Iterable[Finding | Setup] = (*results.setups.values(), *results.findings.values())
    file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in kept))
