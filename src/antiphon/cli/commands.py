"""The commands and their flags."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from antiphon import __version__, settings
from antiphon.cli.backup import CannotBackUp, run_backup
from antiphon.cli.codex import Choice, print_configuration, run_codex
from antiphon.cli.codex_arguments import split_arguments
from antiphon.cli.codex_gateway import CannotStart
from antiphon.cli.doctor import run_doctor
from antiphon.cli.keys import key_lines
from antiphon.cli.models import run_models, run_pull
from antiphon.cli.serve import NoEngine, serve_forever
from antiphon.core.replay import replay as replay_stream
from antiphon.dialects import BY_NAME
from antiphon.embedded import CannotEmbed
from antiphon.reload import load_settings
from antiphon.store import CannotOpen

# Help texts say "Default: x." rather than "[x]": rich takes most of the latter for markup and leaves it out.
app = typer.Typer(
    help="OpenAI's Responses API in front of any Chat Completions engine.",
    no_args_is_help=False,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

key = typer.Typer(help="Keys of clients.", no_args_is_help=True)
app.add_typer(key, name="key")

CHAT_TEMPLATE_HELP = "File with the chat template of engines that do not show it: a .jinja file or a tokenizer_config.json."


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


def _fail(message: str) -> NoReturn:
    typer.echo(f"antiphon: {message}", err=True)
    raise typer.Exit(2)


def _load(flags: dict[str, Any], config: Path | None) -> settings.Settings:
    try:
        return load_settings(flags, config)
    except settings.SettingsError as invalid:
        _fail(str(invalid))


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Without a command, `serve` runs."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. Default: 8484.")] = None,
    upstream: Annotated[
        list[str] | None, typer.Option(help="URL of an engine, with or without /v1. Repeat it for several engines.")
    ] = None,
    upstream_key: Annotated[str | None, typer.Option(help="API key to send to the engines.")] = None,
    dialect: Annotated[
        str | None, typer.Option(help=f"Dialect of the engines, if detection is wrong: {', '.join(BY_NAME)}.")
    ] = None,
    chat_template: Annotated[str | None, typer.Option(help=CHAT_TEMPLATE_HELP)] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Also run an engine here, with this model: a name that `antiphon models` lists, PATH.gguf or "
            "hf:OWNER/NAME/FILE.gguf."
        ),
    ] = None,
    model_context: Annotated[
        int | None, typer.Option(help="Context of each request to it, in tokens. Default: as trained, up to 32768.")
    ] = None,
    model_slots: Annotated[int | None, typer.Option(help="How many requests it processes at once. Default: 2.")] = None,
    model_gpu_layers: Annotated[
        int | None, typer.Option(help="How many of its layers run on the GPU. Default: as many as fit.")
    ] = None,
    model_threads: Annotated[int | None, typer.Option(help="How many CPU threads it uses. Default: one for each core.")] = None,
    api_key: Annotated[
        list[str] | None, typer.Option(help="Key that clients must send. Repeat it to allow several keys.")
    ] = None,
    default_model: Annotated[
        str | None, typer.Option(help="Model of requests that name none, or one that no engine knows.")
    ] = None,
    model_names: Annotated[
        list[str] | None,
        typer.Option(
            "--model-name",
            "--model-names",
            help="NAME=MODEL: another name for a model. NAME: a model of an engine that lists none. Repeat it for several.",
        ),
    ] = None,
    cors_origins: Annotated[
        list[str] | None,
        typer.Option(help="Origin of web pages that may use the API, or * for all. Repeat it for several origins."),
    ] = None,
    insecure_no_auth: Annotated[
        bool | None, typer.Option("--insecure-no-auth", help="Let other machines use the gateway without a key.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where responses are stored: sqlite:PATH, postgresql://… or memory:. Default: a file in the data directory."
        ),
    ] = None,
    probe: Annotated[
        bool | None, typer.Option("--probe/--no-probe", help="Test what each engine can do when it is found. Default: yes.")
    ] = None,
    model_help: Annotated[
        str | None,
        typer.Option(help="Help for models: auto (small ones get it), off (none does) or full (all do). Default: auto."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="Least important messages to log: debug, info, warning or error. Default: info.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """Serve the Responses API. Each flag can also be set as ANTIPHON_… in the environment or as a key in antiphon.toml."""
    flags: dict[str, Any] = {
        "host": host,
        "port": port,
        "upstream": upstream,
        "upstream_key": upstream_key,
        "dialect": dialect,
        "chat_template": chat_template,
        "model": model,
        "model_context": model_context,
        "model_slots": model_slots,
        "model_gpu_layers": model_gpu_layers,
        "model_threads": model_threads,
        "api_key": api_key,
        "default_model": default_model,
        "model_names": model_names,
        "cors_origins": cors_origins,
        "insecure_no_auth": insecure_no_auth,
        "store": store,
        "probe": probe,
        "help": model_help,
        "log_level": log_level,
    }
    chosen = _load(flags, config)
    try:
        serve_forever(chosen, partial(load_settings, flags, config))
    except (NoEngine, CannotEmbed, CannotOpen, settings.SettingsError) as reason:
        _fail(str(reason))
    except OSError as failed:
        _fail(f"cannot listen on {chosen.host}:{chosen.port}: {failed.strerror or failed}")


class CodexCommand(TyperCommand):
    """Arguments for Codex are not parsed here: it has flags of the same names, and -mphi4 is not -m -p -h -i -4."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ours, theirs = split_arguments(args)
        super().parse_args(ctx, ours)
        ctx.args = theirs
        return theirs


@app.command(cls=CodexCommand)
def codex(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--print", help="Only print the configuration, to paste into your own.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Keep all features of Codex on, also for a small model or a small context window.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Start Codex even if the context window of the model is too small for it.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            help="URL of the gateway, in front of what is for Codex. Default: the one at the port of the settings, else the "
            "newest that runs on this machine, else a new one."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with Antiphon's settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """Run Codex on the gateway, which is started if it does not run. All other arguments, and --config KEY=VALUE, are passed to
    Codex; so is everything after --."""
    choice = Choice(arguments=context.args, full=full, anyway=anyway, url=url, file=config)
    try:
        chosen = settings.load({}, file=config)
        if show:
            print_configuration(chosen, choice)
            return
        raise typer.Exit(run_codex(chosen, choice))
    except (settings.SettingsError, CannotStart) as reason:
        _fail(str(reason))


@app.command()
def doctor(
    upstream: Annotated[
        list[str] | None,
        typer.Option(help="URL of an engine. Repeat it for several. Default: the engines found on this machine."),
    ] = None,
    upstream_key: Annotated[str | None, typer.Option(help="API key to send to the engines.")] = None,
    dialect: Annotated[str | None, typer.Option(help="Dialect of the engines, if detection is wrong.")] = None,
    chat_template: Annotated[str | None, typer.Option(help=CHAT_TEMPLATE_HELP)] = None,
    model: Annotated[str | None, typer.Option(help="Model to test. Default: the first of each engine.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """Show what the engines can and cannot do, what Antiphon does about it, and which flag of the engine would fix it."""
    flags = {"upstream": upstream, "upstream_key": upstream_key, "dialect": dialect, "chat_template": chat_template}
    chosen = _load(flags, config)
    try:
        raise typer.Exit(run_doctor(chosen, model, as_json=as_json))
    except (NoEngine, settings.SettingsError) as reason:
        _fail(str(reason))


@app.command()
def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """List the models that the embedded engine knows by name: their size, what they are good for, and if they fit here."""
    run_models(_load({}, config), as_json=as_json)


@app.command()
def pull(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A name that `antiphon models` lists, or hf:OWNER/NAME/FILE.gguf. Default: the one recommended here."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """Download a model for the embedded engine ahead of time, and print its path. An interrupted download is continued."""
    try:
        typer.echo(run_pull(_load({}, config), model))
    except CannotEmbed as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        typer.echo("antiphon: interrupted. What has arrived is kept: run this again to continue.", err=True)
        raise typer.Exit(130) from None


@key.command("new")
def new_key(
    name: Annotated[str, typer.Argument(help="Whose key it is. What is stored with it belongs to this name.")],
    hashed: Annotated[bool, typer.Option("--hashed", help="Write only a hash of the key into the file.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """Make a key for a client, and print it with the line for the file. It is stored nowhere."""
    try:
        typer.echo(key_lines(_load({}, config), name, hashed=hashed))
    except settings.SettingsError as invalid:
        _fail(str(invalid))


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="Where the copies go: a folder that is new or empty.")],
    store: Annotated[str | None, typer.Option(help="The store, if it is not the one of the settings: sqlite:PATH.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings. Default: antiphon.toml, if there is one.")
    ] = None,
) -> None:
    """Copy the SQLite store and the seal key to a folder, also while the gateway serves. Of Postgres, use pg_dump."""
    try:
        for copy in run_backup(_load({"store": store}, config), folder):
            typer.echo(copy)
    except CannotBackUp as reason:
        _fail(str(reason))


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A recorded stream of an engine (.sse).")],
    dialect: Annotated[str | None, typer.Option(help="Accepted for clarity: a stream needs no dialect.")] = None,
) -> None:
    """Show the Responses events that a recorded engine stream becomes."""
    if dialect is not None and dialect not in BY_NAME:
        _fail(f"unknown dialect {dialect!r}; there are {', '.join(BY_NAME)}")
    typer.echo(replay_stream([file.read_bytes()]), nl=False)
