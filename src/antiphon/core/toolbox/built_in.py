"""The tools that come without a definition: what the model reads of each, and what its calls become."""

from collections.abc import Sequence
from typing import Any

Parameters = dict[str, Any]

TEXT: Parameters = {"type": "string"}
NUMBER: Parameters = {"type": "integer"}
NO_PARAMETERS: Parameters = {"type": "object", "properties": {}}


def parameters(properties: dict[str, Any], *required: str) -> Parameters:
    return {"type": "object", "properties": properties, "required": list(required)}


SEARCH_PARAMETERS = parameters({"query": TEXT, "limit": NUMBER}, "query")
SERVER_SEARCH = (
    "Finds more tools. Call this first if none of the other tools can do what is needed. The tools that it finds can be called "
    "afterwards."
)
SERVER_SEARCH_PARAMETERS = parameters(
    {"query": {"type": "string", "description": "What the tool should do, in a few words; or a name from the list."}}, "query"
)

LOCAL_SHELL = "Runs a command on the user's machine and returns its output."
LOCAL_SHELL_PARAMETERS = parameters(
    {"command": {"type": "array", "items": TEXT, "minItems": 1}, "working_directory": TEXT, "timeout_ms": NUMBER}, "command"
)

SHELL = "Runs shell commands, one after another, and returns their output."
SHELL_PARAMETERS = parameters(
    {"commands": {"type": "array", "items": TEXT, "minItems": 1}, "timeout_ms": NUMBER, "max_output_length": NUMBER}, "commands"
)
SKILLS = "Skills are instructions in files. Read the files of a skill before you use it:"

APPLY_PATCH = "Creates, updates or deletes one file. `diff` is the new content with a leading + on each line, or a V4A diff."
WRITES, DELETES = ("create_file", "update_file"), ("delete_file",)


def _operation(*types: str, **more: Parameters) -> Parameters:
    properties = {"type": {"type": "string", "enum": list(types)}, "path": TEXT, **more}
    return parameters(properties, *properties)


# Chat templates read `properties`; grammars and validators read `anyOf`, which says when there has to be a diff.
APPLY_PATCH_PARAMETERS = {
    **parameters({"type": {"type": "string", "enum": [*WRITES, *DELETES]}, "path": TEXT, "diff": TEXT}, "type", "path"),
    "anyOf": [_operation(*WRITES, diff=TEXT), _operation(*DELETES)],
}

# Kind of tool → what its calls must follow. A model may write a command as one line for a shell, and a patch like the item of
# the API, with the operation in a member of its own.
CALLS: dict[str, Parameters] = {
    # OpenAI's models write the names of tools and namespaces in `paths`.
    "server_tool_search": {
        "anyOf": [SERVER_SEARCH_PARAMETERS, parameters({"paths": {"type": "array", "items": TEXT, "minItems": 1}}, "paths")]
    },
    "local_shell": parameters({"command": {"anyOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}}, "command"),
    "shell": SHELL_PARAMETERS,
    "apply_patch": {"anyOf": [APPLY_PATCH_PARAMETERS, parameters({"operation": APPLY_PATCH_PARAMETERS}, "operation")]},
}


# ---- the calls of clients, from what a model wrote -------------------------------------------------------------------
# A model may leave members out, invent some, or write a command as a string. Clients read these objects by fixed types, so
# whatever is written becomes an object of that type; the tool reports what is wrong with it.

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
