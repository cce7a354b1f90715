"""`antiphon models`: the models that have a name, and whether they fit this machine. `antiphon pull`: downloads one."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from antiphon.app.running_gateways import find
from antiphon.engines.embedded.model_choice import Machine, this_machine
from antiphon.engines.embedded.named_models import BY_NAME, MAX_DEFAULT_CONTEXT, MODELS, NamedModel
from antiphon.engines.embedded.progress import print_progress
from antiphon.engines.embedded.pulled_models import pulled_file
from antiphon.engines.embedded.weights import find_weights
from antiphon.errors import counted
from antiphon.installation import own_command
from antiphon.settings.settings import Settings, models_directory

RECOMMENDED = "Recommended for this machine: {what}, because {why}."
SERVE_IT = "`{serves}` serves it.{again}"
STOP_FIRST = " The gateway at {url} keeps the model that it has. To change that, stop it and start it again."
# Of the table where there is no terminal to ask.
WIDTH = 120
# On a terminal that is narrower than this, some columns are left out: `--json` has them.
WIDE = 100
ONLY_WIDE = ("context", "licence")
GOOD_FOR_WIDTH = 15
FITS = {True: "[green]yes[/]", False: "[red]no[/]", None: "?"}


def run_models(settings: Settings, *, as_json: bool) -> None:
    machine = this_machine(settings)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    if as_json:
        console.file.write(msgspec.json.format(msgspec.json.encode(to_json(machine))).decode() + "\n")
    else:
        console.print(table(machine, console.width))
        console.print(*_notes(machine, settings), sep="\n", highlight=False, markup=False, soft_wrap=True)


def to_json(machine: Machine) -> dict[str, Any]:
    return {
        "memory": machine.memory,
        "folder": str(machine.folder),
        "recommended": machine.recommended().name,
        "recommended_because": machine.why_recommended(),
        "default": machine.default().name,
        "models": [_row(machine, model) for model in MODELS],
    }


def _row(machine: Machine, model: NamedModel) -> dict[str, Any]:
    members = ("name", "title", "parameters", "size", "context", "licence", "good_for", "sha256")
    pulled = pulled_file(model, machine.folder)
    return {name: getattr(model, name) for name in members} | {
        "memory": machine.memory_for(model),
        "fits": machine.fits(model),
        "path": str(pulled) if pulled is not None else None,
    }


def table(machine: Machine, width: int) -> Table:
    """For a terminal with so many columns."""
    shown = Table()
    columns = [column for column in COLUMNS if column not in ONLY_WIDE or width >= WIDE]
    for column in columns:
        # Only this one may become narrower than its text.
        wraps = column == "good for"
        justify: Literal["left", "right"] = "right" if column in ("size", "memory", "context") else "left"
        shown.add_column(column, no_wrap=not wraps, min_width=GOOD_FOR_WIDTH if wraps else None, justify=justify)
    for model in MODELS:
        shown.add_row(*(COLUMNS[column](machine, model) for column in columns))
    return shown


COLUMNS: dict[str, Callable[[Machine, NamedModel], str]] = {
    "name": lambda machine, model: model.name,
    "size": lambda machine, model: decimal(model.size),
    "memory": lambda machine, model: decimal(machine.memory_for(model)),
    "context": lambda machine, model: str(model.context),
    "licence": lambda machine, model: model.licence,
    "good for": lambda machine, model: model.good_for,
    "fits": lambda machine, model: FITS[machine.fits(model)],
    "pulled": lambda machine, model: "yes" if pulled_file(model, machine.folder) is not None else "",
}


def _notes(machine: Machine, settings: Settings) -> list[str]:
    has = f"This machine has {decimal(machine.memory)}." if machine.memory is not None else "That of this machine is unknown."
    length = settings.model_context or MAX_DEFAULT_CONTEXT
    recommended = machine.recommended()
    pull = [RECOMMENDED.format(what=f"{own_command()} pull {recommended.name}", why=machine.why_recommended())]
    return [
        f"Memory: the file, and the context of {counted(machine.slots, 'request')} at once, up to {length} tokens each. {has}",
        *([] if recommended in machine.pulled() else pull),
        f"Without --model, this runs if no other engine is found: {machine.default().name}",
    ]


def run_pull(settings: Settings, model: str | None) -> None:
    """Prints the path, and on standard error what to do next."""
    machine = this_machine(settings)
    chosen = model or machine.recommended().name
    if model is None:
        what = f"{chosen} ({decimal(BY_NAME[chosen].size)})"
        typer.echo(RECOMMENDED.format(what=what, why=machine.why_recommended()), err=True)
    path = asyncio.run(find_weights(chosen, models_directory(settings), _to_stderr, print_progress)).path
    typer.echo(path)
    typer.echo(_next_step(chosen, machine), err=True)


def _next_step(pulled: str, machine: Machine) -> str:
    """`machine`: with what is pulled now."""
    serves = own_command() if machine.default().name == pulled else f"{own_command()} --model {pulled}"
    running = find()
    again = STOP_FIRST.format(url=running[0].url) if running else ""
    return SERVE_IT.format(serves=serves, again=again)


def _to_stderr(line: str) -> None:
    typer.echo(line, err=True)
