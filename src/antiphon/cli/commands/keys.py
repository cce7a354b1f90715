"""`antiphon key`: the keys of clients."""

from typing import Annotated, Any

import typer

from antiphon.cli import options
from antiphon.cli.commands.invocation import fail, load
from antiphon.cli.options import Command, Group
from antiphon.settings.errors import SettingsError

key = typer.Typer(cls=Group, help="Keys of clients.", no_args_is_help=True)


@key.command("new", cls=Command)
def new_key(
    name: Annotated[str, typer.Argument(help="Whose key it is. What is stored with it belongs to this name.")],
    file: Annotated[bool, typer.Option("--file", help="Print a line for the configuration file, and store nothing.")] = False,
    hashed: Annotated[bool, typer.Option("--hashed", help="The same, with only a hash of the key in the line.")] = False,
    store: options.Store = None,
    config: options.Config = None,
) -> None:
    """Make a key for a client, and print it. It works at once; the store has only a hash of it."""
    chosen = load({"store": store}, config)
    try:
        if file or hashed:
            from antiphon.cli.team.key_lines import key_lines

            typer.echo(key_lines(chosen, name, hashed=hashed))
            return
        from antiphon.cli.team.keys import store_new

        typer.echo(store_new(chosen, name))
    except SettingsError as invalid:
        fail(str(invalid))


@key.command("list", cls=Command)
def list_keys(as_json: options.AsJson = False, store: options.Store = None, config: options.Config = None) -> None:
    """List the keys in the store and the names in the settings, with their budgets."""
    from antiphon.cli.team.keys import list_keys

    try:
        typer.echo(list_keys(load({"store": store}, config), as_json=as_json))
    except SettingsError as invalid:
        fail(str(invalid))


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
        typer.echo(limit(load({"store": store}, config), name, Budget(**given, soft=soft) if given else None))
    except SettingsError as invalid:
        fail(str(invalid))


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
        typer.echo(revoke(load({"store": store}, config), name, ending))
    except SettingsError as invalid:
        fail(str(invalid))


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
        typer.echo(rotate(load({"store": store}, config), name, grace))
    except SettingsError as invalid:
        fail(str(invalid))
