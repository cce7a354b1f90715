"""The commands and their flags."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperOption

from antiphon import __version__
from antiphon.cli import options
from antiphon.cli.claude.arguments import OWN_FLAGS as CLAUDE_FLAGS
from antiphon.cli.clients.arguments import OwnFlags, split_arguments
from antiphon.cli.codex.arguments import OWN_FLAGS as CODEX_FLAGS
from antiphon.cli.options import Command, Group
from antiphon.settings.errors import SettingsError

if TYPE_CHECKING:
    from antiphon.cli.clients.program import Choice
    from antiphon.core.recording.rerun import Rerun
    from antiphon.settings.settings import Settings

# What a command needs is imported when it runs: with all of them, `antiphon --version` would take a second.

app = typer.Typer(
    cls=Group,
    help="OpenAI's Responses API in front of any Chat Completions engine.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

key = typer.Typer(cls=Group, help="Keys of clients.", no_args_is_help=True)
app.add_typer(key, name="key")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


def _fail(message: str) -> NoReturn:
    typer.echo(f"antiphon: {message}", err=True)
    raise typer.Exit(2)


def _load(flags: dict[str, Any], config: Path | None) -> "Settings":
    from antiphon.app.checked_settings import load_settings
    from antiphon.settings.sources import unknown_variables

    for unknown in unknown_variables():
        typer.echo(f"antiphon: {unknown}", err=True)
    try:
        return load_settings(flags, config)
    except SettingsError as invalid:
        _fail(str(invalid))


@contextmanager
def _without_gc() -> Iterator[None]:
    """Modules are no garbage: without a search for it, they are imported an eighth faster."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Without a command, `serve` runs."""


@app.command(cls=Command)
def serve(
    host: options.Host = None,
    port: options.Port = None,
    workers: options.Workers = None,
    upstream: options.Upstream = None,
    upstream_key: options.UpstreamKey = None,
    dialect: options.Dialect = None,
    chat_template: options.ChatTemplate = None,
    model: options.Model = None,
    model_context: options.ModelContext = None,
    model_slots: options.ModelSlots = None,
    model_gpu_layers: options.ModelGpuLayers = None,
    model_threads: options.ModelThreads = None,
    api_key: options.ApiKey = None,
    default_model: options.DefaultModel = None,
    model_names: options.ModelNames = None,
    cors_origins: options.CorsOrigins = None,
    insecure_no_auth: options.InsecureNoAuth = None,
    store: options.Store = None,
    probe: options.Probe = None,
    model_help: options.ModelHelp = None,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
    config: options.Config = None,
) -> None:
    """Serve the Responses API, as `antiphon` alone does. Each flag can also be set as ANTIPHON_… in the environment or as a key
    in antiphon.toml."""
    with _without_gc():
        from antiphon.app.checked_settings import load_settings
        from antiphon.app.processes import CannotServe
        from antiphon.cli.serve import CannotListen, NoEngine, serve_forever, worker_count
        from antiphon.engines.embedded import CannotEmbed
        from antiphon.store import CannotOpen

    flags: dict[str, Any] = {
        "host": host,
        "port": port,
        "workers": workers,
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
        "log_format": log_format,
    }
    chosen = _load(flags, config)
    try:
        if worker_count(chosen) > 1:
            from antiphon.cli.supervise import supervise_forever

            supervise_forever(chosen, flags, config)
        else:
            serve_forever(chosen, partial(load_settings, flags, config))
    except (NoEngine, CannotEmbed, CannotListen, CannotOpen, CannotServe, SettingsError) as reason:
        _fail(str(reason))
    except OSError as failed:
        _fail(str(failed))
    except KeyboardInterrupt:
        # The second Ctrl-C.
        raise typer.Exit(130) from None


class ClientCommand(Command):
    """Runs another program. Arguments for it are not parsed here: it has flags of the same names, and -mphi4 is not
    -m -p -h -i -4."""

    own_flags: OwnFlags
    # How the help speaks of the program.
    words: Mapping[str, str]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in cast(list[TyperOption], self.params):
            option.help = (option.help or "").format_map(self.words)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ours, theirs = split_arguments(args, self.own_flags)
        super().parse_args(ctx, ours)
        ctx.args = theirs
        return theirs

    def run(self, settings: "Settings", choice: "Choice") -> int:
        """The program's exit code."""
        raise NotImplementedError


class CodexCommand(ClientCommand):
    own_flags = CODEX_FLAGS
    words = {"name": "Codex", "features": "features", "printed": "the configuration, to paste into your own"}

    def run(self, settings: "Settings", choice: "Choice") -> int:
        from antiphon.cli.codex.command import run_codex

        return run_codex(settings, choice)


class ClaudeCommand(ClientCommand):
    own_flags = CLAUDE_FLAGS
    words = {"name": "Claude Code", "features": "tools", "printed": "the environment and the command, for a shell"}

    def run(self, settings: "Settings", choice: "Choice") -> int:
        from antiphon.cli.claude.command import run_claude

        return run_claude(settings, choice)


CODEX_HELP = (
    "Run Codex on the gateway, which is started if it does not run. All other arguments, and --config KEY=VALUE, are passed to "
    "Codex; so is everything after --."
)
CLAUDE_HELP = (
    "Run Claude Code on the gateway, which is started if it does not run. All other arguments are passed to Claude Code; so is "
    "everything after --."
)


# The help lists the lowest first.
@app.command("claude", cls=ClaudeCommand, help=CLAUDE_HELP)
@app.command("codex", cls=CodexCommand, help=CODEX_HELP)
def _client(
    context: typer.Context,
    only_prints: options.OnlyPrint = False,
    full: options.Full = False,
    anyway: options.Anyway = False,
    url: options.ClientUrl = None,
    config: options.ClientConfig = None,
) -> None:
    from antiphon.cli.clients.program import CannotStart, Choice

    command = cast(ClientCommand, context.command)
    choice = Choice(arguments=context.args, only_prints=only_prints, full=full, anyway=anyway, url=url, file=config)
    chosen = _load({}, config)
    try:
        raise typer.Exit(command.run(chosen, choice))
    except (SettingsError, CannotStart) as reason:
        _fail(str(reason))


@app.command(cls=Command)
def connect(
    client: Annotated[str | None, typer.Argument(help="A client, as the list names it. Default: the list.")] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Put it into the client's own file, if that is safe. What was there is copied first."),
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Model that the client uses. Default: the first that the gateway lists.")
    ] = None,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Print the configuration of a client for the gateway that is running: its address, models and context window."""
    from antiphon.cli.clients.program import CannotStart
    from antiphon.cli.connect.command import NoClient, run_connect
    from antiphon.cli.connect.write import CannotWrite
    from antiphon.cli.gateway_client import GatewayFailed

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_connect(chosen, client, model=model, url=url, writes=write))
    except (SettingsError, GatewayFailed, CannotStart, CannotWrite, NoClient) as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(cls=Command)
def chat(
    prompt: Annotated[str | None, typer.Argument(help="What to ask. Without it: a conversation, or what is piped in.")] = None,
    model: Annotated[str | None, typer.Option(help="Model that answers. Default: the first that the gateway lists.")] = None,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Talk to a model in the terminal, through the gateway that is running."""
    from antiphon.cli.chat import run_chat
    from antiphon.cli.gateway_client import GatewayFailed

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_chat(chosen, prompt, model=model, url=url))
    except (SettingsError, GatewayFailed) as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(cls=Command)
def batch(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="Requests as OpenAI's batches have them, or a prompt on each line."),
    ],
    model: Annotated[str | None, typer.Option(help="Model of prompts, and of requests that name none.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the results go. Default: FILE.out.jsonl.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop the batch of this file, and write what is done.")] = False,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Work through a file of requests while nobody else needs the engines, and write the results. Interrupted, it goes on; the
    same command follows it again."""
    from antiphon.cli.batch.command import CannotRun, run_batch
    from antiphon.cli.gateway_client import GatewayFailed

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_batch(chosen, file, out, model=model, url=url, cancel=cancel))
    except (SettingsError, GatewayFailed, CannotRun, OSError) as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(cls=Command)
def ps(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every second, until Ctrl-C.")] = False,
    as_json: options.AsJson = False,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Show the gateways that are running: their engines, their models, and the responses in flight."""
    from antiphon.cli.ps import run_ps

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_ps(chosen, url, watch=watch, as_json=as_json))
    except SettingsError as reason:
        _fail(str(reason))


@app.command(cls=Command)
def usage(
    days: Annotated[int, typer.Option(min=1, max=31, help="How many days, with today.")] = 7,
    as_json: options.AsJson = False,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Show the tokens and requests of each key and model, and the tokens of each day: of the store, or of a gateway (--url)."""
    from antiphon.cli.gateway_client import GatewayFailed
    from antiphon.cli.team.usage import run_usage

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_usage(chosen, url, days=days, as_json=as_json))
    except (SettingsError, GatewayFailed) as reason:
        _fail(str(reason))


@app.command(cls=Command)
def restart(
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Replace the worker processes of a running gateway one after another, with new code and settings. No response is lost."""
    from antiphon.cli.gateway_client import GatewayFailed
    from antiphon.cli.restart import run_restart

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_restart(chosen, url))
    except (SettingsError, GatewayFailed) as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(cls=Command)
def doctor(
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of an engine. Repeat it for several. Default: those of the gateway that is running, or found here."
        ),
    ] = None,
    upstream_key: options.UpstreamKey = None,
    dialect: options.Dialect = None,
    chat_template: options.ChatTemplate = None,
    model: Annotated[str | None, typer.Option(help="Model to test. Default: the first of each engine.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    config: options.Config = None,
) -> None:
    """Show what the engines can and cannot do, what Antiphon does about it, and which flag of the engine would fix it."""
    from antiphon.cli.doctor import run_doctor
    from antiphon.cli.serve import NoEngine

    flags = {"upstream": upstream, "upstream_key": upstream_key, "dialect": dialect, "chat_template": chat_template}
    chosen = _load(flags, config)
    try:
        raise typer.Exit(run_doctor(chosen, model, as_json=as_json))
    except (NoEngine, SettingsError) as reason:
        _fail(str(reason))


@app.command(cls=Command)
def mcp(
    server: Annotated[
        str | None, typer.Argument(help="A server of the settings, or a URL. Default: all servers of the settings.")
    ] = None,
    tool: Annotated[str | None, typer.Argument(help="A tool to call, to try it. Default: the tools are listed.")] = None,
    arguments: Annotated[str | None, typer.Argument(help="The arguments of the call, as a JSON object.")] = None,
    as_json: options.AsJson = False,
    config: options.Config = None,
) -> None:
    """List the MCP servers of the settings and their tools, or try a call, and say what is wrong with a server."""
    from antiphon.cli.mcp import WrongCall, run_mcp

    chosen = _load({}, config)
    try:
        raise typer.Exit(run_mcp(chosen, server, tool, arguments, as_json=as_json))
    except (SettingsError, WrongCall) as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command(cls=Command)
def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    config: options.Config = None,
) -> None:
    """List the models that the embedded engine knows by name: their size, what they are good for, and if they fit here."""
    from antiphon.cli.models import run_models

    run_models(_load({}, config), as_json=as_json)


@app.command(cls=Command)
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
    from antiphon.cli.models import run_pull
    from antiphon.engines.embedded import CannotEmbed

    try:
        typer.echo(run_pull(_load({}, config), model))
    except CannotEmbed as reason:
        _fail(str(reason))
    except KeyboardInterrupt:
        typer.echo("antiphon: interrupted. What has arrived is kept: run this again to continue.", err=True)
        raise typer.Exit(130) from None


@key.command("new", cls=Command)
def new_key(
    name: Annotated[str, typer.Argument(help="Whose key it is. What is stored with it belongs to this name.")],
    file: Annotated[bool, typer.Option("--file", help="Print a line for the configuration file, and store nothing.")] = False,
    hashed: Annotated[bool, typer.Option("--hashed", help="The same, with only a hash of the key in the line.")] = False,
    store: options.Store = None,
    config: options.Config = None,
) -> None:
    """Make a key for a client, and print it. It works at once; the store has only a hash of it."""
    chosen = _load({"store": store}, config)
    try:
        if file or hashed:
            from antiphon.cli.team.key_lines import key_lines

            typer.echo(key_lines(chosen, name, hashed=hashed))
            return
        from antiphon.cli.team.keys import store_new

        typer.echo(store_new(chosen, name))
    except SettingsError as invalid:
        _fail(str(invalid))


@key.command("list", cls=Command)
def list_keys(as_json: options.AsJson = False, store: options.Store = None, config: options.Config = None) -> None:
    """List the keys in the store and the names in the settings, with their budgets."""
    from antiphon.cli.team.keys import list_keys

    try:
        typer.echo(list_keys(_load({"store": store}, config), as_json=as_json))
    except SettingsError as invalid:
        _fail(str(invalid))


@key.command("limit", cls=Command)
def limit_key(
    name: Annotated[str, typer.Argument(help="Whose keys.")],
    tokens_per_day: Annotated[int | None, typer.Option(min=0, help="Tokens of prompts and answers.")] = None,
    tokens_per_month: Annotated[int | None, typer.Option(min=0, help="The same in a month.")] = None,
    requests_per_day: Annotated[int | None, typer.Option(min=0, help="Requests.")] = None,
    requests_per_month: Annotated[int | None, typer.Option(min=0, help="The same in a month.")] = None,
    cost_per_day: Annotated[float | None, typer.Option(min=0, help="Costs by the prices of the settings.")] = None,
    cost_per_month: Annotated[float | None, typer.Option(min=0, help="The same in a month.")] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Only say so when it is used up.")] = False,
    store: options.Store = None,
    config: options.Config = None,
) -> None:
    """Set the budget of a name, in place of the one it has. Without a limit: it has none of its own."""
    from antiphon.cli.team.keys import limit
    from antiphon.gateway.usage.budgets import Budget

    limits = {
        "tokens_per_day": tokens_per_day,
        "tokens_per_month": tokens_per_month,
        "requests_per_day": requests_per_day,
        "requests_per_month": requests_per_month,
        "cost_per_day": cost_per_day,
        "cost_per_month": cost_per_month,
    }
    given: dict[str, Any] = {limit: most for limit, most in limits.items() if most is not None}
    try:
        typer.echo(limit(_load({"store": store}, config), name, Budget(**given, soft=soft) if given else None))
    except SettingsError as invalid:
        _fail(str(invalid))


@key.command("revoke", cls=Command)
def revoke_key(
    name: Annotated[str, typer.Argument(help="Whose keys.")],
    ending: Annotated[str | None, typer.Option("--key", help="The last four characters of one key. Default: all.")] = None,
    store: options.Store = None,
    config: options.Config = None,
) -> None:
    """Refuse the keys of a name from now on, in every gateway. What they stored stays."""
    from antiphon.cli.team.keys import revoke

    try:
        typer.echo(revoke(_load({"store": store}, config), name, ending))
    except SettingsError as invalid:
        _fail(str(invalid))


# Ten years, in seconds.
LONGEST_GRACE = 10 * 366 * 86_400


@key.command("rotate", cls=Command)
def rotate_key(
    name: Annotated[str, typer.Argument(help="Whose keys.")],
    grace: Annotated[
        float, typer.Option(min=0, max=LONGEST_GRACE, help="Seconds for which the other keys are still let in.")
    ] = 0,
    store: options.Store = None,
    config: options.Config = None,
) -> None:
    """Make a key in place of all others of this name. What they stored belongs to the name, and stays."""
    from antiphon.cli.team.keys import rotate

    try:
        typer.echo(rotate(_load({"store": store}, config), name, grace))
    except SettingsError as invalid:
        _fail(str(invalid))


@app.command(cls=Command)
def backup(
    folder: Annotated[Path, typer.Argument(help="Where the copies go: a folder that is new or empty.")],
    store: Annotated[str | None, typer.Option(help="The store, if it is not the one of the settings: sqlite:PATH.")] = None,
    config: options.Config = None,
) -> None:
    """Copy the SQLite store and the seal key to a folder, also while the gateway serves. Of Postgres, use pg_dump."""
    from antiphon.cli.backup import CannotBackUp, run_backup

    try:
        for copy in run_backup(_load({"store": store}, config), folder):
            typer.echo(copy)
    except CannotBackUp as reason:
        _fail(str(reason))


@app.command(cls=Command)
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
        _fail(f"unknown dialect {dialect!r}; there are {', '.join(BY_NAME)}")
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
        _fail(str(reason))
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
