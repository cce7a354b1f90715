"""The private names of aiohttp that are used, and in how many modules.

A name counts where a module that imports aiohttp imports it from there, or reads or sets it on an object that is not `self`, and
aiohttp's own source has an attribute, function or variable of this name. What a subclass of aiohttp's classes finds on `self` is not seen.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from shape.table import Row
from shape.tree import Module, Tree

LIBRARY = "aiohttp"
PRIVATE = re.compile(r"_[a-z]\w*")
# Public in spite of their underscore, and used by aiohttp, too.
NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


def rows(tree: Tree) -> Iterator[Row]:
    private = library_names()
    used = {str(module.path): found for module in tree.modules if (found := private_names(module, private))}
    every = sorted(set().union(*used.values()))
    listed = tuple(f"{path}: {', '.join(sorted(found))}" for path, found in used.items())
    yield Row("private names of aiohttp in use; modules that use them", f"{len(every)}; {len(used)}", "; ≤ 1", names=listed)


def private_names(module: Module, library: frozenset[str]) -> set[str]:
    sources = [node.module or "" for node in module.nodes if isinstance(node, ast.ImportFrom)]
    sources += [alias.name for node in module.nodes if isinstance(node, ast.Import) for alias in node.names]
    if not any(_is_library(name) for name in sources):
        return set()
    return {name for node in module.nodes for name in _names_at(node) if PRIVATE.fullmatch(name) and name in library}


def _names_at(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return []
        case ast.Attribute(attr=name):
            return [name]
        case ast.ImportFrom(module=str(module), names=imported) if _is_library(module):
            return [alias.name for alias in imported]
    return []


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
