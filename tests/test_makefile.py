"""`make help` explains every target."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_target_is_explained() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    explained = dict(line.removeprefix("make ").split(maxsplit=1) for line in shown.splitlines())
    assert sorted(explained) == sorted(phony[1].split())
    assert all(explained.values())


def test_without_a_target_the_list_is_shown() -> None:
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("make help ")
