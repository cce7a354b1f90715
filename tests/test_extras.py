"""The extras of the installation: one table, the same as that of the package, and no other hint at what to install."""

import re
import tomllib
from pathlib import Path

import pytest

import antiphon
from antiphon.errors import EXTRAS, install_command, missing_extra

SOURCE = Path(antiphon.__file__).parent
PROJECT = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# They install others.
GROUPS = {"all", "dev"}


def test_the_table_is_that_of_the_package() -> None:
    declared = {
        extra: tuple(re.split(r"[<>=; ]", requirement)[0] for requirement in requirements)
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra not in GROUPS
    }
    assert declared == EXTRAS


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(extra: str) -> None:
    said = missing_extra("this", extra)
    assert said.startswith(f"this needs the extra {extra}, which is not installed. In a checkout of Antiphon: ")
    assert said.endswith(install_command(extra))
    assert install_command(extra) == f"pip install '.[{extra}]'"


def test_no_message_names_a_package_to_install() -> None:
    """Nor an extra that the table does not have: all of them are written there."""
    others = [path for path in SOURCE.rglob("*.py") if path.name != "errors.py" and "sandbox" not in path.parts]
    assert [path.name for path in others if "pip install" in path.read_text(encoding="utf-8")] == []
