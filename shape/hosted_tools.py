"""In how many modules one hosted tool is named. `wire`, which has the shapes of all items, is left out.

A tool is written where a string constant is its type, or the type of its items and events: `web_search`, `web_search_preview`,
`web_search_call`, `response.web_search_call.searching`. It is named where it is written, or where an identifier, a module or
another string contains its type as words: `WebSearch`, `web_search_calls`. Docstrings and comments do not count.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from shape.table import Row
from shape.tree import Module, Tree

TYPES = "web_search", "file_search", "code_interpreter", "image_generation", "mcp", "shell", "tool_search"
SUFFIXES = "call", "preview", "output", "list_tools", "approval_request", "approval_response"


class Names(NamedTuple):
    """What a module writes: its strings, and all names in snake case, one in a line."""

    path: str
    strings: frozenset[str]
    lines: str


def rows(tree: Tree) -> Iterator[Row]:
    modules = [names_of(module) for module in tree.modules if module.path.parts[0] != "wire"]
    for type in TYPES:
        if found := tuple(names.path for names in modules if writes(names, type)):
            yield Row(f"modules that write the type `{type}`", str(len(found)), "3–5", names=found)
    for type in TYPES:
        if found := tuple(names.path for names in modules if mentions(names, type)):
            yield Row(f"modules that name `{type}` in any way", str(len(found)), names=found)


def writes(names: Names, type: str) -> bool:
    pattern = re.compile(rf"(response\.)?{type}(_({'|'.join(SUFFIXES)})\w*)?(\.\w+)*")
    return any(pattern.fullmatch(text) for text in names.strings)


def mentions(names: Names, type: str) -> bool:
    return re.search(rf"(?:^|_){type}s?(?:_|$)", names.lines, re.MULTILINE) is not None


def names_of(module: Module) -> Names:
    """Strings with spaces are texts for people, and contain no names."""
    strings = frozenset(module.strings())
    texts = {module.path.with_suffix("").as_posix(), *(text for text in strings if " " not in text), *_identifiers(module)}
    words = (word for text in texts for word in re.findall(r"\w+", text))
    return Names(str(module.path), strings, "\n".join(map(_snake, words)))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _identifiers(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(module=str(name)) | ast.keyword(arg=str(name)):
                yield name
