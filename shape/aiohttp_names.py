"""The private names of aiohttp that are used, and in how many modules.

A name counts if aiohttp's own source has it, and a module that imports aiohttp imports it from there, or reads or sets it on an
object that is not `self`. In a class that is derived from one of aiohttp's, names on `self` count, too, unless the class itself
assigns or defines them.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from shape.classes import attributes
from shape.table import Row
from shape.tree import DEFINITIONS, Module, Tree

LIBRARY = "aiohttp"
PRIVATE = re.compile(r"_[a-z]\w*")
# Public in spite of their underscore, and used by aiohttp, too.
NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


def rows(tree: Tree) -> Iterator[Row]:
    private = library_names()
    used = {str(module.path): found for module in tree.modules if (found := private_names(module, private))}
    listed = tuple(f"{path}: {', '.join(sorted(found))}" for path, found in used.items())
    yield Row("private names of aiohttp in use", str(len(set().union(*used.values()))))
    yield Row("modules that use private names of aiohttp", str(len(used)), "1", names=listed)


def private_names(module: Module, library: frozenset[str]) -> set[str]:
    imported = set(_imported(module))
    if not imported:
        return set()
    used = {name for node in module.nodes for name in _names_at(node)}
    for node in module.nodes:
        if isinstance(node, ast.ClassDef) and any(_root(base) in imported for base in node.bases):
            used |= _inherited(node)
    return {name for name in used if PRIVATE.fullmatch(name) and name in library}


def _imported(module: Module) -> Iterator[str]:
    """The names that a module has from the library."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (LIBRARY for alias in node.names if _is_library(alias.name))
        elif isinstance(node, ast.ImportFrom) and _is_library(node.module or ""):
            yield from (alias.asname or alias.name for alias in node.names)


def _names_at(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return []
        case ast.Attribute(attr=name):
            return [name]
        case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return [name]
        case ast.ImportFrom(module=str(module), names=imported) if _is_library(module):
            return [alias.name for alias in imported]
    return []


def _inherited(node: ast.ClassDef) -> set[str]:
    on_self = {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
    }
    return on_self - attributes(node) - {member.name for member in node.body if isinstance(member, DEFINITIONS)}


def _root(base: ast.expr) -> str:
    return ast.unparse(base).partition(".")[0].partition("[")[0]


def _is_library(name: str) -> bool:
    return name.partition(".")[0] == LIBRARY


@cache
def library_names() -> frozenset[str]:
    """Those that the installed aiohttp has, read from its source."""
    spec = importlib.util.find_spec(LIBRARY)
    if spec is None or spec.origin is None:
        return frozenset()
    texts = [path.read_text(encoding="utf-8") for path in Path(spec.origin).parent.glob("*.py*") if path.suffix != ".pyc"]
    return frozenset(name for text in texts for name in re.findall(r"\b_[a-z]\w*", text)) - NAMED_TUPLE
