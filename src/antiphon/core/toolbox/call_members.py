"""What a built-in tool is called with, from what the model wrote: the members that the API has, each of its type.

A model may leave members out, invent some, or write a command as a string. Clients read these objects by fixed types, so
whatever is written becomes an object of that type; the tool reports what is wrong with it.
"""

from collections.abc import Sequence
from typing import Any

from antiphon.core.toolbox.built_in_tools import DELETES, WRITES

OUTPUT_ORDER = ("stdout", "stderr", "outcome")
OUTCOME_ORDER = ("type", "exit_code")

Members = dict[str, Any]


def local_shell_action(written: Members) -> Members:
    command = written.get("command", written.get("input", []))
    env = written.get("env")
    action: Members = {
        "type": "exec",
        # A line for a shell, which a list is not.
        "command": _texts(command) if isinstance(command, list) else ["bash", "-lc", str(command)],
        "env": {name: str(value) for name, value in env.items()} if isinstance(env, dict) else {},
        "timeout_ms": _number(written.get("timeout_ms")),
        "working_directory": _text(written.get("working_directory")),
        "user": _text(written.get("user")),
    }
    return {name: value for name, value in action.items() if value is not None}


def shell_action(written: Members) -> Members:
    commands = written.get("commands", written.get("input", []))
    return {
        "commands": _texts(commands if isinstance(commands, list) else [commands]),
        "timeout_ms": _number(written.get("timeout_ms")),
        "max_output_length": _number(written.get("max_output_length")),
    }


def ordered_outputs(outputs: Any) -> Any:
    """The outputs of a shell as the gateway writes them: clients may send their members back in any order."""
    if not isinstance(outputs, list):
        return outputs
    return [_ordered(each, OUTPUT_ORDER) for each in outputs]


def _ordered(value: Any, order: Sequence[str]) -> Any:
    if not isinstance(value, dict):
        return value
    known = {name: _ordered(value[name], OUTCOME_ORDER) for name in order if name in value}
    return known | {name: each for name, each in value.items() if name not in known}


def patch_operation(written: Members) -> Members:
    if isinstance(nested := written.get("operation"), dict):
        written = nested
    kind = written.get("type")
    operation = {"type": kind if kind in (*WRITES, *DELETES) else "update_file", "path": _text(written.get("path")) or ""}
    if operation["type"] in DELETES:
        return operation
    return {**operation, "diff": _text(written.get("diff", written.get("input"))) or ""}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(values: list[Any]) -> list[str]:
    return [value if isinstance(value, str) else str(value) for value in values if value is not None]


def _number(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
