"""The source layout: who may import whom, what the core may not touch, and what is done in one place only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import antiphon
from antiphon.core.knowledge.dialects import BY_NAME

SOURCE = Path(antiphon.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# Package → the packages of ours that it may import. What is not listed may import anything.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "extras": set(),
    "wire": {"wire"},
    "core": {"core", "wire", "errors", "extras"},
    "dialects": {"core", "wire"},
    "setting_errors": set(),
    "container_settings": set(),
    "file_settings": set(),
    "mcp_settings": set(),
    "tool_settings": set(),
    "vector_store_settings": set(),
    "settings": {
        *("setting_errors", "container_settings", "file_settings", "mcp_settings", "tool_settings", "vector_store_settings"),
    },
    "setting_groups": {"setting_errors"},
    "setting_sources": {"setting_errors", "setting_groups", "settings"},
    "log_lines": set(),
    "logs": {"log_lines"},
    "running_gateways": {"settings", "logs"},
    "transport": {"transport", "settings", "logs"},
    "store": {"store", "errors", "extras", "logs", "wire"},
    "engines": {"engines", "transport", "core", "dialects", "wire", "errors", "logs"},
    "embedded": {"embedded", "core", "errors", "extras", "logs"},
    "tools": {"tools", "containers", "vector_stores", "files", "core", "wire", "errors", "extras", "logs", "__version__"},
    "files": {"files", "store", "core", "wire", "errors", "logs"},
    "vector_stores": {"vector_stores", "files", "store", "core", "wire", "errors", "logs"},
    "sandbox": {"sandbox", "logs"},
    "containers": {"containers", "sandbox", "files", "store", "core", "wire", "errors", "logs"},
    "gateway": {"gateway", "files", "tools", "store", "core", "dialects", "engines", "transport", "wire", "errors", "logs"},
    "background": {"background", "gateway", "store", "core", "wire", "errors", "logs"},
    "inspector": {"inspector", "gateway", "core", "wire", "errors"},
    "metrics": {"metrics", "gateway", "engines", "store", "core", "wire", "errors"},
    "traces": {"traces", "gateway", "engines", "core", "wire", "errors", "logs"},
    "http": {
        *("http", "background", "gateway", "inspector", "metrics", "transport", "core", "engines", "store", "wire", "errors"),
        *("files", "vector_stores", "containers", "logs", "__version__"),
    },
}

IMPURE = set(
    "asyncio aiohttp socket threading time datetime random secrets uuid logging os pathlib subprocess tempfile io ssl".split()
)
# A file in memory is no file.
PURE = {"io.BytesIO"}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            names_matter = module in ("antiphon", "io")
            yield from ([f"{module}.{alias.name}" for alias in node.names] if names_matter else [module])


def test_packages_import_only_what_they_may() -> None:
    breaches = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in FILES
        if (allowed := MAY_IMPORT.get(package_of(path))) is not None
        for name in imports_of(path)
        if name.startswith("antiphon.") and name.split(".")[1] not in allowed
    ]
    assert breaches == []


def test_the_core_does_no_input_or_output() -> None:
    pure = [path for path in FILES if package_of(path) in {"core", "wire", "errors", "dialects"}]
    assert len(pure) > 10
    breaches = [
        f"{path.name} imports {name}"
        for path in pure
        for name in imports_of(path)
        if name.split(".")[0] in IMPURE and name not in PURE
    ]
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


# ---- what is done in one place only ----------------------------------------------------------------------------------

# What to ask next is decided in the core: these modules are its policy, and nobody else uses them.
POLICY = {
    f"antiphon.core.{name}"
    for name in ("enforcement", "item_sequence", "lessons", "output", "question", "repairs", "rounds", "truncation")
}


def test_policy_is_core() -> None:
    outside = [path for path in FILES if package_of(path) != "core"]
    breaches = [f"{path.relative_to(SOURCE)} imports {name}" for path in outside for name in imports_of(path) if name in POLICY]
    assert breaches == []


def test_one_place_numbers_events() -> None:
    def numbers(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        return any(isinstance(target, ast.Attribute) and target.attr == "sequence_number" for target in targets)

    assert {path.name for path in FILES if any(map(numbers, ast.walk(ast.parse(path.read_text()))))} == {"numbering.py"}


def test_nothing_parses_what_we_encoded_but_the_one_reader_of_stored_events() -> None:
    """Who knows the form of a frame: its encoder, the reader of engines' frames, that of MCP servers', and that of stored
    ones."""

    def mentions_frames(node: ast.AST) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and "data: " in str(node.value)

    knows = {path.name for path in FILES if any(map(mentions_frames, ast.walk(ast.parse(path.read_text()))))}
    assert knows == {"large_answers.py", "sse.py", "stored_events.py"}
    decodes = {path.name for path in FILES if "StreamEvent" in path.read_text()}
    assert decodes == {"events.py", "stored_events.py"}


def test_one_function_writes_what_is_known_of_an_engine() -> None:
    writers = {path.name for path in FILES if "_learned" in path.read_text()}
    assert writers == {"knowledge.py"}


def modules_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_there_are_no_import_cycles() -> None:
    names = {modules_of(path) for path in FILES}
    graph = {modules_of(path): names.intersection(imports_at_load(path, names)) for path in FILES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " → ".join((*above[above.index(name) :], name))
        if name not in done:
            for imported in graph[name]:
                visit(imported, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def imports_at_load(path: Path, modules: set[str]) -> Iterator[str]:
    """What is imported when the module is, and not later inside a function."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom) and node.module:
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (member if member in modules else node.module for member in members)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += ast.iter_child_nodes(node)


# Who reads JSON that came over the network: a client's body or message, and an engine's answer.
READS_JSON = {
    # Answers of other worker processes; and where the history of a request is.
    "server/siblings.py",
    "server/container_relay.py",
    "server/bodies.py",
    "server/routes/websocket.py",
}


def test_stored_json_is_decoded_in_one_place() -> None:
    layers = [path for path in FILES if package_of(path) in {"gateway", "background", "http"}]
    decodes = {
        str(path.relative_to(SOURCE)) for path in layers if "json.decode" in path.read_text() or "Decoder(" in path.read_text()
    }
    assert decodes - READS_JSON == {
        "gateway/state/record_format.py",
        "gateway/runs/checker.py",
        "gateway/runs/check_process.py",
    }
