"""What every command does first: it reads the settings. And what it says when it cannot go on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from antiphon.installation import as_typed
from antiphon.settings.errors import SettingsError

if TYPE_CHECKING:
    from antiphon.settings.settings import Settings


def fail(message: str) -> NoReturn:
    typer.echo(as_typed(f"antiphon: {message}"), err=True)
    raise typer.Exit(2)


def load(flags: dict[str, Any], config: Path | None, *, serves: bool = False) -> "Settings":
    """`serves`: the command is the gateway itself, which alone needs the files of the prompts. A broken one stops no other."""
    from antiphon.app.checked_settings import load_settings, load_without_prompts
    from antiphon.settings.sources import unknown_variables

    for unknown in unknown_variables():
        typer.echo(f"antiphon: {unknown}", err=True)
    try:
        return (load_settings if serves else load_without_prompts)(flags, config)
    except SettingsError as invalid:
        fail(str(invalid))
