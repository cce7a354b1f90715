"""The versions of the Node packages that tests use are pinned: a release of another project changes nothing here."""

import json
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_the_lock_file_of_the_node_clients_pins_what_they_ask_for() -> None:
    wanted = json.loads((TESTS / "clients" / "package.json").read_text())["dependencies"]
    packages = json.loads((TESTS / "clients" / "package-lock.json").read_text())["packages"]
    assert packages.pop("")["dependencies"] == wanted
    # "npm:NAME@VERSION" is another version of a package, under a name of its own.
    versions = {name: version.rpartition("@")[2] for name, version in wanted.items()}
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == versions
    assert all(version[0].isdigit() for version in versions.values())


def test_no_lock_file_records_where_packages_were_downloaded() -> None:
    assert [str(file) for file in TESTS.glob("*/package-lock.json") if "resolved" in file.read_text()] == []


def test_the_other_node_packages_are_pinned() -> None:
    for folder in ("browser", "codex"):
        for version in json.loads((TESTS / folder / "package.json").read_text())["dependencies"].values():
            assert version[0].isdigit()
