"""The command line."""

import sys

from antiphon.cli.commands import app

OWN_FLAGS = frozenset({"-h", "--help", "--version"})


def main() -> None:
    """`antiphon` alone, or with flags only, is `antiphon serve`."""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in OWN_FLAGS):
        arguments.insert(0, "serve")
    app(arguments)
