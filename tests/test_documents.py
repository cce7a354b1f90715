"""What the documents say of the code is there."""

import re
import tomllib
from pathlib import Path

from antiphon.settings.settings import Settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Settings that are flags with a help text of their own are explained by `antiphon serve --help`.
FLAGS = set(re.findall(r'"(\w+)": \w+,', (ROOT / "src" / "antiphon" / "cli" / "commands" / "gateways.py").read_text()))
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
    page = (ROOT / "docs" / "quick_start.md").read_text()
    table = page.partition("| extra | what it is for | adds, MB |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    (everything,) = EXTRAS["all"]
    assert sorted(listed) == sorted(["all", *re.findall(r"\w+", everything.partition("[")[2])])
    assert len(re.findall(r"\| \d+\.\d \|$", table, re.MULTILINE)) == len(listed)


# ---- the source tree, as the documents name it -----------------------------------------------------------------------

SOURCE = ROOT / "src" / "antiphon"
# `core/stream/frames.py` or `core/stream/`, as the source tree has it; `tests/…` from the root of the repository.
NAMED = re.compile(r"`((?:[\w-]+/)+(?:[\w-]+\.py)?)`")
TREE_PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "decisions.md"]


def test_documents_name_only_files_that_exist() -> None:
    named = {name for page in TREE_PAGES for name in NAMED.findall(page.read_text())}
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
