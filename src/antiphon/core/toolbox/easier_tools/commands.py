"""Commands as functions with few arguments: shell, write_stdin for a command that waits for input, and commands on files; and
their results, as Codex reports them, in words that a small model understands.

Codex puts lines in front of every output: an id, the time, the exit code, the number of tokens. A small model does not see in
them that its call has succeeded, and makes it again.
"""

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from antiphon.core.toolbox.built_in import NUMBER, TEXT, parameters
from antiphon.core.toolbox.easy_function import ONE_LINE, PATH, EasyFunction, Members, to_path
from antiphon.core.toolbox.prompt_texts import (
    DONE,
    FAILED,
    FAILED_WITH,
    NO_OUTPUT,
    NO_SUCH_LINES,
    NO_SUCH_TEXT,
    READ_FIRST,
    READ_OR_REPLACE,
)
from antiphon.patterns import late_pattern

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

    def to_tool(call: Members) -> Members | None:
        line = command_to_line(call.get("command"))
        # Other arguments of the client's tool are passed on, if the model knows of them.
        rest = {name: value for name, value in call.items() if name not in ("command", member)}
        return None if line is None else {member: line, **rest}

    def from_tool(call: Members) -> Members | None:
        rest = {name: value for name, value in call.items() if name != member}
        return {"command": call[member], **rest} if isinstance(call.get(member), str) and "command" not in rest else None

    shown, accepted = parameters({"command": COMMAND}, "command"), parameters({"command": A_COMMAND}, "command")
    return EasyFunction("shell", SHELL, shown, accepted, to_tool, from_tool, filled)


def write_stdin(filled: Mapping[str, Any]) -> EasyFunction:
    shown = parameters({"session_id": SESSION, "chars": CHARS}, "session_id", "chars")
    accepted = parameters({"session_id": NUMBER, "chars": TEXT}, "session_id")
    return EasyFunction("write_stdin", STDIN, shown, accepted, dict, dict, filled, needs_running=True)


# ---- commands on files -----------------------------------------------------------------------------------------------
# What small models do to files is a function with paths, which becomes a command of the client's shell.
# The command is made of fixed words and of the arguments, quoted for the shell. Only a command that is made in this way, to the
# last character, is shown as such a function in the history.

# Replaces the second argument by the third wherever it is in the file, which is the first. Perl is on Linux and on macOS; sed
# takes other options on each.
REPLACE = (
    "BEGIN { $new = pop; $old = pop } $found = 1 if s/\\Q$old\\E/$new/g; "
    f'END {{ warn "{NO_SUCH_TEXT}\\n" and $? = 1 unless $found }}'
)
# A word as `shlex.quote` writes it. `shlex.split` takes a time that grows with the square of a word.
_QUOTE = "'\"'\"'"
_WORD = late_pattern(r"[\w@%+=:,./-]+|'[^']*'(?:\"'\"'[^']*')*", re.ASCII)
SOME_TEXT = {"type": "string", "minLength": 1}


class FileCommand(Struct, frozen=True):
    name: str
    description: str
    # The words in front of the arguments.
    words: tuple[str, ...]
    # Each argument: its schema as the model sees it, and the schema that its value must follow.
    members: Mapping[str, tuple[Members, Members]]

    def to_line(self, call: Members) -> str | None:
        given = [_argument(call.get(name), accepted) for name, (_, accepted) in self.members.items()]
        values = [value for value in given if value is not None]
        return shlex.join([*self.words, *values]) if len(values) == len(given) else None

    def from_line(self, line: str) -> Members | None:
        head = f"{shlex.join(self.words)} "
        if not line.startswith(head):
            return None
        values: list[str] = []
        at = len(head)
        while len(values) < len(self.members) and (word := _WORD.match(line, at)) is not None:
            values.append(_unquoted(word[0]))
            at = word.end() + 1
        if len(values) != len(self.members) or at != len(line) + 1:
            return None
        call = dict(zip(self.members, values, strict=True))
        return call if self.to_line(call) == line else None


def _unquoted(word: str) -> str:
    return word[1:-1].replace(_QUOTE, "'") if word.startswith("'") else word


def _argument(value: Any, accepted: Members) -> str | None:
    if accepted is not ONE_LINE:
        return value if isinstance(value, str) and (value or accepted is TEXT) else None
    path = to_path(value)
    # It may begin like an option, and is none.
    return f"./{path}" if path is not None and path.startswith("-") else path


def _described(description: str) -> Members:
    return {"type": "string", "description": description}


FILE_COMMANDS = (
    FileCommand("read_file", "Show the content of a file.", ("cat",), {"path": (PATH, ONE_LINE)}),
    FileCommand(
        "replace_text",
        "Replace a word or a piece of text in a file.",
        ("perl", "-0777", "-i", "-pe", REPLACE, "--"),
        {
            "path": (PATH, ONE_LINE),
            "old_text": (_described("The text as it is in the file now."), SOME_TEXT),
            "new_text": (_described("The text that takes its place."), TEXT),
        },
    ),
    FileCommand(
        "move_file",
        "Rename or move a file.",
        ("mv",),
        {"path": (PATH, ONE_LINE), "new_path": (_described("Its new path."), ONE_LINE)},
    ),
    FileCommand("make_folder", "Make a folder.", ("mkdir", "-p"), {"path": (_described("Path of the folder."), ONE_LINE)}),
)


def file_functions(member: str, filled: Mapping[str, Any]) -> tuple[EasyFunction, ...]:
    """`member`: the argument of the client's tool that is the command."""
    return tuple(_easy(command, member, filled) for command in FILE_COMMANDS)


def _easy(command: FileCommand, member: str, filled: Mapping[str, Any]) -> EasyFunction:
    def to_tool(call: Members) -> Members | None:
        line = command.to_line(call)
        return None if line is None else {member: line}

    def from_tool(call: Members) -> Members | None:
        line = call.get(member)
        return command.from_line(line) if isinstance(line, str) and len(call) == 1 else None

    return EasyFunction(
        command.name,
        command.description,
        parameters({name: shown for name, (shown, _) in command.members.items()}, *command.members),
        parameters({name: accepted for name, (_, accepted) in command.members.items()}, *command.members),
        to_tool,
        from_tool,
        filled,
    )


_HEAD = late_pattern(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]*\n"
    r"|(?:Exit code: |Process exited with code )(?P<code>-?\d+)\n)+Output:\n?"
)
# What Codex says of a patch whose old lines are not in the file. The small coder took a word for a line, and tried it again.
_NO_SUCH_LINES = late_pattern(
    r"(?:apply_patch verification failed: )?Failed to find expected lines in (?P<path>[^\n]+):\n(?P<lines>.*)", re.DOTALL
)
ADVISED = frozenset({"read_file", "replace_text"})


def plain_result(output: str, offered: Collection[str] = ()) -> str:
    """What is written in another way, such as that a command is still running, stays as it is. `offered`: the easy functions
    that the model can use next."""
    head = _HEAD.match(output)
    code = head["code"] if head is not None else None
    rest = output[head.end() :] if head is not None and code is not None else output
    if code != "0" and (missing := _NO_SUCH_LINES.match(rest)) is not None:
        advice = READ_OR_REPLACE if ADVISED.issubset(offered) else READ_FIRST
        lines = missing["lines"].rstrip("\n")
        return f"{FAILED} {NO_SUCH_LINES.format(path=missing['path'])}\n{lines}\n{advice}"
    if code is None:
        return output
    has_output = bool(rest.strip())
    if code == "0":
        return f"{DONE}\n{rest.rstrip()}" if has_output else f"{DONE} {NO_OUTPUT}"
    failed = FAILED_WITH.format(code=code)
    return f"{failed}\n{rest}" if has_output else f"{failed} {NO_OUTPUT}"
