"""The commands that ask a gateway that runs, and those that run or configure other programs that do."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperOption

from antiphon.cli import options
from antiphon.cli.claude.arguments import OWN_FLAGS as CLAUDE_FLAGS
from antiphon.cli.clients.arguments import OwnFlags, split_arguments
from antiphon.cli.codex.arguments import OWN_FLAGS as CODEX_FLAGS
from antiphon.cli.commands.invocation import fail, load
from antiphon.cli.options import Command
from antiphon.settings.errors import SettingsError

if TYPE_CHECKING:
    from antiphon.cli.clients.program import Choice
    from antiphon.settings.settings import Settings


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
        from antiphon.app.imports import fast_imports

        with fast_imports():
            from antiphon.cli.codex.command import run_codex

        return run_codex(settings, choice)


class ClaudeCommand(ClientCommand):
    own_flags = CLAUDE_FLAGS
    words = {"name": "Claude Code", "features": "tools", "printed": "the environment and the command, for a shell"}

    def run(self, settings: "Settings", choice: "Choice") -> int:
        from antiphon.app.imports import fast_imports

        with fast_imports():
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


def run_client(
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
    chosen = load({}, config)
    try:
        raise typer.Exit(command.run(chosen, choice))
    except (SettingsError, CannotStart) as reason:
        fail(str(reason))


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

    chosen = load({}, config)
    try:
        raise typer.Exit(run_connect(chosen, client, model=model, url=url, writes=write))
    except (SettingsError, GatewayFailed, CannotStart, CannotWrite, NoClient) as reason:
        fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def chat(
    prompt: Annotated[str | None, typer.Argument(help="What to ask. Without it: a conversation, or what is piped in.")] = None,
    model: Annotated[str | None, typer.Option(help="Model that answers. Default: the first that the gateway lists.")] = None,
    url: options.Url = None,
    config: options.Config = None,
) -> None:
    """Talk to a model in the terminal, through the gateway that is running."""
    from antiphon.cli.chat import run_chat
    from antiphon.cli.gateway_client import GatewayFailed

    chosen = load({}, config)
    try:
        raise typer.Exit(run_chat(chosen, prompt, model=model, url=url))
    except (SettingsError, GatewayFailed) as reason:
        fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


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

    chosen = load({}, config)
    try:
        raise typer.Exit(run_batch(chosen, file, out, model=model, url=url, cancel=cancel))
    except (SettingsError, GatewayFailed, CannotRun, OSError) as reason:
        fail(str(reason))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
