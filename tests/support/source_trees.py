"""Small source trees for the tests of what is read from them."""

from pathlib import Path
from textwrap import dedent

from shape.tree import Module, Tree, read_tree


def make_tree(root: Path, modules: dict[str, str], architecture: str = "") -> Tree:
    """`modules`: their paths in the package, and their texts. `architecture`: the text of tests/test_architecture.py."""
    for path, text in {"__init__.py": '__version__ = "9.9.9"\n', **modules}.items():
        file = root / "src" / "antiphon" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
    if architecture:
        (root / "tests").mkdir()
        (root / "tests" / "test_architecture.py").write_text(dedent(architecture), encoding="utf-8")
    return read_tree(root)


def make_module(text: str, path: str = "module.py") -> Module:
    return Module(Path(path), dedent(text))
