"""`antiphon codex`: runs Codex on the gateway, in a folder of its own, and says how a session can be continued."""

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import typer
from msgspec import Struct

from antiphon.app.running_gateways import local_url
from antiphon.app.start_up import better_model
from antiphon.cli.codex.arguments import named_model, needs_model, without_model
from antiphon.cli.codex.config import (
    BASE_SETTINGS,
    LEAN_SETTINGS,
    CodexSettings,
    has_room,
    known_settings,
    provider_settings,
    read_own_settings,
    to_options,
    to_toml,
    too_small,
    without_own,
)
from antiphon.cli.codex.gateway import DEFAULT_PORT, CannotStart, client_key, fetch, gateway, running_gateway
from antiphon.cli.codex.process import Stopped, run_codex_process, stop_signals
from antiphon.cli.gateway_client import KEY_VARIABLE
from antiphon.cli.models import pulled_model
from antiphon.core.knowledge.help import Help
from antiphon.engines.embedded.weights import alias_of
from antiphon.server.routes.models import catalog_entry
from antiphon.settings.settings import Settings, data_directory

# What the interactive Codex calls itself in its sessions. After others, it does not say how to continue them either.
INTERACTIVE = "cli"
# Codex itself has just named `codex resume ID`, which looks in the user's own folder.
CONTINUE = "This session is one of Antiphon's. To continue it, run:\n  {command}"


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
        if changed[file] < since and not file.stem.endswith(tuple(filter(_is_id, arguments))):
            continue
        if (session := _interactive(file)) is not None:
            return CONTINUE.format(command=shlex.join(["antiphon", "codex", *options, "resume", session]))
    return None


def _is_id(argument: str) -> bool:
    with contextlib.suppress(ValueError):
        return str(UUID(argument)) == argument
    return False


def _interactive(file: Path) -> str | None:
    with contextlib.suppress(OSError, msgspec.DecodeError), file.open("rb") as lines:
        meta = msgspec.json.decode(lines.readline(), type=_FirstLine).payload
        return meta.id if meta.source == INTERACTIVE else None
    return None


NO_CODEX = "Codex was not found on the PATH. Install it with `npm install -g @openai/codex`, then run this again."
NO_MODEL = (
    "The engine behind {url} lists no models, so Codex cannot choose one. Load a model into the engine, or start the gateway "
    "with --default-model NAME or ANTIPHON_DEFAULT_MODEL=NAME. Then run this again."
)
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


class Choice(Struct, frozen=True):
    """What `antiphon codex` was asked for."""

    # The arguments for Codex.
    arguments: Sequence[str] = ()
    # Codex keeps all of its features, whatever the model is.
    full: bool = False
    # Codex is started even if the context window is too small for it.
    anyway: bool = False
    # Of a gateway.
    url: str | None = None
    # The file with the settings.
    file: Path | None = None

    @property
    def own_options(self) -> list[str]:
        """Those that decide which gateway is used."""
        file = ["--config", str(self.file)] if self.file is not None else []
        return [*(["--url", self.url] if self.url is not None else []), *file]


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
    binary = shutil.which("codex")
    if binary is None:
        raise CannotStart(NO_CODEX)
    try:
        with stop_signals():
            if not needs_model(choice.arguments):
                return run_codex_process([binary, *choice.arguments], os.environ | {"CODEX_HOME": str(_home(settings))})
            with gateway(settings, choice.file, choice.url) as (url, is_ours):
                return _run(binary, settings, choice, url, is_ours=is_ours)
    except Stopped as stopped:
        # As a shell reports it.
        return 128 + stopped.number


def _run(binary: str, settings: Settings, choice: Choice, url: str, *, is_ours: bool) -> int:
    home, key = _home(settings), client_key(settings)
    own = read_own_settings(home)
    plan = _plan(url, key, choice, home, own, binary)
    if not choice.anyway:
        _refuse_small_window(plan, choice, url, key)
    if plan.lean:
        typer.echo(LEAN.format(reason=plan.reason), err=True)
    if choice.url is None and (better := _better_model(settings, plan.model, is_ours=is_ours)) is not None:
        typer.echo(better, err=True)
    options = to_options({**plan.provider, **without_own({**plan.base, **plan.lean}, own)})
    environment = os.environ | {"CODEX_HOME": str(home), KEY_VARIABLE: key or "none"}
    began = time.time()
    code = run_codex_process([binary, *options, *choice.arguments], environment)
    # A person sees it. What Codex says to a program has no hint either.
    if sys.stdout.isatty() and (hint := continue_hint(home, began, choice.own_options, choice.arguments)) is not None:
        typer.echo(hint, err=True)
    return code


def print_configuration(settings: Settings, choice: Choice) -> None:
    """For the user's own configuration of Codex. Nothing is started, neither a gateway nor Codex."""
    if left := without_model(choice.arguments):
        raise CannotStart(ONLY_PRINTS.format(arguments=shlex.join(left)))
    url, key = running_gateway(settings, choice.url), client_key(settings)
    if url is None:
        typer.echo(NOTHING_RUNS + _without_gateway(settings, choice, has_key=key is not None), nl=False)
        return
    plan = _plan(url, key, choice, _home(settings), {})
    typer.echo(to_toml({**plan.provider, **plan.base}, plan.lean, plan.reason), nl=False)


def _without_gateway(settings: Settings, choice: Choice, *, has_key: bool) -> str:
    url = local_url(settings.host, settings.port or DEFAULT_PORT)
    embedded = alias_of(settings.model) if settings.model is not None else None
    model = named_model(choice.arguments) or settings.default_model or embedded
    return to_toml({**provider_settings(url, model, has_key=has_key), **BASE_SETTINGS}, {})


def _home(settings: Settings) -> Path:
    home = data_directory(settings) / "codex"
    home.mkdir(parents=True, exist_ok=True)
    return home


def _plan(url: str, key: str | None, choice: Choice, home: Path, own: Mapping[str, Any], binary: str | None = None) -> Plan:
    """`own`: what the configuration file of Codex has. `binary`: only settings that it knows are used."""
    listing = fetch(url, "/v1/models", key)
    if not listing["models"]:
        raise CannotStart(NO_MODEL.format(url=url))
    helped = listing.get("antiphon_help", {})
    models = [_full_entry(entry, helped) for entry in listing["models"]] if choice.full else listing["models"]
    catalog = home / "models.json"
    catalog.write_bytes(msgspec.json.format(msgspec.json.encode({"models": models})))
    windows = {entry["slug"]: entry["context_window"] for entry in models}
    # If the catalog does not have the one that is named, the first one answers for it.
    wanted = [named_model(choice.arguments), own.get("model")]
    model: str = next((name for name in wanted if isinstance(name, str) and name in windows), models[0]["slug"])
    help = helped.get(model, {})
    wants_lean = bool(help.get("lean_codex")) and not choice.full
    known: CodexSettings = {**BASE_SETTINGS, **(LEAN_SETTINGS if wants_lean else {})}
    if binary is not None:
        known = known_settings(binary, known)
    lean = {name: value for name, value in known.items() if name in LEAN_SETTINGS}
    if wants_lean and not lean:
        typer.echo(NOT_LEAN, err=True)
    return Plan(
        model=model,
        windows=windows,
        provider=provider_settings(url, model, has_key=key is not None, catalog=catalog),
        base={name: value for name, value in known.items() if name in BASE_SETTINGS},
        lean=lean,
        reason=help.get("reason", ""),
    )


def _refuse_small_window(plan: Plan, choice: Choice, url: str, key: str | None) -> None:
    lean = bool(plan.lean)
    if has_room(plan.windows[plan.model], lean=lean):
        return
    engines = fetch(url, "/ready", key).get("engines", [])
    raise CannotStart(too_small(plan.model, plan.windows, engines, lean=lean, full=choice.full))


def _full_entry(entry: dict[str, Any], helped: dict[str, Any]) -> dict[str, Any]:
    """A model's entry in the catalog if Codex is not lean. The instructions still fit the tools that the model is offered."""
    name, window, vision = entry["slug"], entry["context_window"], "image" in entry["input_modalities"]
    help = Help(easier_tools=helped.get(name, {}).get("easier_tools", False))
    return catalog_entry(name, window=window, vision=vision, help=help)


def _better_model(settings: Settings, model: str, *, is_ours: bool) -> str | None:
    """The line of the gateway about it, which goes to its log here. Without an embedded engine, there is none."""
    if settings.upstream and settings.model is None:
        return None
    return better_model(settings, model) if is_ours else pulled_model(settings, model)
