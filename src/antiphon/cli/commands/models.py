"""The commands that need no gateway: models of the embedded engine, and recordings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import options
from antiphon.cli.commands.invocation import fail, load

if TYPE_CHECKING:
    from antiphon.core.recording.rerun import Rerun


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    config: options.Config = None,
) -> None:
    """List the models that the embedded engine knows by name: their size, what they are good for, and if they fit here."""
    from antiphon.app.imports import fast_imports

    with fast_imports():
        from antiphon.cli.models import run_models

    run_models(load({}, config), as_json=as_json)


def pull(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A name that `antiphon models` lists, or hf:OWNER/NAME/FILE.gguf. Default: the one recommended here."
        ),
    ] = None,
    config: options.Config = None,
) -> None:
    """Download a model for the embedded engine ahead of time, and print its path. An interrupted download is continued."""
    from antiphon.app.imports import fast_imports

    with fast_imports():
        from antiphon.cli.models import run_pull
        from antiphon.engines.embedded import CannotEmbed

    try:
        run_pull(load({}, config), model)
    except CannotEmbed as reason:
        fail(str(reason))
    except KeyboardInterrupt:
        typer.echo("antiphon: interrupted. What has arrived is kept: run this again to continue.", err=True)
        raise typer.Exit(130) from None


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="A recording of the inspector (.json), or a recorded stream of an engine (.sse)."
        ),
    ],
    dialect: Annotated[str | None, typer.Option(help="Accepted for clarity: a stream needs no dialect.")] = None,
) -> None:
    """Show the Responses events that a recording becomes: the same that the client got."""
    from antiphon.core.exchange.sync_run import replay as replay_stream
    from antiphon.core.knowledge.dialects import BY_NAME
    from antiphon.core.recording.file import is_recording
    from antiphon.gateway.runs.check_process import run_check

    if dialect is not None and dialect not in BY_NAME:
        fail(f"unknown dialect {dialect!r}; there are {', '.join(BY_NAME)}")
    data = file.read_bytes()
    if is_recording(data):
        _rerun(data)
    else:
        typer.echo(replay_stream([data], run_check), nl=False)


def _rerun(data: bytes) -> None:
    from antiphon.core.exchange.sync_run import to_stream
    from antiphon.core.recording.file import NotARecording, file_to_recording
    from antiphon.core.recording.rerun import run_again

    try:
        rerun = run_again(file_to_recording(data))
    except NotARecording as reason:
        fail(str(reason))
    typer.echo(to_stream(rerun.events, ended=rerun.ended), nl=False)
    if (missing := _missing(rerun)) is not None:
        typer.echo(f"antiphon: {missing}", err=True)
        raise typer.Exit(1)


def _missing(rerun: "Rerun") -> str | None:
    """What the client got, and is not among the events."""
    if rerun.trouble is not None:
        return " ".join(filter(None, ("this is not all that the client got.", rerun.trouble, rerun.detail)))
    if rerun.error is not None and not rerun.ended:
        return f"the client got an error, and no events: {rerun.error.status} {rerun.error.message}"
    return None
