"""The command line."""

import sys

from antiphon.cli.commands import app

OWN_FLAGS = frozenset({"-h", "--help", "--version"})


def main() -> None:
    """`antiphon` alone, or with flags only, is `antiphon serve`."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if not first or (
        first.startswith("-") and first not in ("--help", "--version", "--install-completion", "--show-completion")
    ):
        sys.argv.insert(1, "serve")
    app(arguments)
