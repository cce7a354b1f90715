"""Manifests: what Antiphon does with each thing that an API has, and the tests that show it. Each protocol has one.

A manifest is a file `manifest.toml`. Its table `manifest` says which page is made of it, and which module knows the names that
the SDK has; `beyond` names those who have what the SDK does not. Every other table is a kind of things: its rows.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from conformance.recorder import Seen

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
POLICIES = {
    "exact": "as the API has it",
    "converted": "the engine gets it in another form",
    "notice": "left out, and a notice says so",
    "refused": "a 400 that names it",
    "passed": "the whole request goes to the engine as it came",
    "never": "not emitted",
}


class Row(NamedTuple):
    kind: str
    name: str
    does: str
    says: str
    # Node ids.
    tests: tuple[str, ...]
    # Who has it, if the SDK does not.
    beyond: str | None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Manifest:
    """`protocol`: the name of the client protocol, by which what was seen is told apart."""

    def __init__(self, protocol: str, file: Path) -> None:
        self.protocol = protocol
        self.file = file

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return tomllib.loads(self.file.read_text())

    @property
    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = self._tables["manifest"]
        return about

    @property
    def head(self) -> str:
        return str(self._about["head"]).strip() + "\n"

    @property
    def page(self) -> Path:
        return ROOT / str(self._about["page"])

    @property
    def titles(self) -> Mapping[str, str]:
        """Kind → the heading of its table on the page."""
        titles: dict[str, str] = self._about["titles"]
        return titles

    @property
    def emitted(self) -> frozenset[str]:
        """The kinds of things that Antiphon emits: no test may see one that the manifest does not list."""
        return frozenset(self._about["emitted"])

    def names(self) -> dict[str, set[str]]:
        """Kind → what the SDK has. The SDK is imported only here: not every run of the tests needs it."""
        names: dict[str, set[str]] = import_module(self._about["sdk"]).names()
        return names

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        beyond = self._tables["beyond"]
        return tuple(
            Row(kind, name, does, says, tuple(f"tests/{test}" for test in tests), beyond.get(name))
            for kind in self.titles
            for name, (does, says, *tests) in self._tables.get(kind, {}).items()
        )

    def unknown_tables(self) -> set[str]:
        """Kinds that the page has no heading for."""
        return self._tables.keys() - self.titles.keys() - {"manifest", "beyond"}

    # ---- rows and what tests saw -------------------------------------------------------------------------------------

    def missing_tests(self, collected: Iterable[str]) -> Iterator[str]:
        """Rows whose test is not in its file. `collected`: all tests of the files that were read whole."""
        known = set(collected)
        files = {_file(test) for test in known}
        for row in self.rows:
            for test in row.tests:
                if _file(test) in files and test not in known:
                    yield f"{self.protocol} {row}: there is no test {test}"

    def unshown_rows(self, seen: Mapping[str, set[Seen]]) -> Iterator[str]:
        """Rows whose test did not put it on the wire. `seen`: what each test that ran has put there."""
        for row in self.rows:
            for test in row.tests:
                if test in seen and Seen(self.protocol, row.kind, row.name) not in seen[test]:
                    yield f"{self.protocol} {row}: {test} did not put it on the wire"

    def unlisted(self, seen: Mapping[str, set[Seen]]) -> Iterator[str]:
        """What tests saw and the manifest does not have, or says is never emitted."""
        emitted = {(row.kind, row.name) for row in self.rows if row.does != "never"}
        of_extensions = frozenset(self._about.get("of_extensions", ()))
        for test, things in seen.items():
            for protocol, kind, name in things:
                known = (kind, name) in emitted or name in of_extensions
                if protocol == self.protocol and kind in self.emitted and not known:
                    yield f"{protocol} {kind} {name}: {test} saw it, and the manifest says that it is not emitted"


def _file(test: str) -> str:
    return test.partition("::")[0]


RESPONSES = Manifest("responses", FOLDER / "manifest.toml")
# The folders beside have the names of the other protocols.
MANIFESTS = (RESPONSES, *(Manifest(file.parent.name, file) for file in sorted(FOLDER.glob("*/manifest.toml"))))
