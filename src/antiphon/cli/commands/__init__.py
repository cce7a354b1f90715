"""The commands and their flags.

What a command needs is imported when it runs: with all of them, `antiphon --version` would take a second.
"""

from typing import Annotated

import typer

from antiphon import __version__
from antiphon.cli.commands import clients, gateways, models
from antiphon.cli.commands.keys import key
from antiphon.cli.options import Command, Group

app = typer.Typer(
    cls=Group,
    help="OpenAI's Responses API, Anthropic's Messages and Chat Completions in front of any Chat Completions engine. Without a "
    "command, `serve` runs: `antiphon serve --help` lists its flags, such as --upstream, --model and --port.",
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(key, name="key")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Without a command, `serve` runs."""


# The help lists them in this order.
app.command(cls=Command)(gateways.serve)
app.command("codex", cls=clients.CodexCommand, help=clients.CODEX_HELP)(clients.run_client)
app.command("claude", cls=clients.ClaudeCommand, help=clients.CLAUDE_HELP)(clients.run_client)
for command in (
    clients.connect,
    clients.chat,
    clients.batch,
    gateways.ps,
    gateways.usage,
    gateways.restart,
    gateways.doctor,
    gateways.mcp,
    models.models,
    models.pull,
    gateways.backup,
    models.replay,
):
    app.command(cls=Command)(command)
