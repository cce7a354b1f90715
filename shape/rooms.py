"""Imports that point the wrong way: from a package to one that comes after it in the order of rooms.

The order is `ORDER` in tests/test_architecture.py: folders ("core/events"), and modules that are not at the level of their own
folder ("store/__init__.py"), as a sequence or as words of a text. Modules in no room are left out, and a tree without the table
has no row. Imports inside functions count.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from shape.table import Row
from shape.tree import PACKAGE, Module, Tree

TABLE = "ORDER"


def rows(tree: Tree) -> Iterator[Row]:
    order = room_order(tree.root / "tests" / "test_architecture.py")
    if order:
        wrong = list(wrong_imports(tree, order))
        yield Row("imports that point the wrong way", str(len(wrong)), "0", names=tuple(wrong))


def room_order(path: Path) -> list[str]:
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
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="split")):
            return text.split()
        case ast.List(elts=names) | ast.Tuple(elts=names):
            return [str(ast.literal_eval(name)) for name in names]
    return []


def wrong_imports(tree: Tree, order: Sequence[str]) -> Iterator[str]:
    places = {room: place for place, room in enumerate(order)}
    paths = {module.name: module.path for module in tree.modules}
    for module in tree.modules:
        own = _place(module.path, places)
        for imported in imported_modules(module, set(paths)):
            other = _place(paths[imported], places) if imported in paths else None
            if own is not None and other is not None and other > own:
                yield f"{module.path} imports {imported}"


def _place(path: PurePath, places: dict[str, int]) -> int | None:
    """That of the module itself, of its folder, or of the nearest folder above it that is listed."""
    return next((places[name] for each in (path, *path.parents) if (name := each.as_posix()) in places), None)


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
