"""The shape of a source tree and its costs, as a Markdown table: what, target, measured."""

import argparse
import platform
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from shape import callgrind, collected, hello, instructions, memory
from shape.static import static_rows
from shape.table import Figures, Row, names_to_markdown, read_figures, to_markdown, write_figures
from shape.tree import Tree, read_tree

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    tree = read_tree(options.tree)
    found = Figures(options.label or version(tree), measured_with(), tuple(measure(tree, options)))
    before = read_figures(options.before) if options.before else None
    print(to_markdown(found.rows, before))
    if before:
        print(f"\nBefore: {before.of}; measured with {before.measured_with}.")
    if options.names:
        print(f"\n{names_to_markdown(found.rows)}")
    if options.json:
        write_figures(options.json, found)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m shape", description=__doc__)
    made.add_argument("--tree", type=Path, default=ROOT, help="the checkout to measure, or its src; default: this one")
    made.add_argument("--static", action="store_true", help="only what is found by reading the sources, in a second")
    made.add_argument("--tests", action="store_true", help="also count the tests, which takes a while")
    made.add_argument(
        "--costs", action="store_true", help="also count instructions and memory, in a few minutes; needs valgrind"
    )
    made.add_argument("--names", action="store_true", help="also list the modules, functions and classes behind the figures")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    made.add_argument("--before", type=Path, metavar="FILE", help="add a column with the figures of such a file")
    made.add_argument("--label", help="what the figures are of, for --json; default: the version of the tree")
    return made


def measure(tree: Tree, options: argparse.Namespace) -> Iterator[Row]:
    parts: list[tuple[bool, Callable[[Tree], Iterator[Row]]]] = [
        (options.tests, collected.rows),
        (not options.static, hello.rows),
        (options.costs, memory.rows),
        (options.costs and not callgrind.is_missing(), instructions.rows),
    ]
    yield from static_rows(tree)
    for wanted, rows in parts:
        if wanted:
            yield from rows(tree)
    if options.costs and callgrind.is_missing():
        print(callgrind.MISSING, file=sys.stderr)


def version(tree: Tree) -> str:
    source = next(module.source for module in tree.modules if not module.name)
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    return found[1] if found else "unknown"


def measured_with() -> str:
    valgrind = "no valgrind" if callgrind.is_missing() else callgrind.version()
    return f"Python {platform.python_version()}, {valgrind}"


if __name__ == "__main__":
    main()
