"""The extras of the installation: one table, the same as that of the package, and the command that adds one."""

import re
import tomllib
from pathlib import Path

import pytest

import antiphon
from antiphon.installation import EXTRAS, MADE_ANEW, Installation, missing_extra, this_installation

SOURCE = Path(antiphon.__file__).parent
ROOT = SOURCE.parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# They install others.
GROUPS = {"all", "dev"}
WHEEL = Path("/home/ada/antiphon-1.0-py3-none-any.whl")
CHECKOUT = Path("/home/ada/antiphon")


def installed(
    folder: Path, *, file: str = "", installer: str = "pip", source: Path | None = None, editable: bool = False
) -> Installation:
    if file:
        (folder / file).touch()
    return Installation(folder / "bin" / "python", folder, installer, source, editable, frozenset({"files", "mcp"}))


def test_the_table_is_that_of_the_package() -> None:
    declared = {
        extra: tuple(re.split(r"[<>=; ]", requirement)[0] for requirement in requirements)
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra not in GROUPS
    }
    assert declared == EXTRAS


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_is_named_with_the_command_that_installs_it_here(extra: str) -> None:
    said = missing_extra("this", extra)
    assert said == f"this needs the extra {extra}, which is not installed. {this_installation().advice(extra)}"
    assert f"[{extra}]'" in said


def test_from_a_wheel_the_command_names_the_wheel_and_no_folder(tmp_path: Path) -> None:
    advice = installed(tmp_path, source=WHEEL).advice("web")
    assert advice == f"In the folder with {WHEEL.name}: pip install './{WHEEL.name}[web]'"


@pytest.mark.parametrize(("installer", "command"), [("pip", "pip install"), ("uv", "uv pip install")])
def test_in_an_environment_the_installer_that_made_it_is_named(tmp_path: Path, installer: str, command: str) -> None:
    advice = installed(tmp_path, installer=installer, source=CHECKOUT).advice("web")
    assert advice == f"In a checkout of Antiphon: {command} '.[web]'"


@pytest.mark.parametrize(
    ("installer", "command"),
    [("pip", ".venv/bin/python -m pip install"), ("uv", "uv pip install --python .venv/bin/python")],
)
def test_in_an_environment_of_the_checkout_its_own_interpreter_is_named(tmp_path: Path, installer: str, command: str) -> None:
    installation = installed(tmp_path, installer=installer, source=tmp_path, editable=True)
    advice = installation._replace(python=tmp_path / ".venv/bin/python", prefix=tmp_path / ".venv").advice("web")
    assert advice == f"In a checkout of Antiphon: {command} --editable '.[web]'"


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("uv-receipt.toml", f"uv tool install --force './{WHEEL.name}[files,mcp,web]'"),
        ("pipx_metadata.json", f"pipx install --force './{WHEEL.name}[files,mcp,web]'"),
    ],
)
def test_what_makes_the_environment_anew_names_the_extras_that_are_there(tmp_path: Path, file: str, command: str) -> None:
    advice = installed(tmp_path, file=file, installer="uv", source=WHEEL).advice("web")
    assert advice == f"In the folder with {WHEEL.name}: {command}"


def test_an_extra_that_has_another_one_replaces_it(tmp_path: Path) -> None:
    installation = installed(tmp_path, file="pipx_metadata.json", source=WHEEL)
    assert "[files,mcp]'" in installation.advice("pdf")


def test_an_image_is_built_anew(tmp_path: Path) -> None:
    advice = installed(tmp_path, file="antiphon-image", source=Path("/build")).advice("web")
    command = "docker build -f deploy/Dockerfile -t antiphon --build-arg EXTRAS=files,mcp,web ."
    assert advice == f"In a checkout of Antiphon: {command}"


def test_the_image_has_the_file_by_which_it_is_known() -> None:
    *_, file = MADE_ANEW
    assert f"touch /opt/antiphon/{file}\n" in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def test_this_installation_is_that_of_the_checkout() -> None:
    found = this_installation()
    assert found.source == ROOT
    assert found.editable
    assert "mcp" in found.extras


def test_no_message_names_a_package_to_install() -> None:
    """Nor an extra that the table does not have: all of them are written there."""
    others = [path for path in SOURCE.rglob("*.py") if path.name != "installation.py" and "sandbox" not in path.parts]
    assert [path.name for path in others if "pip install" in path.read_text(encoding="utf-8")] == []
