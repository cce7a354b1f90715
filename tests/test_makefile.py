"""`make help` explains every target, and README names the two that everybody needs."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(*targets: str) -> str:
    """Also where the tests themselves were started by make."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    done = subprocess.run(["make", *targets], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_every_target_is_explained() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    shown = make("help")
    explained = dict(line.removeprefix("make ").split(maxsplit=1) for line in shown.splitlines())
    assert sorted(explained) == sorted(phony[1].split())
    assert all(explained.values())


def test_without_a_target_the_list_is_shown() -> None:
    shown = make()
    assert shown.startswith("make help ")


def test_readme_says_how_to_serve_and_how_to_test() -> None:
    start = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Start\n")[2].partition("\n## ")[0]
    assert "$ make serve\n" in start
    assert "$ make test\n" in start
    assert "minutes" in start
    assert "left out" in start


def test_another_python_has_an_environment_of_its_own() -> None:
    commands = make("--dry-run", "--always-make", "test", "PYTHON=python3.12", "VENV=.venv-3.12")
    assert "python3.12 -m venv .venv-3.12" in commands
    assert ".venv-3.12/bin/python -m pytest" in commands
    assert ".venv/" not in commands
