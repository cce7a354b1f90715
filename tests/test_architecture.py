"""The source tree: the order of its rooms, who may import whom, what the core may not touch, who names a hosted tool, and what
is done in one place."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import antiphon
from antiphon.core.hosted.hosted_tool import HostedTool
from antiphon.core.hosted.mcp.row import MCP_SERVERS
from antiphon.core.hosted.rows import HOSTED
from antiphon.core.hosted.tool_search import TOOL_SEARCH
from antiphon.core.knowledge.dialects import BY_NAME

SOURCE = Path(antiphon.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# ---- the rooms -------------------------------------------------------------------------------------------------------

# At the root, below everything; and above everything.
BELOW = ("errors", "ids", "installation", "logs", "sealing", "patterns", "partial_json")
ABOVE = ("library", "__main__")

# Every folder, and each module that is not at the level of its folder. A module imports only from its own line and from
# earlier ones, also inside functions.
ORDER = """
wire
settings
child_processes
core
core/events
core/protocols/responses
core/protocols/client_protocol.py
core/protocols/responses/protocol.py
core/protocols/messages
core/protocols/chat
core/protocols
core/knowledge
core/checks
core/toolbox
core/toolbox/easier_tools
core/stream/text_calls
core/stream
core/items
core/hosted
core/hosted/mcp
core/hosted/rows.py
core/prompt
core/exchange
core/recording
store/account_records.py
store/records.py
store/wakeups.py
store/operations.py
store/accounts
store
store/sql
store/sqlite
store/files
store/memory
store/postgres
store/__init__.py
transport
transport/plain
transport/fast
transport/choice.py
transport/__init__.py
engines
engines/probes
engines/embedded
files
files/readers
files/readers/office
files/readers/kinds.py
files/readers/file_texts.py
files/batches
files/vector_stores/search
files/vector_stores
sandbox
sandbox/containers
tools
tools/mcp
tools/web_search
tools/file_search
tools/code_interpreter
tools/image_generation
gateway
gateway/stored_prompts
gateway/usage
gateway/webhooks
gateway/limits
gateway/state
gateway/runs
gateway/passed_through
gateway/background
gateway/batches
server/traces
server/metrics
server/inspector
server
server/usage
server/routes
server/routes/bulk
server/routes/table.py
app
app/processes
cli
cli/team
cli/batch
cli/clients
cli/codex
cli/claude
cli/connect
cli/commands
cli/__init__.py
""".split()

# A room, or a part of one → what it may import beside itself. A part that is not listed belongs to its room; a room that is
# not listed may import all that is earlier.
LOW = {"errors", "ids", "patterns", "partial_json", "sealing"}
MAY_IMPORT: dict[str, set[str]] = {
    **{name: {"errors", "patterns"} for name in BELOW},
    # A line for a terminal names commands as they are typed there.
    "logs": {"installation"},
    "wire": set(),
    "settings": {"errors", "ids"},
    "core": {"wire", *LOW},
    "store": {"errors", "ids", "installation", "logs", "wire"},
    "transport": {"settings", "logs"},
    "engines": {"transport", "core", "wire", "errors", "logs"},
    "child_processes": set(),
    "engines/embedded": {"child_processes", "core", "settings", "errors", "installation", "logs"},
    "files": {"files/readers", "store", "core", "wire", "logs", *LOW},
    "files/readers": {"core", "errors", "installation", "patterns"},
    "sandbox": {"logs"},
    "sandbox/containers": {"sandbox", "files", "store", "core", "wire", "errors", "logs"},
    "tools": {
        "child_processes",
        "sandbox/containers",
        "files",
        "core",
        "wire",
        "errors",
        "installation",
        "logs",
        "__version__",
    },
    "gateway": {
        "child_processes",
        "files",
        "files/readers",
        "tools",
        "store",
        "core",
        "engines",
        "transport",
        "wire",
        "logs",
        *LOW,
    },
    "gateway/background": {"gateway", "store", "core", "wire", "logs", *LOW},
    "server/inspector": {"gateway", "core", "wire", *LOW},
    "server/metrics": {"gateway", "engines", "store", "core", "wire", "errors"},
    "server/traces": {"gateway", "engines", "core", "wire", "errors", "logs"},
    "server": {
        *("gateway", "gateway/background", "server/inspector", "server/metrics", "transport", "core", "engines", "store"),
        *("files", "sandbox/containers", "wire", "logs", "__version__", *LOW),
    },
}

MOST_MODULES = 15
MOST_PACKAGES = 14
# Places of version 0.1 that its running processes start by name. They go after one release.
STARTED_BY_NAME = {"embedded", "worker_processes"}

IMPURE = set(
    "asyncio aiohttp socket threading time datetime random secrets uuid logging os pathlib subprocess tempfile io ssl".split()
)
# A file in memory is no file.
PURE = {"io.BytesIO"}
# What decides, or reads what somebody sent. Readers are given open files.
PURE_PARTS = (
    *("core/", "wire/", "files/readers/", "errors.py", "patterns.py", "partial_json.py", "sealing.py"),
    *("files/vector_stores/chunking.py", "files/vector_stores/search/words.py", "files/vector_stores/search/found.py"),
    *("gateway/limits/fair_queue.py", "gateway/limits/request_rates.py", "tools/web_search/page_text.py"),
)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> Sequence[ast.AST]:
    return list(ast.walk(tree_of(path)))


def name_of(path: Path) -> str:
    """`core/stream/frames.py`"""
    return path.relative_to(SOURCE).as_posix()


def package_of(path: Path) -> str:
    return name_of(path).split("/")[0].removesuffix(".py")


def folder_of(path: Path) -> str:
    return path.relative_to(SOURCE).parent.as_posix()


def room_of(path: Path) -> str:
    """As `MAY_IMPORT` has it."""
    parts = [part for part in MAY_IMPORT if "/" in part and name_of(path).startswith(f"{part}/")]
    return parts[0] if parts else package_of(path)


def place_of(path: Path) -> int:
    """Where the module is in the order."""
    if folder_of(path) == ".":
        return -1 if path.stem in BELOW else len(ORDER)
    place = name_of(path) if name_of(path) in ORDER else folder_of(path)
    assert place in ORDER, f"{place} is a new folder: give it its place in ORDER"
    return ORDER.index(place)


def modules_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {modules_of(path): path for path in FILES}


def imports_of(path: Path) -> Iterator[str]:
    """Every name that is imported, also inside functions: `antiphon.errors.ApiError`."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_modules(path: Path) -> Iterator[Path]:
    """Modules of ours. The version is in none of the rooms."""
    for name in imports_of(path):
        if name.split(".")[0] == "antiphon" and name != "antiphon.__version__":
            yield MODULES.get(name) or MODULES[name.rpartition(".")[0]]


def test_every_module_is_in_a_room() -> None:
    folders = {folder_of(path) for path in FILES} - {"."}
    assert folders - STARTED_BY_NAME == {line for line in ORDER if not line.endswith(".py")}
    assert {path.stem for path in FILES if folder_of(path) == "."} == {*BELOW, *ABOVE, "__init__"}
    assert len({folder.split("/")[0] for folder in folders} - STARTED_BY_NAME) <= MOST_PACKAGES


def test_no_folder_has_more_modules_than_one_can_read_at_a_glance() -> None:
    counts = dict.fromkeys(ORDER, 0)
    for path in FILES:
        if path.stem != "__init__" and folder_of(path) in counts:
            counts[folder_of(path)] += 1
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_import_points_the_wrong_way() -> None:
    breaches = [
        f"{name_of(path)} imports {name_of(imported)}"
        for path in FILES
        if package_of(path) not in STARTED_BY_NAME
        for imported in imported_modules(path)
        if place_of(imported) > place_of(path)
    ]
    assert breaches == []


def test_rooms_import_only_what_they_may() -> None:
    breaches = [
        f"{name_of(path)} imports {name_of(imported)}"
        for path in FILES
        if (allowed := MAY_IMPORT.get(room_of(path))) is not None
        for imported in imported_modules(path)
        if room_of(imported) not in {room_of(path), *allowed}
    ]
    versions = [room_of(path) for path in FILES if "antiphon.__version__" in imports_of(path)]
    assert breaches == []
    assert {room for room in versions if room in MAY_IMPORT} <= {"tools", "server"}


def test_the_core_does_no_input_or_output() -> None:
    pure = [path for path in FILES if name_of(path).startswith(PURE_PARTS)]
    assert len(pure) > 100
    breaches = [
        f"{name_of(path)} imports {name}"
        for path in pure
        for name in imports_of(path)
        if name.split(".")[0] in IMPURE and name not in PURE
    ]
    asynchronous = [
        name_of(path)
        for path in pure
        for node in nodes_of(path)
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
        for node in nodes_of(path):
            tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
            patterns = [case.pattern for case in node.cases] if isinstance(node, ast.Match) else []
            breaches += [f"{path.name}: {ast.unparse(test)}" for test in [*tests, *patterns] if mentions(test)]
    assert breaches == []


# ---- hosted tools: each is one row --------------------------------------------------------------------------------------

# Who names a hosted tool: the module of its row, the shapes of the protocol, and what runs it. All other tables are loops over
# the rows. A name is a string that is the type of the tool, the kind of its calls, the type of one of its items, or a value of
# `include` that begins with such a type.
NAME_TOOLS = ("wire/", "tools/")
# Name → where it is written besides.
NAMED_ELSEWHERE: dict[str, tuple[str, ...]] = {
    # An option of Codex; and Anthropic's clients have names of their own for some tools, which a protocol translates.
    "web_search": ("cli/codex/config.py", "core/protocols/messages/", "core/protocols/chat/"),
    **dict.fromkeys(("web_search_call", "code_interpreter", "mcp_call", "tool_search"), ("core/protocols/messages/",)),
    **dict.fromkeys(("code_interpreter_call",), ("core/protocols/messages/",)),
    # The client runs it, too; and a kernel has a channel of this name.
    "shell": ("core/toolbox/", "core/items/calls.py", "sandbox/kernel.py"),
    "hosted_shell": ("core/toolbox/tools.py",),
    # The toolbox knows the servers of a request. It is also an extra, a table of settings, and a command of both programs.
    "mcp": (
        *("core/toolbox/", "core/protocols/messages/", "installation.py", "settings/", "app/"),
        *("cli/codex/arguments.py", "cli/claude/arguments.py"),
    ),
}
# Who imports the module of a row. MCP servers and the search for tools are steps of an exchange, too.
IMPORT_TOOLS = ("core/hosted/", "tools/", "app/hosted_tools.py")
STEPS_OF_AN_EXCHANGE = (MCP_SERVERS, TOOL_SEARCH)


def homes_of(tool: HostedTool) -> set[Path]:
    """The modules of its row. Those of MCP servers have a folder."""
    modules = [MODULES[each.__module__] for each in tool.definitions.values()] or [MODULES[tool.items[0].to_chat.__module__]]
    inside = {path for path in FILES if folder_of(path) == "core/hosted/mcp"}
    return {*modules, *(inside if inside.intersection(modules) else ())}


def texts_of(path: Path) -> set[str]:
    """Every string but those that document something."""
    nodes = nodes_of(path)
    documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documents]
    return {node.value for node in constants if isinstance(node.value, str)}


def test_a_hosted_tool_is_named_by_its_row_its_shapes_and_its_runner() -> None:
    texts = {path: texts_of(path) for path in FILES}
    breaches = []
    for tool in HOSTED:
        items = {row.type for row in tool.items}
        for path in set(FILES) - homes_of(tool):
            named = {each for each in texts[path] if each in {*tool.definitions, *items} or each.split(".")[0] in items}
            breaches += [
                f"{name_of(path)} has {name!r}"
                for name in named
                if not name_of(path).startswith((*NAME_TOOLS, *NAMED_ELSEWHERE.get(name, ())))
            ]
    assert sorted(breaches) == []


def test_what_is_said_to_name_a_tool_does() -> None:
    texts = {name_of(path): texts_of(path) for path in FILES}
    unused = [
        (name, place)
        for name, places in NAMED_ELSEWHERE.items()
        for place in places
        if not any(name in found for path, found in texts.items() if path.startswith(place))
    ]
    assert unused == []


def test_the_module_of_a_row_is_imported_by_what_runs_the_tool() -> None:
    homes = {home for tool in HOSTED if tool not in STEPS_OF_AN_EXCHANGE for home in homes_of(tool)}
    assert homes
    breaches = [
        f"{name_of(path)} imports {name_of(imported)}"
        for path in FILES
        if not name_of(path).startswith(IMPORT_TOOLS)
        for imported in imported_modules(path)
        if imported in homes
    ]
    assert breaches == []


def test_there_is_one_name_for_an_item() -> None:
    def names_items(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        return any(isinstance(target, ast.Name) and target.id == "Item" for target in targets)

    named = {name_of(path) for path in FILES if any(map(names_items, tree_of(path).body))}
    assert named == {"wire/input_items.py"}


# ---- what is done in one place only ----------------------------------------------------------------------------------

# What to ask next is decided in the core: these modules are its policy, and nobody else uses them.
POLICY = (
    *("core/items/enforcement.py", "core/items/item_sequence.py", "core/items/output.py"),
    *("core/exchange/opening.py", "core/exchange/answering.py", "core/exchange/closing.py", "core/items/answers.py"),
    *("core/exchange/lessons.py", "core/exchange/question.py", "core/exchange/repairs.py", "core/prompt/turns.py"),
)


def test_policy_is_core() -> None:
    policy = {SOURCE / name for name in POLICY}
    assert policy <= set(FILES)
    breaches = [
        f"{name_of(path)} imports {name_of(imported)}"
        for path in FILES
        if package_of(path) != "core"
        for imported in imported_modules(path)
        if imported in policy
    ]
    assert breaches == []


def test_one_place_numbers_events() -> None:
    def numbers(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        return any(isinstance(target, ast.Attribute) and target.attr == "sequence_number" for target in targets)

    assert {path.name for path in FILES if any(map(numbers, nodes_of(path)))} == {"lifecycle.py"}


def test_the_error_the_events_and_the_check_of_a_response_have_one_writer() -> None:
    """Each is an attribute that others read. Who wants it changed calls a method of the object that has it."""
    owned = {"error", "events", "check"}
    changes = {"append", "extend", "insert", "clear", "pop", "remove"}

    def is_anothers(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in owned and ast.unparse(node.value) != "self"

    def written(node: ast.AST) -> Iterator[ast.AST]:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.target
        if isinstance(node, ast.Attribute) and node.attr in changes:
            yield node.value

    breaches = [
        f"{name_of(path)}: {ast.unparse(target)}"
        for path in FILES
        if folder_of(path) in ("core/exchange", "core/items", "core/stream", "core/stream/text_calls")
        for node in nodes_of(path)
        for target in written(node)
        if is_anothers(target)
    ]
    assert breaches == []


def test_nothing_parses_what_we_encoded_but_the_one_reader_of_stored_events() -> None:
    """Who knows the form of a frame: its encoder, the reader of engines' frames, that of MCP servers', and that of stored
    ones."""

    def mentions_frames(node: ast.AST) -> bool:
        return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and "data: " in str(node.value)

    knows = {path.name for path in FILES if any(map(mentions_frames, nodes_of(path)))}
    assert knows == {"large_answers.py", "encode.py", "frames.py", "stored.py"}
    decodes = {path.name for path in FILES if "StreamEvent" in path.read_text()}
    assert decodes == {"events.py", "stored.py"}


def test_one_function_writes_what_is_known_of_an_engine() -> None:
    writers = {path.name for path in FILES if "_learned" in path.read_text()}
    assert writers == {"knowledge.py"}


def test_there_are_no_import_cycles() -> None:
    names = set(MODULES)
    graph = {name: names.intersection(imports_at_load(path, names)) for name, path in MODULES.items()}
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
    pending: list[ast.AST] = [tree_of(path)]
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
    # Answers of other worker processes.
    "server/siblings.py",
    "server/bodies.py",
    "server/routes/websocket.py",
    # What an engine says that it has used.
    "gateway/usage/counting.py",
    # The text of a model's answer, which has to be JSON.
    "gateway/runs/short_answers.py",
}


def test_stored_json_is_decoded_in_one_place() -> None:
    layers = [path for path in FILES if package_of(path) in {"gateway", "server"}]
    decodes = {name_of(path) for path in layers if "json.decode" in path.read_text() or "Decoder(" in path.read_text()}
    assert decodes - READS_JSON == {
        "gateway/state/record_format.py",
        "gateway/runs/checker.py",
        "gateway/runs/check_process.py",
        # A recording is shown as it was made, and a chat request that was passed on as it came.
        "server/inspector/views.py",
        "server/inspector/rows.py",
    }
