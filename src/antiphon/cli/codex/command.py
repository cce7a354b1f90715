"""`antiphon codex`: runs Codex on the gateway, in a folder of its own, and says how a session can be continued."""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import typer
from msgspec import Struct

from antiphon.app.running_gateways import local_url
from antiphon.cli.clients.gateway import DEFAULT_PORT, client_key, running_gateway
from antiphon.cli.clients.process import run_process
from antiphon.cli.clients.program import CannotStart, Choice
from antiphon.cli.clients.session import (
    Served,
    better_line,
    continue_line,
    is_session,
    list_models,
    note_unlisted,
    refuse_small_window,
    run_session,
)
from antiphon.cli.codex.arguments import named_model, needs_model, without_model
from antiphon.cli.codex.config import (
    BASE_SETTINGS,
    CODEX,
    LEAN_SETTINGS,
    ROOM,
    CodexSettings,
    known_settings,
    provider_settings,
    read_own_settings,
    to_options,
    to_toml,
    without_own,
)
from antiphon.cli.gateway_client import KEY_VARIABLE
from antiphon.core.knowledge.codex_catalog import catalog_entry
from antiphon.core.knowledge.help import Help
from antiphon.engines.embedded.weights import alias_of
from antiphon.installation import as_typed
from antiphon.settings.settings import Settings, data_directory

# What the interactive Codex calls itself in its sessions. After others, it does not say how to continue them either.
INTERACTIVE = "cli"


class _Meta(Struct):
    id: str
    # Of sessions that an agent has started, this is an object.
    source: str


class _FirstLine(Struct):
    payload: _Meta


def continue_hint(home: Path, since: float, options: Sequence[str], arguments: Sequence[str] = ()) -> str | None:
    """About the interactive session that was written last, if that was after `since`, a time in seconds since 1970; or about
    the one that `arguments`, those of Codex, name: it may have been looked at only. `options`: those of `antiphon codex`."""
    changed = {file: file.stat().st_mtime for file in home.glob("sessions/*/*/*/rollout-*.jsonl")}
    for file in sorted(changed, key=changed.__getitem__, reverse=True):
        if changed[file] < since and not file.stem.endswith(tuple(filter(is_session, arguments))):
            continue
        if (session := _interactive(file)) is not None:
            return continue_line(CODEX, options, "resume", session)
    return None


def _interactive(file: Path) -> str | None:
    with contextlib.suppress(OSError, msgspec.DecodeError), file.open("rb") as lines:
        meta = msgspec.json.decode(lines.readline(), type=_FirstLine).payload
        return meta.id if meta.source == INTERACTIVE else None
    return None


LEAN = "Codex runs with fewer tools and shorter prompts, because {reason}. `antiphon codex --full` leaves everything on."
NOT_LEAN = (
    "This version of Codex cannot check its settings, so it runs with all of its features, which are many for this model. "
    "Update it with `npm install -g @openai/codex`."
)
ONLY_PRINTS = "--print only prints the configuration, and Codex is not started. Leave out: {arguments}. -m NAME is allowed."
NOTHING_RUNS = (
    "# No gateway runs, so its models are not known. Start one with `antiphon`, then print this again:\n"
    "# that adds the model, and the catalog with its context window.\n"
)


class Plan(Struct, frozen=True):
    """What Codex is to use, and how."""

    model: str
    # By model, in tokens.
    windows: Mapping[str, int]
    # What makes Codex use the gateway.
    provider: CodexSettings
    # What its own configuration file may set otherwise. `lean`: what makes it lean.
    base: CodexSettings
    lean: CodexSettings
    # Why it is lean.
    reason: str


def run_codex(settings: Settings, choice: Choice) -> int:
    """Returns Codex's exit code."""
    if choice.only_prints:
        return _print_configuration(settings, choice)
    binary, home = CODEX.find(), _home(settings)

    def alone() -> int:
        return run_process([binary, *choice.arguments], os.environ | {"CODEX_HOME": str(home)})

    def served(served: Served) -> int:
        return _run(binary, home, settings, choice, served)

    return run_session(CODEX, settings, choice, alone=None if needs_model(choice.arguments) else alone, served=served)


def _run(binary: str, home: Path, settings: Settings, choice: Choice, served: Served) -> int:
    own = read_own_settings(home)
    plan = _plan(served, choice, home, own, binary)
    if not choice.anyway:
        refuse_small_window(ROOM, served, plan.model, plan.windows, lean=bool(plan.lean), full=choice.full)
    if plan.lean:
        typer.echo(as_typed(LEAN.format(reason=plan.reason)), err=True)
    if (better := better_line(settings, choice, served, plan.model)) is not None:
        typer.echo(better, err=True)
    options = to_options({**plan.provider, **without_own({**plan.base, **plan.lean}, own)})
    environment = os.environ | {"CODEX_HOME": str(home), KEY_VARIABLE: served.key or "none"}
    began = time.time()
    code = run_process([binary, *options, *choice.arguments], environment)
    # A person sees it. What Codex says to a program has no hint either.
    if sys.stdout.isatty() and (hint := continue_hint(home, began, choice.own_options, choice.arguments)) is not None:
        typer.echo(hint, err=True)
    return code


def _print_configuration(settings: Settings, choice: Choice) -> int:
    """For the user's own configuration of Codex. Nothing is started, neither a gateway nor Codex."""
    if left := without_model(choice.arguments):
        raise CannotStart(ONLY_PRINTS.format(arguments=shlex.join(left)))
    url, key = running_gateway(CODEX, settings, choice.url), client_key(CODEX, settings)
    if url is None:
        typer.echo(as_typed(NOTHING_RUNS) + _without_gateway(settings, choice, has_key=key is not None), nl=False)
        return 0
    plan = _plan(Served(url, key), choice, _home(settings), {})
    typer.echo(to_toml({**plan.provider, **plan.base}, plan.lean, plan.reason), nl=False)
    return 0


def _without_gateway(settings: Settings, choice: Choice, *, has_key: bool) -> str:
    url = local_url(settings.host, settings.port or DEFAULT_PORT)
    embedded = alias_of(settings.model) if settings.model is not None else None
    model = named_model(choice.arguments) or settings.default_model or embedded
    return to_toml({**provider_settings(url, model, has_key=has_key), **BASE_SETTINGS}, {})


def _home(settings: Settings) -> Path:
    home = data_directory(settings) / "codex"
    home.mkdir(parents=True, exist_ok=True)
    return home


def _plan(served: Served, choice: Choice, home: Path, own: Mapping[str, Any], binary: str | None = None) -> Plan:
    """`own`: what the configuration file of Codex has. `binary`: only settings that it knows are used."""
    listed = list_models(CODEX, served)
    note_unlisted(served, listed, named_model(choice.arguments))
    models = [_full_entry(entry, listed.helped) for entry in listed.entries] if choice.full else listed.entries
    catalog = home / "models.json"
    catalog.write_bytes(msgspec.json.format(msgspec.json.encode({"models": models})))
    model = listed.choose(named_model(choice.arguments), own.get("model"))
    help = listed.helped.get(model, {})
    wants_lean = bool(help.get("lean_codex")) and not choice.full
    known: CodexSettings = {**BASE_SETTINGS, **(LEAN_SETTINGS if wants_lean else {})}
    if binary is not None:
        known = known_settings(binary, known)
    lean = {name: value for name, value in known.items() if name in LEAN_SETTINGS}
    if wants_lean and not lean:
        typer.echo(NOT_LEAN, err=True)
    return Plan(
        model=model,
        windows=listed.windows,
        provider=provider_settings(served.url, model, has_key=served.key is not None, catalog=catalog),
        base={name: value for name, value in known.items() if name in BASE_SETTINGS},
        lean=lean,
        reason=help.get("reason", ""),
    )


def _full_entry(entry: dict[str, Any], helped: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A model's entry in the catalog if Codex is not lean. The instructions still fit the tools that the model is offered."""
    name, window, vision = entry["slug"], entry["context_window"], "image" in entry["input_modalities"]
    help = Help(easier_tools=helped.get(name, {}).get("easier_tools", False))
    return catalog_entry(name, window=window, vision=vision, help=help)
