"""Imports that point the wrong way: from a package to one that comes after it in the order of rooms.

The order is `ROOMS` in tests/test_architecture.py: a sequence of names, or a dictionary whose keys are in order. A name is a
package or a module, with dots or slashes ("core/events"); the longest that fits says where a module is. Modules in no room are
left out, and a tree without the table has no row. Imports inside functions count.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from shape.table import Row
from shape.tree import PACKAGE, Module, Tree

TABLE = "ROOMS"


def rows(tree: Tree) -> Iterator[Row]:
    order = room_order(tree.root / "tests" / "test_architecture.py")
    if order:
        wrong = list(wrong_imports(tree, order))
        yield Row("imports that point the wrong way", str(len(wrong)), "0", names=tuple(wrong))


def room_order(path: Path) -> list[str]:
    """Only the keys of a dictionary are evaluated: its values may be computed."""
    if not path.exists():
        return []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value) if name == TABLE:
                return _names(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name == TABLE:
                return _names(value)
    return []


def _names(value: ast.expr) -> list[str]:
    names = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
    return [str(ast.literal_eval(name)).replace("/", ".") for name in names if name is not None]


def wrong_imports(tree: Tree, order: Sequence[str]) -> Iterator[str]:
    places = {room: place for place, room in enumerate(order)}
    known = {module.name for module in tree.modules}
    for module in tree.modules:
        own = _place(module.name, places)
        for imported in imported_modules(module, known):
            other = _place(imported, places)
            if own is not None and other is not None and other > own:
                yield f"{module.path} imports {imported}"


def _place(name: str, places: dict[str, int]) -> int | None:
    while name and name not in places:
        name = name.rpartition(".")[0]
    return places.get(name)


def imported_modules(module: Module, known: set[str]) -> list[str]:
    """Modules of ours, each once, without the package's name. `from a import b` is the module `a.b` where there is one."""
    found: dict[str, None] = {}
    for node in module.nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(module, node)
            names = [f"{source}.{alias.name}" for alias in node.names]
        for name in names:
            own = name.removeprefix(f"{PACKAGE}.")
            if own != name:
                found[own if own in known else own.rpartition(".")[0]] = None
    return [name for name in found if name]


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = [PACKAGE, *module.path.parts[:-1]]
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])
