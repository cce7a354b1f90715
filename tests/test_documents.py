"""What the documents say of the code is there."""

import re
import tomllib
from pathlib import Path

from antiphon.settings.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Settings that are flags with a help text of their own are explained by `antiphon serve --help`.
FLAGS = set(re.findall(r'"(\w+)": \w+,', (ROOT / "src" / "antiphon" / "cli" / "commands.py").read_text()))
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
INSTALLED = re.compile(r"pip install '([^'\[]*)\[([\w,]+)\]'")
TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())


def test_every_setting_without_a_flag_is_explained() -> None:
    written = "\n".join(page.read_text() for page in PAGES)
    names = [name for name in Settings.__struct_fields__ if name not in FLAGS]
    assert names
    assert [name for name in names if f"| `{name}` |" not in written] == []


def test_every_promise_of_security_has_its_test() -> None:
    assert TESTS
    assert [f"{file}::{test}" for file, test in TESTS if not is_defined(file, test)] == []


def is_defined(file: str, test: str) -> bool:
    return re.search(rf"^ *(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE) is not None


def test_every_row_of_promises_names_a_test() -> None:
    promises = (ROOT / "SECURITY.md").read_text().partition("## What is promised")[2]
    heads = ("| **", "| promise", "| ---")
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert rows
    assert all("`tests/" in row for row in rows)


def test_what_a_page_installs_is_an_extra_of_a_checkout() -> None:
    # No public index has the project.
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"):
        for place, extras in INSTALLED.findall(page.read_text()):
            assert place == ".", page.name
            assert set(extras.split(",")) <= EXTRAS.keys(), page.name


def test_some_page_installs_an_extra() -> None:
    assert any(INSTALLED.search(page.read_text()) for page in PAGES)


def test_the_page_lists_what_the_extra_all_stands_for() -> None:
    table = (ROOT / "docs" / "quick_start.md").read_text().partition("| extra | what it is for |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    (everything,) = EXTRAS["all"]
    assert sorted(listed) == sorted(re.findall(r"\w+", everything.partition("[")[2]))
