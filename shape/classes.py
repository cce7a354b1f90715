"""How many attributes the instances of a class have, for classes that also have methods.

An attribute is a name that a method assigns on its first parameter (`self.x = …`, also in a tuple, a `for` or a `with`), a
name in `__slots__`, or an annotated name in the body of the class, which is a field of a dataclass, a Struct or a NamedTuple.
A `ClassVar` is none. Inherited attributes are not counted: what is measured is one class as it is written.
"""

import ast
from collections.abc import Iterator

from shape.table import Row
from shape.tree import Function, Tree

MOST_ATTRIBUTES = 20


def rows(tree: Tree) -> Iterator[Row]:
    over = sorted(large_classes(tree), key=lambda found: -found[1])
    names = tuple(f"{name}: {count}" for name, count in over)
    yield Row(f"classes with methods and over {MOST_ATTRIBUTES} attributes", str(len(over)), "0", names=names)


def large_classes(tree: Tree) -> Iterator[tuple[str, int]]:
    for module in tree.modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and has_methods(node) and (count := len(attributes(node))) > MOST_ATTRIBUTES:
                yield f"{module.path}:{node.name}", count


def has_methods(node: ast.ClassDef) -> bool:
    return any(isinstance(member, Function) for member in node.body)


def attributes(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    for member in node.body:
        match member:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found |= _assigned(member)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if "ClassVar" not in ast.unparse(annotation):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                found |= {
                    part.value for part in ast.walk(value) if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    return found


def _assigned(method: Function) -> set[str]:
    parameters = [*method.args.posonlyargs, *method.args.args]
    if not parameters or any(ast.unparse(decorator) in ("staticmethod", "classmethod") for decorator in method.decorator_list):
        return set()
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == parameters[0].arg
    }
