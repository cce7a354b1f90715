"""The files of the page, without a browser: what they load is there, and nothing in them makes markup of a text."""

import re
from pathlib import Path

import pytest

from antiphon.server.inspector.files import FOLDER

SCRIPTS = sorted(FOLDER.glob("*.js"))
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())

# What parses a text as markup, or runs it; and styles that the policy of the page forbids.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\(.style"
)
# Addresses of others. The namespace of SVG is a name, not an address.
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)[\w.]+")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_markup_of_a_text(path: Path) -> None:
    assert FORBIDDEN.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_another_server(path: Path) -> None:
    assert ELSEWHERE.findall(path.read_text(encoding="utf-8")) == []


def test_every_file_is_loaded_by_the_page_and_every_loaded_file_is_there() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    loaded = set(re.findall(r'(?:src|href)="inspector/page/([^"]+)"', index))
    for path in SCRIPTS:
        loaded.update(re.findall(r'from "\./([^"]+)"', path.read_text(encoding="utf-8")))
    assert loaded | {"index.html"} == {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lines_are_as_long_as_everywhere_else(path: Path) -> None:
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 128] == []
