"""Which tools of clients are offered to small models as easy functions: a row for each."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, structs

from antiphon.core.checks.work import PATCH_BEGIN
from antiphon.core.toolbox.easier_tools import claude_code, patches
from antiphon.core.toolbox.easier_tools.commands import file_functions, shell, write_stdin
from antiphon.core.toolbox.easy_function import EasyFunction
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity
from antiphon.wire.chat import ChatFunction

# How long a command may take before its tool answers, in milliseconds: long enough for most of them to end. Codex waits no
# longer than this.
COMMAND_MS = 30_000
# The same, where the tool ends the command then.
LONGEST_COMMAND_MS = 120_000
INPUT_MS = 5_000

_NUMBERS = ("number", "integer")


class Adaptation(Struct, frozen=True):
    """A tool, by its kind and name. One that only has the name of it, and is another tool, is left alone."""

    kind: str
    name: str
    functions: tuple[EasyFunction, ...]
    # Parameters that the tool has, with their types. It requires no others.
    has: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # What the description says, the grammar in it included.
    says: str = ""

    def fits(self, tool: ChatFunction) -> bool:
        """The arguments of a strict function are a promise to the client: it is offered as it is."""
        given: Any = tool.parameters or {}
        properties, required = given.get("properties"), given.get("required") or []
        if tool.strict or self.says not in (tool.description or "") or not isinstance(properties, dict):
            return False
        typed = all(_type(properties.get(name)) in types for name, types in self.has.items())
        return typed and (not self.has or (isinstance(required, list) and set(map(str, required)) <= self.has.keys()))


def _commands(member: str, filled: Mapping[str, Any]) -> tuple[EasyFunction, ...]:
    """The shell is the last one that is tried for a command of the history: it expresses every command."""
    return *file_functions(member, filled), shell(member, filled)


ADAPTATIONS = (
    Adaptation("custom", "apply_patch", patches.FREEFORM, says=PATCH_BEGIN),
    Adaptation("apply_patch", "apply_patch", patches.BUILT_IN),
    # Codex
    Adaptation("function", "exec_command", _commands("cmd", {"yield_time_ms": COMMAND_MS}), {"cmd": ("string",)}),
    # Codex, in other versions and for other models.
    Adaptation("function", "shell_command", _commands("command", {"timeout_ms": LONGEST_COMMAND_MS}), {"command": ("string",)}),
    Adaptation(
        "function",
        "write_stdin",
        (write_stdin({"yield_time_ms": INPUT_MS}),),
        {"session_id": _NUMBERS, "chars": ("string",)},
    ),
    # Claude Code
    Adaptation("function", "Read", claude_code.READ, {"file_path": ("string",)}),
    Adaptation("function", "Write", claude_code.WRITE_FILE, {"file_path": ("string",), "content": ("string",)}),
    Adaptation("function", "Edit", claude_code.EDIT, dict.fromkeys(("file_path", "old_string", "new_string"), ("string",))),
    Adaptation("function", "Bash", claude_code.BASH, {"command": ("string",), "run_in_background": ("boolean",)}),
)


def offer_easier_tools(box: Toolbox, reason: str) -> None:
    """`reason`: why the model gets this help."""
    offered = [_worded(row, names) for row in ADAPTATIONS if (names := _adapt(box, row))]
    if offered:
        box.notices.append(f"help for a small model ({reason}): {'; '.join(offered)}")


def _adapt(box: Toolbox, row: Adaptation) -> list[str]:
    """The names of the functions that stand for the tool; none if it is offered as it is."""
    identity = ToolIdentity(row.kind, row.name)
    own = box.offered.names.get(identity)
    if own is None or not row.fits(tool := box.offered.functions[own].function):
        return []
    names = [function.name for function in row.functions]
    # The client's own tool of that name is what a call of it means.
    if any(name in box.offered.identities and name != own for name in names):
        return []
    properties = (tool.parameters or {}).get("properties", {})
    box.replace(identity, [_filling(function, properties) for function in row.functions])
    return names


def _filling(function: EasyFunction, properties: Mapping[str, Any]) -> EasyFunction:
    """Fills in only what the tool has."""
    return structs.replace(function, filled={name: value for name, value in function.filled.items() if name in properties})


def _type(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, dict) else None


def _worded(row: Adaptation, names: list[str]) -> str:
    if names == [row.name]:
        when = ", and may be called once something is running" if row.functions[0].needs_running else ""
        return f"{row.name} is offered with fewer parameters{when}"
    *most, last = names
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"{row.name} is offered as {listed}"
