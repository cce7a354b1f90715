"""How long functions are: from `def` to their last line, docstring and comments included, decorators not."""

from collections.abc import Iterator
from statistics import median

from shape.table import Row
from shape.tree import Function, Tree

MOST_LINES = 40


def rows(tree: Tree) -> Iterator[Row]:
    found = sorted(function_lines(tree))
    lengths = [length for length, _ in found]
    over = [f"{name}: {length}" for length, name in reversed(found) if length > MOST_LINES]
    yield Row("functions", f"{len(found):,}")
    yield Row(
        "lines of a function: median, 90 % of them at most, longest",
        f"{median(lengths):.0f}, {lengths[int(0.9 * len(lengths))]}, {lengths[-1]} (`{found[-1][1]}`)",
    )
    yield Row(f"functions over {MOST_LINES} lines", str(len(over)), "≤ 8", names=tuple(over))


def function_lines(tree: Tree) -> Iterator[tuple[int, str]]:
    """Nested functions count by themselves, and as lines of the one around them."""
    for module in tree.modules:
        for node in module.nodes:
            if isinstance(node, Function):
                yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{module.path}:{node.name}"
