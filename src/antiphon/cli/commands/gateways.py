"""The commands that run a gateway, and those that look at the ones that run."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.cli import options
from antiphon.cli.commands.invocation import fail, load
from antiphon.settings.errors import SettingsError


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
    _serve(flags, config)


def _serve(flags: dict[str, Any], config: Path | None) -> None:
    from antiphon.app.imports import fast_imports

    with fast_imports():
        from antiphon.app.checked_settings import load_settings
        from antiphon.app.processes import CannotServe
        from antiphon.cli.serve import CannotListen, NoEngine, serve_forever, worker_count
        from antiphon.engines.embedded import CannotEmbed
        from antiphon.store import CannotOpen

    chosen = load(flags, config, serves=True)
    try:
        if worker_count(chosen) > 1:
            from antiphon.cli.supervise import supervise_forever

            supervise_forever(chosen, flags, config)
        else:
            serve_forever(chosen, partial(load_settings, flags, config))
    except (NoEngine, CannotEmbed, CannotListen, CannotOpen, CannotServe, SettingsError) as reason:
        fail(str(reason))
    except OSError as failed:
        fail(str(failed))
    except KeyboardInterrupt:
        # The second Ctrl-C.
        raise typer.Exit(130) from None


def ps(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every second, until Ctrl-C.")] = False,
    as_json: options.AsJson = False,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Show the gateways that are running: their engines, their models, and the responses in flight."""
    from antiphon.cli.ps import run_ps

    chosen = load({}, config)
    try:
        raise typer.Exit(run_ps(chosen, url, watch=watch, as_json=as_json))
    except SettingsError as reason:
        fail(str(reason))


def usage(
    days: Annotated[int, typer.Option(min=1, max=31, help="How many days, with today.")] = 7,
    as_json: options.AsJson = False,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Show the tokens and requests of each key and model, and the tokens of each day: of the store, or of a gateway (--url)."""
    from antiphon.cli.gateway_client import GatewayFailed
    from antiphon.cli.team.usage import run_usage

    chosen = load({}, config)
    try:
        raise typer.Exit(run_usage(chosen, url, days=days, as_json=as_json))
    except (SettingsError, GatewayFailed) as reason:
        fail(str(reason))


def restart(
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Replace the worker processes of a running gateway one after another, with new code and settings. No response is lost."""
    from antiphon.cli.gateway_client import GatewayFailed
    from antiphon.cli.restart import run_restart

    chosen = load({}, config)
    try:
        raise typer.Exit(run_restart(chosen, url))
    except (SettingsError, GatewayFailed) as reason:
        fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


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
    from antiphon.app.imports import fast_imports

    with fast_imports():
        from antiphon.cli.doctor import run_doctor
        from antiphon.cli.serve import NoEngine

    flags = {"upstream": upstream, "upstream_key": upstream_key, "dialect": dialect, "chat_template": chat_template}
    chosen = load(flags, config)
    try:
        raise typer.Exit(run_doctor(chosen, model, as_json=as_json))
    except (NoEngine, SettingsError) as reason:
        fail(str(reason))


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

    chosen = load({}, config)
    try:
        raise typer.Exit(run_mcp(chosen, server, tool, arguments, as_json=as_json))
    except (SettingsError, WrongCall) as reason:
        fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def backup(
    folder: Annotated[Path, typer.Argument(help="Where the copies go: a folder that is new or empty.")],
    store: Annotated[str | None, typer.Option(help="The store, if it is not the one of the settings: sqlite:PATH.")] = None,
    config: options.Config = None,
) -> None:
    """Copy the SQLite store and the seal key to a folder, also while the gateway serves. Of Postgres, use pg_dump."""
    from antiphon.cli.backup import CannotBackUp, run_backup

    try:
        for copy in run_backup(load({"store": store}, config), folder):
            typer.echo(copy)
    except CannotBackUp as reason:
        fail(str(reason))
