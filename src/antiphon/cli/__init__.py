"""The command line."""

import sys

from antiphon.cli.commands import app

GLOBAL_FLAGS = frozenset({"-h", "--help", "--version", "--install-completion", "--show-completion"})


def main() -> None:
    """Without a command, `antiphon` and its flags mean `antiphon serve`."""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in GLOBAL_FLAGS):
        arguments.insert(0, "serve")
    app(arguments, prog_name="antiphon")
