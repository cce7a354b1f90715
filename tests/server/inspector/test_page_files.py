"""The files of the page, without a browser: what they load is there, and nothing in them makes markup of a text."""

import re
from collections.abc import Iterable
from pathlib import Path

from antiphon.server.inspector.inspector import FOLDER

SCRIPTS = sorted(FOLDER.glob("*.js"))
FILES = sorted(path for path in FOLDER.rglob("*") if path.is_file())

# What parses a text as markup, or runs it; and styles that the policy of the page forbids.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\(.style"
)
# Addresses of others. The namespace of SVG is a name, not an address.
ELSEWHERE = re.compile(r"https?://(?!www\.w3\.org/2000/svg)[\w.]+")


def found_in(files: Iterable[Path], pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """What was found, by the name of each file that has something."""
    found = {path.name: pattern.findall(path.read_text(encoding="utf-8")) for path in files}
    return {name: matches for name, matches in found.items() if matches}


def test_no_script_makes_markup_of_a_text() -> None:
    assert found_in(SCRIPTS, FORBIDDEN) == {}


def test_no_file_names_another_server() -> None:
    assert found_in(FILES, ELSEWHERE) == {}


def test_every_file_is_loaded_by_the_page_and_every_loaded_file_is_there() -> None:
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    loaded = set(re.findall(r'(?:src|href)="inspector/page/([^"]+)"', index))
    for path in SCRIPTS:
        loaded.update(re.findall(r'from "\./([^"]+)"', path.read_text(encoding="utf-8")))
    assert loaded | {"index.html"} == {path.name for path in FILES}


def test_lines_are_as_long_as_everywhere_else() -> None:
    assert found_in(FILES, re.compile("^.{129,}$", re.MULTILINE)) == {}
