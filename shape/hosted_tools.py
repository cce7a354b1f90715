"""In how many modules one hosted tool is named. `wire`, which has the shapes of all items, is left out.

A tool is written where a string constant is its type, or the type of its items and events: `web_search`, `web_search_preview`,
`web_search_call`, `response.web_search_call.searching`. It is named where it is written, or where an identifier, a module or
another string contains its type as words: `WebSearch`, `web_search_calls`. Docstrings and comments do not count.
"""

import ast
import re
from collections.abc import Callable, Iterator

from shape.table import Row
from shape.tree import Module, Tree

TYPES = "web_search", "file_search", "code_interpreter", "image_generation", "mcp", "shell", "tool_search"
SUFFIXES = "call", "preview", "output", "list_tools", "approval_request", "approval_response"


def rows(tree: Tree) -> Iterator[Row]:
    for type in TYPES:
        if writing := modules_where(tree, writes, type):
            yield Row(f"modules that write the type `{type}`", str(len(writing)), "3–5", names=tuple(writing))
    for type in TYPES:
        if naming := modules_where(tree, names, type):
            yield Row(f"modules that name `{type}` in any way", str(len(naming)), names=tuple(naming))


def modules_where(tree: Tree, fits: Callable[[Module, str], bool], type: str) -> list[str]:
    return [str(module.path) for module in tree.modules if module.path.parts[0] != "wire" and fits(module, type)]


def writes(module: Module, type: str) -> bool:
    pattern = re.compile(rf"(response\.)?{type}(_({'|'.join(SUFFIXES)})\w*)?(\.\w+)*")
    return any(pattern.fullmatch(text) for text in module.strings())


def names(module: Module, type: str) -> bool:
    words = re.compile(rf"(?:^|_){type}s?(?:_|$)")
    return any(words.search(_snake(name)) for text in _written_names(module) for name in re.findall(r"\w+", text))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _written_names(module: Module) -> Iterator[str]:
    """Strings with spaces are texts for people."""
    yield module.path.with_suffix("").as_posix()
    yield from (text for text in module.strings() if " " not in text)
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(module=str(name)) | ast.keyword(arg=str(name)):
                yield name
