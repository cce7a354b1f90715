"""`antiphon claude`: runs Claude Code on the gateway, in a folder of its own."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from msgspec import Struct, structs

from antiphon.app.running_gateways import local_url
from antiphon.cli.claude.arguments import has_flag, named_model, needs_model
from antiphon.cli.claude.environment import (
    CLAUDE,
    FULL_VARIABLES,
    LEAN_VARIABLES,
    OWN_NAMES,
    ROOM,
    Environment,
    elsewhere,
    folder_options,
    folder_variables,
    gateway_variables,
    lean_options,
    make_folder,
    proxy_variables,
    window_variables,
)
from antiphon.cli.clients.gateway import DEFAULT_PORT, client_key, running_gateway
from antiphon.cli.clients.process import run_process
from antiphon.cli.clients.program import Choice
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
from antiphon.engines.embedded.weights import alias_of
from antiphon.installation import as_typed
from antiphon.settings.settings import Settings, data_directory

LEAN = "Claude Code runs with four tools and short instructions, because {reason}. `antiphon claude --full` leaves it as it is."
SMALL_WINDOW = "the context window has {window} tokens"
NOTHING_RUNS = (
    "# No gateway runs, so its models are not known. Start one with `antiphon`, then print this again:\n"
    "# that adds the model and its context window.\n"
)
HIDDEN_KEY = "# The key of the gateway is not printed: set ANTIPHON_API_KEY to it.\n"
# Seconds by which the time of a file may be behind the clock.
COARSE = 0.1


class Plan(Struct, frozen=True):
    """What Claude Code is to use, and how."""

    environment: Environment
    # In front of the user's arguments.
    options: Sequence[str] = ()
    model: str | None = None
    # Why it is lean. None: it is not.
    lean: str | None = None


def run_claude(settings: Settings, choice: Choice) -> int:
    """Returns Claude Code's exit code."""
    if choice.only_prints:
        return _print_command(settings, choice)
    binary, home = CLAUDE.find(), _home(settings)
    make_folder(home)

    def alone() -> int:
        return _start(binary, choice, Plan(folder_variables(home)))

    def served(served: Served) -> int:
        plan = _plan(home, choice, served, anyway=choice.anyway)
        plan = _with_folder(plan, binary)
        if plan.lean is not None:
            typer.echo(as_typed(LEAN.format(reason=plan.lean)), err=True)
        if plan.model is not None and (better := better_line(settings, choice, served, plan.model)) is not None:
            typer.echo(better, err=True)
        began = time.time() - COARSE
        code = _start(binary, choice, plan)
        if (session := _shown_session(home, choice, began)) is not None:
            typer.echo(continue_line(CLAUDE, choice.own_options, "--resume", session), err=True)
        return code

    return run_session(CLAUDE, settings, choice, alone=None if needs_model(choice.arguments) else alone, served=served)


def _start(binary: str, choice: Choice, plan: Plan) -> int:
    kept = {name: value for name, value in os.environ.items() if name not in elsewhere(os.environ)}
    return run_process([binary, *plan.options, *choice.arguments], {**kept, **plan.environment})


def _shown_session(home: Path, choice: Choice, since: float) -> str | None:
    """The one that a person has seen, if it was written after `since`, a time in seconds since 1970."""
    if not sys.stdout.isatty() or has_flag(choice.arguments, "-p", "--print"):
        return None
    sessions = [file for file in home.glob("projects/*/*.jsonl") if is_session(file.stem)]
    changed = {file.stat().st_mtime: file.stem for file in sessions}
    last = max(changed, default=0.0)
    return changed[last] if last >= since else None


def _home(settings: Settings) -> Path:
    return data_directory(settings) / "claude"


def _plan(home: Path, choice: Choice, served: Served, *, anyway: bool) -> Plan:
    listed, named = list_models(CLAUDE, served), named_model(choice.arguments)
    note_unlisted(served, listed, None if named in OWN_NAMES else named)
    model = listed.choose(named)
    window, help = listed.windows[model], listed.helped.get(model, {})
    small = None if ROOM.is_in(window, lean=False) else SMALL_WINDOW.format(window=window)
    lean = None if choice.full else (help.get("reason") if help.get("lean_codex") else None) or small
    if not anyway:
        refuse_small_window(ROOM, served, model, listed.windows, lean=lean is not None, full=choice.full)
    environment = {
        **folder_variables(home),
        **gateway_variables(served.url, served.key, model),
        **proxy_variables(served.url, os.environ),
        **window_variables(window),
        **(LEAN_VARIABLES if lean is not None else _unset(FULL_VARIABLES)),
    }
    return Plan(environment, lean_options(choice.arguments) if lean is not None else (), model, lean)


def _with_folder(plan: Plan, binary: str) -> Plan:
    return structs.replace(plan, options=[*plan.options, *folder_options(binary, plan.options)])


def _unset(variables: Environment) -> Environment:
    """Those that the user has not set."""
    return {name: value for name, value in variables.items() if name not in os.environ}


# ---- --print ---------------------------------------------------------------------------------------------------------


def _print_command(settings: Settings, choice: Choice) -> int:
    """As lines for a shell. Neither a gateway nor a session of Claude Code is started."""
    url, key = running_gateway(CLAUDE, settings, choice.url), client_key(CLAUDE, settings)
    home = _home(settings)
    if url is None:
        plan = Plan({**folder_variables(home), **_without_gateway(settings, choice, key)})
    else:
        plan = _plan(home, choice, Served(url, key), anyway=True)
    if (binary := shutil.which(CLAUDE.command)) is not None:
        plan = _with_folder(plan, binary)
    make_folder(home)
    typer.echo(
        (as_typed(NOTHING_RUNS) if url is None else "") + _lines(plan, choice.arguments, has_key=key is not None), nl=False
    )
    return 0


def _without_gateway(settings: Settings, choice: Choice, key: str | None) -> Environment:
    embedded = alias_of(settings.model) if settings.model is not None else None
    model = named_model(choice.arguments) or settings.default_model or embedded
    return gateway_variables(local_url(settings.host, settings.port or DEFAULT_PORT), key, model)


def _lines(plan: Plan, arguments: Sequence[str], *, has_key: bool) -> str:
    removed = elsewhere(os.environ)
    shown = {name: shlex.quote(value) for name, value in plan.environment.items()}
    if has_key:
        shown["ANTHROPIC_AUTH_TOKEN"] = f'"${CLAUDE.key_variable}"'
    lines = [
        *([f"unset {' '.join(removed)}\n"] if removed else []),
        *(f"export {name}={value}\n" for name, value in shown.items()),
        shlex.join([CLAUDE.command, *plan.options, *arguments]) + "\n",
    ]
    return (HIDDEN_KEY if has_key else "") + "".join(lines)
