"""How many modules a folder has, and how large modules are."""

from collections import Counter
from collections.abc import Iterator

from shape.table import Row
from shape.tree import DEFINITIONS, Module, Tree

MOST_MODULES = 15
FEW_LINES = 60
ROOT = "."


def rows(tree: Tree) -> Iterator[Row]:
    sizes = folder_sizes(tree)
    largest, most = sizes.most_common(1)[0]
    over = [(folder, size) for folder, size in sizes.most_common() if size > MOST_MODULES]
    yield Row("largest folder, in modules (without `__init__`)", f"{most} (`{largest}`)", f"≤ {MOST_MODULES}")
    yield Row(
        f"folders over {MOST_MODULES} modules", str(len(over)), "0", names=tuple(f"{name}: {size}" for name, size in over)
    )
    yield Row("modules at the root of the package", str(sizes[ROOT]), "≤ 8", names=tuple(_names(modules_at_root(tree))))
    yield Row("files of src", f"{len(tree.modules):,}", "≤ 480")
    yield Row("lines of src", f"{sum(module.lines for module in tree.modules):,}", "≤ 62,000")
    lone, small = lone_modules(tree), small_modules(tree)
    yield Row("modules with one definition", str(len(lone)), names=tuple(_names(lone)))
    yield Row(f"modules under {FEW_LINES} lines", str(len(small)), names=tuple(_names(small)))


def folder_sizes(tree: Tree) -> Counter[str]:
    return Counter(module.folder for module in tree.modules if not module.is_package)


def modules_at_root(tree: Tree) -> list[Module]:
    return [module for module in tree.modules if module.folder == ROOT and not module.is_package]


def lone_modules(tree: Tree) -> list[Module]:
    """Those with exactly one function or class at their top level. `__init__` is left out, as it is for folders."""
    return [
        module
        for module in tree.modules
        if not module.is_package and sum(isinstance(node, DEFINITIONS) for node in module.syntax.body) == 1
    ]


def small_modules(tree: Tree) -> list[Module]:
    return [module for module in tree.modules if not module.is_package and module.lines < FEW_LINES]


def _names(modules: list[Module]) -> Iterator[str]:
    return (str(module.path) for module in modules)
