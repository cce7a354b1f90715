"""The rooms keep to themselves: who may import whom, what the core may not touch, and no engine's name in an if."""

import ast
from collections.abc import Iterator
from pathlib import Path

import antiphon
from antiphon.dialects import BY_NAME

SOURCE = Path(antiphon.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# Room → the rooms of ours that it may import. What is not listed may import anything.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "wire": {"wire"},
    "core": {"core", "wire", "errors"},
    "dialects": {"core", "wire"},
    "settings": set(),
    "logs": set(),
    "transport": {"transport", "settings", "logs"},
    "store": {"store", "errors", "settings", "logs", "wire"},
    "engines": {"engines", "transport", "core", "dialects", "wire", "errors", "logs"},
    "embedded": {"embedded", "errors", "settings", "logs"},
    "tools": {"tools", "core"},
    "gateway": {"gateway", "tools", "store", "core", "dialects", "engines", "wire", "errors", "settings", "logs"},
    "background": {"background", "gateway", "store", "core", "wire", "errors", "logs"},
    "http": {"http", "background", "gateway", "transport", "core", "engines", "store", "wire", "errors", "logs"},
}

IMPURE = set(
    "asyncio aiohttp socket threading time datetime random secrets uuid logging os pathlib subprocess tempfile io ssl".split()
)


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            yield from ([f"antiphon.{alias.name}" for alias in node.names] if module == "antiphon" else [module])


def test_rooms_import_only_what_they_may() -> None:
    breaches = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in FILES
        if (allowed := MAY_IMPORT.get(room_of(path))) is not None
        for name in imports_of(path)
        if name.startswith("antiphon.") and name.split(".")[1] not in allowed
    ]
    assert breaches == []


def test_the_core_does_no_input_or_output() -> None:
    pure = [path for path in FILES if room_of(path) in {"core", "wire", "errors", "dialects"}]
    assert len(pure) > 10
    breaches = [f"{path.name} imports {name}" for path in pure for name in imports_of(path) if name.split(".")[0] in IMPURE]
    asynchronous = [
        path.name
        for path in pure
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert breaches == []
    assert asynchronous == []


def test_no_engines_name_stands_in_a_condition() -> None:
    names = set(BY_NAME) - {"plain"} | {"llama.cpp", "llama_cpp"}

    def mentions(test: ast.AST) -> bool:
        return any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in names
            for node in ast.walk(test)
        )

    breaches = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
            patterns = [case.pattern for case in node.cases] if isinstance(node, ast.Match) else []
            breaches += [f"{path.name}: {ast.unparse(test)}" for test in [*tests, *patterns] if mentions(test)]
    assert breaches == []
