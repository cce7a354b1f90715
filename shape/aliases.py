"""How often a JSON object has a name of its own: `Item = dict[str, Any]`."""

import ast
from collections.abc import Iterator

from shape.table import Row
from shape.tree import Tree

OBJECTS = {f"{kind}[str, {value}]" for kind in ("dict", "Mapping", "MutableMapping") for value in ("Any", "object")}


def rows(tree: Tree) -> Iterator[Row]:
    found = list(object_aliases(tree))
    items = [path for path, name in found if name == "Item"]
    yield Row("definitions of `Item = dict[str, Any]`", str(len(items)), "1", names=tuple(items))
    yield Row(
        "definitions of any name for a JSON object", str(len(found)), names=tuple(f"{path}: {name}" for path, name in found)
    )


def object_aliases(tree: Tree) -> Iterator[tuple[str, str]]:
    """At the top level of a module, with or without `TypeAlias`."""
    for module in tree.modules:
        for node in module.syntax.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            if ast.unparse(value) in OBJECTS:
                yield str(module.path), name
