"""The manifest: what Antiphon does with each thing that the API has, and the tests that show it."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from conformance.recorder import Seen

FILE = Path(__file__).parent / "manifest.toml"
POLICIES = {
    "exact": "as the API has it",
    "converted": "the engine gets it in another form",
    "notice": "left out, and a notice says so",
    "refused": "a 400 that names it",
    "never": "not emitted",
}
# What Antiphon emits: here the manifest lists all that any test may see.
EMITTED = frozenset({"event", "output item"})
# Of the tools in tests/support/toy_tool.py and tests/extending.
OF_EXTENSIONS = frozenset({"dice_call", "response.dice_call.completed", "abacus_call"})


class Row(NamedTuple):
    kind: str
    name: str
    does: str
    says: str
    # Node ids.
    tests: tuple[str, ...]
    # Who has it, if the openai SDK does not.
    beyond: str | None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@cache
def rows() -> tuple[Row, ...]:
    tables = tomllib.loads(FILE.read_text())
    beyond = tables.pop("beyond")
    return tuple(
        Row(kind, name, does, says, tuple(f"tests/{test}" for test in tests), beyond.get(name))
        for kind, table in tables.items()
        for name, (does, says, *tests) in table.items()
    )


def missing_tests(collected: Iterable[str]) -> Iterator[str]:
    """Rows whose test is not in its file. `collected`: all tests of the files that were read whole."""
    known = set(collected)
    files = {_file(test) for test in known}
    for row in rows():
        for test in row.tests:
            if _file(test) in files and test not in known:
                yield f"{row}: there is no test {test}"


def unshown_rows(seen: Mapping[str, set[Seen]]) -> Iterator[str]:
    """Rows whose test did not put it on the wire. `seen`: what each test that ran has put there."""
    for row in rows():
        for test in row.tests:
            if test in seen and (row.kind, row.name) not in seen[test]:
                yield f"{row}: {test} did not put it on the wire"


def unlisted(seen: Mapping[str, set[Seen]]) -> Iterator[str]:
    """What tests saw and the manifest does not have, or says is never emitted."""
    emitted = {(row.kind, row.name) for row in rows() if row.does != "never"}
    for test, things in seen.items():
        for kind, name in things:
            if kind in EMITTED and (kind, name) not in emitted and name not in OF_EXTENSIONS:
                yield f"{kind} {name}: {test} saw it, and the manifest says that it is not emitted"


def _file(test: str) -> str:
    return test.partition("::")[0]
