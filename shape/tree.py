"""The source files of one checkout, read as syntax trees."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "antiphon"
Function = ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef


@dataclass(frozen=True)
class Module:
    """One file. `path` is relative to the package; `name` has dots, without the package's own."""

    path: Path
    source: str

    @property
    def name(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if self.is_package else parts)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def folder(self) -> str:
        return self.path.parent.as_posix()

    @property
    def lines(self) -> int:
        return len(self.source.splitlines())

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.syntax))

    def strings(self) -> Iterator[str]:
        """The string constants, without docstrings and other texts that only stand there."""
        standing = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in standing:
                yield node.value


@dataclass(frozen=True)
class Tree:
    """A checkout, by its root."""

    root: Path
    modules: tuple[Module, ...]

    @property
    def source(self) -> Path:
        return self.root / "src"


def read_tree(path: Path) -> Tree:
    """`path` is the root of a checkout, or its folder `src`."""
    root = path.resolve()
    root = root.parent if (root / PACKAGE).is_dir() and root.name == "src" else root
    package = root / "src" / PACKAGE
    if not package.is_dir():
        raise FileNotFoundError(f"{path} has no src/{PACKAGE}")
    files = sorted(package.rglob("*.py"))
    return Tree(root, tuple(Module(file.relative_to(package), file.read_text(encoding="utf-8")) for file in files))
