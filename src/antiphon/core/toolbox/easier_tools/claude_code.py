"""The tools of Claude Code with fewer words and arguments: read_file, write_file, replace_text and shell.

Claude Code describes each of them at length, for large models. A small one reads that Bash is not for looking at files and that
paths must be absolute, and answers what it has not looked up.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.easier_tools.commands import FILE_COMMANDS, shell
from antiphon.core.toolbox.easier_tools.patches import LINES, WHOLE_TEXT, WRITE
from antiphon.core.toolbox.easy_function import ONE_LINE, PATH, EasyFunction, Members, to_path


class Argument(NamedTuple):
    # Its name in the client's tool.
    own: str
    # As the model sees it, and what its value must follow.
    shown: Members
    accepted: Members
    # Its value, as the client's tool takes it. None: it is none.
    read: Callable[[Any], str | None]


def _text(value: Any) -> str | None:
    """Or a list of its lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value if isinstance(value, str) else None


def _some_text(value: Any) -> str | None:
    return _text(value) or None


def _renamed(name: str, description: str, arguments: Mapping[str, Argument]) -> EasyFunction:
    """A function whose arguments are some of the client's tool, under other names."""

    def to_tool(call: Members) -> Members | None:
        read = {argument.own: argument.read(call.get(each)) for each, argument in arguments.items()}
        return None if None in read.values() else read

    def from_tool(call: Members) -> Members | None:
        """None: the tool was called with more, or with what the function would write in another way."""
        shown = {each: call.get(argument.own) for each, argument in arguments.items()}
        return shown if to_tool(shown) == call else None

    return EasyFunction(
        name,
        description,
        parameters({each: argument.shown for each, argument in arguments.items()}, *arguments),
        parameters({each: argument.accepted for each, argument in arguments.items()}, *arguments),
        to_tool,
        from_tool,
    )


FILE = Argument("file_path", PATH, ONE_LINE, to_path)
# Their descriptions are those of the commands for Codex, which small models were seen to follow.
_COMMANDS = {command.name: command for command in FILE_COMMANDS}
_READ, _REPLACE = _COMMANDS["read_file"], _COMMANDS["replace_text"]

READ: tuple[EasyFunction, ...] = (_renamed("read_file", _READ.description, {"path": FILE}),)
WRITE_FILE: tuple[EasyFunction, ...] = (
    _renamed("write_file", WRITE, {"path": FILE, "content": Argument("content", WHOLE_TEXT, LINES, _text)}),
)
EDIT: tuple[EasyFunction, ...] = (
    _renamed(
        "replace_text",
        _REPLACE.description,
        {
            "path": FILE,
            "old_text": Argument("old_string", *_REPLACE.members["old_text"], _some_text),
            "new_text": Argument("new_string", _REPLACE.members["new_text"][0], TEXT, _text),
        },
    ),
)
BASH: tuple[EasyFunction, ...] = (shell("command", {}),)
