"""A session of a program on a gateway: how it is run, and what the gateway says about its models."""

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import typer
from msgspec import Struct

from antiphon.cli.clients.gateway import client_key, fetch, gateway
from antiphon.cli.clients.process import Stopped, stop_signals
from antiphon.cli.clients.program import CannotStart, Choice, Program
from antiphon.cli.clients.window import Room
from antiphon.engines.embedded.model_choice import better_model, pulled_model
from antiphon.installation import own_command
from antiphon.logs import printable
from antiphon.settings.settings import Settings

NO_MODEL = (
    "The engine behind {url} lists no models, so {name} cannot choose one. Load a model into the engine, or start the gateway "
    "with --default-model NAME or ANTIPHON_DEFAULT_MODEL=NAME. Then run this again."
)
NOT_LISTED = "The gateway at {url} lists no model `{model}`: another one answers, or none. It lists: {models}."


class Served(Struct, frozen=True):
    """The gateway of a session."""

    url: str
    # None: it needs none.
    key: str | None
    # It was started with the program, and ends with it.
    is_ours: bool = False


def run_session(
    program: Program,
    settings: Settings,
    choice: Choice,
    *,
    alone: Callable[[], int] | None,
    served: Callable[[Served], int],
) -> int:
    """Returns the program's exit code. `alone` runs it without a gateway, which it does not need then."""
    try:
        with stop_signals():
            if alone is not None:
                return alone()
            with gateway(program, settings, choice.file, choice.url) as (url, is_ours):
                return served(Served(url, client_key(program, settings), is_ours))
    except Stopped as stopped:
        # As a shell reports it.
        return 128 + stopped.number


# ---- how it is continued ---------------------------------------------------------------------------------------------

# What the program itself names when it ends looks for the session in the user's own folder.
CONTINUE = "This session is one of Antiphon's. To continue it, run:\n  {command}"


def continue_line(program: Program, options: Sequence[str], *arguments: str) -> str:
    """`options`: Antiphon's; `arguments`: those by which the program continues a session."""
    return CONTINUE.format(command=f"{own_command()} {shlex.join([program.command, *options, *arguments])}")


def is_session(name: str) -> bool:
    with contextlib.suppress(ValueError):
        return str(UUID(name)) == name
    return False


# ---- models ----------------------------------------------------------------------------------------------------------


class Models(Struct, frozen=True):
    """What the gateway lists."""

    # Entries of Codex's catalog.
    entries: Sequence[dict[str, Any]]
    # By model: the help that it gets.
    helped: Mapping[str, Mapping[str, Any]]

    @property
    def windows(self) -> dict[str, int]:
        """By model, in tokens."""
        return {entry["slug"]: entry["context_window"] for entry in self.entries}

    def choose(self, *wanted: Any) -> str:
        """The first of these that is served. If none is, the first that is listed answers for it."""
        served = self.windows
        return next((name for name in wanted if isinstance(name, str) and name in served), next(iter(served)))


def list_models(program: Program, served: Served) -> Models:
    listing = fetch(served.url, "/v1/models", served.key)
    if not listing["models"]:
        raise CannotStart(NO_MODEL.format(url=served.url, name=program.name))
    return Models(listing["models"], listing.get("antiphon_help", {}))


def note_unlisted(served: Served, listed: Models, named: str | None) -> None:
    """Says it of a model that the user has named: the program itself may go on without a word."""
    if named is not None and named not in listed.windows:
        models = ", ".join(listed.windows)
        typer.echo(printable(NOT_LISTED.format(url=served.url, model=named, models=models)), err=True)


def refuse_small_window(room: Room, served: Served, model: str, windows: Mapping[str, int], *, lean: bool, full: bool) -> None:
    if room.is_in(windows[model], lean=lean):
        return
    engines = fetch(served.url, "/ready", served.key).get("engines", [])
    raise CannotStart(room.too_small(model, windows, engines, lean=lean, full=full))


def better_line(settings: Settings, choice: Choice, served: Served, model: str) -> str | None:
    """The line of the gateway about a better model, which goes to its log here. Without an embedded engine, there is none."""
    if choice.url is not None or (settings.upstream and settings.model is None):
        return None
    return better_model(settings, model) if served.is_ours else pulled_model(settings, model)
