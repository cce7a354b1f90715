"""The values of options: those that need no check are read without pydantic, all others as typer reads them."""

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from antiphon.cli.options import Command


def type_options(command: type[TyperCommand], *arguments: str) -> str:
    app = typer.Typer()

    @app.command(cls=command)
    def show(
        word: Annotated[str | None, typer.Argument()] = None,
        name: str | None = None,
        number: int | None = None,
        several: list[str] | None = None,
        file: Path | None = None,
        known: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
        on: bool | None = None,
    ) -> None:
        typer.echo(repr((word, name, number, several, file, known, on)))

    return CliRunner().invoke(app, list(arguments)).output


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["word", "--name", "x"],
        ["--name", ""],
        ["--number", "8484"],
        ["--number", "007"],
        ["--number", "-1"],
        ["--number", " 5 "],
        ["--number", "many"],
        ["--number", "٣"],
        ["--several", "a", "--several", "b"],
        ["--file", "FILE", "--known", "FILE"],
        ["--file", "missing", "--known", "FILE"],
        ["--known", "missing"],
        ["--known", "FOLDER"],
        ["--file", "FOLDER"],
        ["--on"],
        ["--no-on"],
        ["--unknown"],
    ],
)
def test_values_are_those_that_typer_itself_reads(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    paths = {"FILE": str(tmp_path / "file"), "FOLDER": str(tmp_path)}
    given = [paths.get(argument, argument) for argument in arguments]
    assert type_options(Command, *given) == type_options(TyperCommand, *given)
