"""Everything that is found by reading the sources."""

from shape import aiohttp_names, aliases, classes, folders, functions, hosted_tools, rooms
from shape.table import Row
from shape.tree import Tree

PARTS = folders, functions, classes, rooms, hosted_tools, aiohttp_names, aliases


def static_rows(tree: Tree) -> list[Row]:
    return [row for part in PARTS for row in part.rows(tree)]
