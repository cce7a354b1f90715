"""Commands as functions with the one argument that matters: shell, and write_stdin for a command that waits for input."""

import shlex
from collections.abc import Mapping
from typing import Any

from antiphon.core.toolbox.built_in_tools import NUMBER, TEXT, parameters
from antiphon.core.toolbox.easier_tools.functions import EasyFunction, Members

SHELL = (
    "Runs a command in the user's shell and returns its output. Use it to look at files, to search in them, to rename or move "
    "them, to make folders, and to run programs."
)
COMMAND = {"type": "string", "description": "The command line."}
A_COMMAND = {"anyOf": [{"type": "string", "pattern": r"\S"}, {"type": "array", "items": TEXT, "minItems": 1}]}

STDIN = (
    "Sends input to a command that is still running. Use it only when the result of a command says that it is still running, "
    "and the command waits for input. Never use it for a command that has ended."
)
SESSION = {"type": "integer", "description": "The session ID in the result of the command."}
CHARS = {"type": "string", "description": "The text to type, with a line break at its end."}


def command_to_line(value: Any) -> str | None:
    """A list is the words of one command, or the line that a shell is to run."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return None
    shell = len(value) == 3 and value[0].rpartition("/")[2] in ("bash", "sh", "zsh") and value[1] in ("-c", "-lc")
    return value[-1] if shell or len(value) == 1 else shlex.join(value)


def shell(member: str, filled: Mapping[str, Any]) -> EasyFunction:
    """`member`: the argument of the client's tool that is the command."""

    def to_native(call: Members) -> Members | None:
        line = command_to_line(call.get("command"))
        # Other arguments of the client's tool are passed on, if the model knows of them.
        rest = {name: value for name, value in call.items() if name not in ("command", member)}
        return None if line is None else {member: line, **rest}

    def from_native(call: Members) -> Members | None:
        rest = {name: value for name, value in call.items() if name != member}
        return {"command": call[member], **rest} if isinstance(call.get(member), str) and "command" not in rest else None

    shown, accepted = parameters({"command": COMMAND}, "command"), parameters({"command": A_COMMAND}, "command")
    return EasyFunction("shell", SHELL, shown, accepted, to_native, from_native, filled)


def write_stdin(filled: Mapping[str, Any]) -> EasyFunction:
    shown = parameters({"session_id": SESSION, "chars": CHARS}, "session_id", "chars")
    accepted = parameters({"session_id": NUMBER, "chars": TEXT}, "session_id")
    return EasyFunction("write_stdin", STDIN, shown, accepted, dict, dict, filled)
