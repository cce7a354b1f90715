"""What the documents say of the code is there."""

import re
import tomllib
from pathlib import Path

import pytest

from antiphon.settings.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Settings that are flags with a help text of their own are explained by `antiphon serve --help`.
FLAGS = set(re.findall(r'"(\w+)": \w+,', (ROOT / "src" / "antiphon" / "cli" / "commands.py").read_text()))
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
INSTALLED = re.compile(r"pip install '([^'\[]*)\[([\w,]+)\]'")
TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text())


@pytest.mark.parametrize("name", [name for name in Settings.__struct_fields__ if name not in FLAGS])
def test_every_setting_without_a_flag_is_explained(name: str) -> None:
    assert any(f"| `{name}` |" in page.read_text() for page in PAGES)


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_every_promise_of_security_has_its_test(file: str, test: str) -> None:
    assert re.search(rf"^ *(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_row_of_promises_names_a_test() -> None:
    promises = (ROOT / "SECURITY.md").read_text().partition("## What is promised")[2]
    heads = ("| **", "| promise", "| ---")
    rows = [line for line in promises.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert rows
    assert all("`tests/" in row for row in rows)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_what_a_page_installs_is_an_extra_of_a_checkout(page: Path) -> None:
    # No public index has the project.
    for place, extras in INSTALLED.findall(page.read_text()):
        assert place == "."
        assert set(extras.split(",")) <= EXTRAS.keys()


def test_some_page_installs_an_extra() -> None:
    assert any(INSTALLED.search(page.read_text()) for page in PAGES)


def test_the_page_lists_what_the_extra_all_stands_for() -> None:
    table = (ROOT / "docs" / "quick_start.md").read_text().partition("| extra | what it is for |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    (everything,) = EXTRAS["all"]
    assert sorted(listed) == sorted(re.findall(r"\w+", everything.partition("[")[2]))


# ---- the source tree, as the documents name it -----------------------------------------------------------------------

SOURCE = ROOT / "src" / "antiphon"
# `core/stream/frames.py` or `core/stream/`, as the source tree has it; `tests/…` from the root of the repository.
NAMED = re.compile(r"`((?:[\w-]+/)+(?:[\w-]+\.py)?)`")
TREE_PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "decisions.md"]


@pytest.mark.parametrize("page", TREE_PAGES, ids=lambda page: page.name)
def test_a_document_names_only_files_that_exist(page: Path) -> None:
    named = set(NAMED.findall(page.read_text()))
    assert named
    assert sorted(name for name in named if not ((SOURCE / name).exists() or (ROOT / name).exists() or _below_core(name))) == []


def _below_core(name: str) -> bool:
    """The table of rooms names the parts of a room by themselves."""
    return any((folder / name).is_dir() for folder in SOURCE.iterdir() if folder.is_dir())


def test_the_architecture_is_a_page_that_one_reads() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= 200


def test_each_walk_fits_a_screen() -> None:
    walks = (ROOT / "ARCHITECTURE.md").read_text().partition("## Four walks")[2].partition("\n## ")[0].strip().split("\n\n")[1:]
    assert len(walks) == 4
    assert max(len(walk.splitlines()) for walk in walks) <= 15
    assert min(len(NAMED.findall(walk)) for walk in walks) >= 10
