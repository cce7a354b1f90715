"""`antiphon connect`: prints what a client needs for the gateway that is running, or lists the clients."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import typer

from antiphon.cli.clients.program import Choice
from antiphon.cli.connect.client import KEY_VARIABLE, YOUR_KEY, Client, Facts, ServedModel
from antiphon.cli.connect.installed import Installed
from antiphon.cli.connect.table import CLIENTS
from antiphon.cli.connect.write import write
from antiphon.cli.gateway_client import GatewayClient, GatewayFailed, choose_gateway, key_for
from antiphon.cli.gateway_readiness import when_ready
from antiphon.cli.ps import columns
from antiphon.installation import as_typed
from antiphon.logs import printable
from antiphon.settings.settings import Settings

NO_CLIENT = "there is no client `{name}`. {hint}"
LIKE = "Did you mean {names}? "
LIST_THEM = "`antiphon connect` lists them."
NO_MODEL = (
    "The engine behind {url} lists no models. Load one, or start the gateway with --default-model NAME. Then run this again."
)
NOT_SERVED = "The gateway at {url} serves no model `{model}`. There are: {models}."
NOT_TRIED = "Not tried: this follows {title}'s documentation, and no test runs it."
PLACE = "{place}:"
HIDDEN = "The gateway needs a key, which is not printed. Set {variable} to it."
HIDDEN_PLACE = "The gateway needs a key, which is not printed. Put it in place of {place}."
WRITTEN = "{path} has it now."
BACKUP = "What was there before is in {path}."
RUNS_IT = "Nothing needs to be written for {title}: `antiphon {name}` runs it on the gateway."
LIST_HEAD = ("name", "client", "API", "tested", "installed here")
FOOT = (
    "tested: whether Antiphon's tests run the client; of the others, the configuration follows their documentation.",
    "`antiphon connect NAME` prints what a client needs. --write puts it into the client's file, where that is safe.",
)


class NoClient(Exception):
    """There is none of this name. The message says which are like it."""


def run_connect(settings: Settings, name: str | None, *, model: str | None, url: str | None, writes: bool) -> int:
    """Returns the exit code."""
    if name is None:
        typer.echo("\n".join(printable(line) for line in _list()))
        if url is not None:
            # The list needs no gateway, but a URL that nothing answers at is an error, as it is with the name of a client.
            GatewayClient(choose_gateway(settings, url), None).get("/health")
        return 0
    if (client := CLIENTS.get(name)) is None:
        raise NoClient(NO_CLIENT.format(name=name, hint=_hint(name)))
    if client.text is None and client.config is None:
        return _run_own(client, settings, model=model, url=url, writes=writes)
    facts = _facts(settings, model, url, shows_key=writes)
    if writes:
        path, backup = write(client, facts)
        typer.echo(WRITTEN.format(path=path))
        if backup is not None:
            typer.echo(BACKUP.format(path=backup))
        return 0
    rendered = client.render(facts)
    for remark in _remarks(client, facts, rendered):
        typer.echo(remark, err=True)
    typer.echo(rendered, nl=False)
    return 0


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name, CLIENTS, n=3, cutoff=0.5)
    return (LIKE.format(names=" or ".join(f"`{each}`" for each in near)) if near else "") + LIST_THEM


def _run_own(client: Client, settings: Settings, *, model: str | None, url: str | None, writes: bool) -> int:
    """Codex and Claude Code have commands of their own."""
    if writes:
        typer.echo(as_typed(RUNS_IT.format(title=client.title, name=client.name)))
        return 0
    from antiphon.cli.claude.command import run_claude
    from antiphon.cli.codex.command import run_codex

    run = {"codex": run_codex, "claude": run_claude}[client.name]
    return run(settings, Choice(["--model", model] if model is not None else [], only_prints=True, url=url))


def _facts(settings: Settings, model: str | None, url: str | None, *, shows_key: bool) -> Facts:
    client = GatewayClient(choose_gateway(settings, url), key := key_for(settings))
    entries = when_ready(client, lambda: client.member("/v1/models", "models"))
    served = [ServedModel(entry["slug"], entry["context_window"], "image" in entry["input_modalities"]) for entry in entries]
    names = [each.name for each in served]
    if not served:
        raise GatewayFailed(NO_MODEL.format(url=client.url))
    if model is not None and model not in names:
        raise GatewayFailed(NOT_SERVED.format(url=client.url, model=model, models=", ".join(names)))
    chosen = [each for each in served if each.name == model]
    rest = [each for each in served if each.name != model]
    return Facts(client.url, [*chosen, *rest], key, shows_key)


def _remarks(client: Client, facts: Facts, rendered: str) -> list[str]:
    """Beside what is printed: only that is to be copied."""
    return [
        *([NOT_TRIED.format(title=client.title)] if not client.is_tried else []),
        *([HIDDEN.format(variable=KEY_VARIABLE)] if KEY_VARIABLE in rendered else []),
        *([HIDDEN_PLACE.format(place=YOUR_KEY)] if YOUR_KEY in rendered else []),
        *([PLACE.format(place=client.place)] if client.place is not None else []),
    ]


def _list() -> Sequence[str]:
    """Those that are installed here come first."""
    installed = Installed(Path.cwd(), os.environ)
    rows = [
        (each.name, each.title, each.api, "yes" if each.is_tried else "no", installed.find(each) or "")
        for each in CLIENTS.values()
    ]
    return [*columns([LIST_HEAD, *sorted(rows, key=lambda row: not row[-1])]), "", *map(as_typed, FOOT)]
