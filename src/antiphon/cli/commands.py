"""The commands and their flags."""

import asyncio
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from antiphon import __version__, settings
from antiphon.cli.codex import CannotStart, run_codex
from antiphon.cli.doctor import examine
from antiphon.cli.serve import NoEngine, serve_forever
from antiphon.core.replay import replay as replay_stream
from antiphon.dialects import BY_NAME
from antiphon.embedded import CannotEmbed
from antiphon.embedded.weights import DEFAULT_MODEL, find_weights
from antiphon.store import CannotOpen

app = typer.Typer(
    help="OpenAI's Responses API in front of any Chat Completions engine.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


def _fail(message: str) -> NoReturn:
    typer.echo(f"antiphon: {message}", err=True)
    raise typer.Exit(2)


def _chosen(flags: dict[str, Any], config: Path | None) -> settings.Settings:
    try:
        chosen = settings.load(flags, file=config)
    except settings.SettingsError as wrong:
        _fail(str(wrong))
    if chosen.dialect is not None and chosen.dialect not in BY_NAME:
        _fail(f"unknown dialect {chosen.dialect!r}; there are {', '.join(BY_NAME)}")
    return chosen


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Without a command: serve."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [8484]")] = None,
    upstream: Annotated[
        list[str] | None, typer.Option(help="An engine's URL, with or without /v1; several make a pool.")
    ] = None,
    upstream_key: Annotated[str | None, typer.Option(help="The key that the engines want.")] = None,
    dialect: Annotated[str | None, typer.Option(help=f"The engine's dialect, if detection errs: {', '.join(BY_NAME)}.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Also run a model here: smollm2, PATH.gguf or hf:OWNER/NAME/FILE.gguf.")
    ] = None,
    model_context: Annotated[
        int | None, typer.Option(help="Its context for each request, in tokens. Default: what it was trained for, up to 32768.")
    ] = None,
    model_slots: Annotated[int | None, typer.Option(help="How many requests it works on at once. [2]")] = None,
    model_gpu_layers: Annotated[int | None, typer.Option(help="Its layers on the GPU. Default: as many as fit.")] = None,
    model_threads: Annotated[int | None, typer.Option(help="Its threads. Default: one for each core.")] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="A key that clients must send; several are allowed.")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where responses are kept: sqlite:PATH, postgresql://… or memory:. Default: a file in the data directory."
        ),
    ] = None,
    probe: Annotated[
        bool | None, typer.Option("--probe/--no-probe", help="Ask engines what they can do as they are found. [yes]")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. [info]")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings. [antiphon.toml, if there is one]")] = None,
) -> None:
    """Serve the Responses API. Every flag is also ANTIPHON_… in the environment and a key in antiphon.toml."""
    flags: dict[str, Any] = {
        "host": host,
        "port": port,
        "upstream": upstream,
        "upstream_key": upstream_key,
        "dialect": dialect,
        "model": model,
        "model_context": model_context,
        "model_slots": model_slots,
        "model_gpu_layers": model_gpu_layers,
        "model_threads": model_threads,
        "api_key": api_key,
        "store": store,
        "probe": probe,
        "log_level": log_level,
    }
    chosen = _chosen(flags, config)
    try:
        serve_forever(chosen)
    except (NoEngine, CannotEmbed, CannotOpen, settings.SettingsError) as none:
        _fail(str(none))
    except OSError as busy:
        _fail(f"cannot listen on {chosen.host}:{chosen.port}: {busy.strerror or busy}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def codex(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--print", help="Show the configuration to paste, and start nothing.")] = False,
    config: Annotated[Path | None, typer.Option(help="A TOML file of Antiphon's settings.")] = None,
) -> None:
    """Codex, configured for the running gateway; one is started if none runs. What follows is passed on to Codex."""
    try:
        chosen = settings.load({}, file=config)
        raise typer.Exit(run_codex(chosen, context.args, show=show))
    except settings.SettingsError as wrong:
        _fail(str(wrong))
    except CannotStart as reason:
        _fail(str(reason))


@app.command()
def doctor(
    upstream: Annotated[list[str] | None, typer.Option(help="An engine's URL; several are allowed. [those found here]")] = None,
    upstream_key: Annotated[str | None, typer.Option(help="The key that the engines want.")] = None,
    dialect: Annotated[str | None, typer.Option(help="The engine's dialect, if detection errs.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to examine. [the engine's first]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings. [antiphon.toml, if there is one]")] = None,
) -> None:
    """What the engine can and cannot do, what Antiphon does about it, and which flag would mend it."""
    chosen = _chosen({"upstream": upstream, "upstream_key": upstream_key, "dialect": dialect}, config)
    try:
        raise typer.Exit(examine(chosen, model, as_json=as_json))
    except (NoEngine, settings.SettingsError) as none:
        _fail(str(none))


@app.command()
def pull(
    model: Annotated[str, typer.Argument(help="smollm2, or hf:OWNER/NAME/FILE.gguf.")] = DEFAULT_MODEL,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
) -> None:
    """Fetch the embedded engine's model ahead of time, and show where it is kept."""
    try:
        chosen = settings.load({}, file=config)
        weights = asyncio.run(find_weights(model, chosen))
    except (settings.SettingsError, CannotEmbed) as wrong:
        _fail(str(wrong))
    typer.echo(weights.path)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A recorded stream of an engine (.sse).")],
    dialect: Annotated[str | None, typer.Option(help="Accepted for clarity: streams tell their dialect themselves.")] = None,
) -> None:
    """Show the Responses events that a recorded engine stream becomes."""
    if dialect is not None and dialect not in BY_NAME:
        _fail(f"unknown dialect {dialect!r}; there are {', '.join(BY_NAME)}")
    typer.echo(replay_stream([file.read_bytes()]), nl=False)
