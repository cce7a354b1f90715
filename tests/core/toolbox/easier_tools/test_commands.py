"""Commands as easy functions: the line, and the arguments around it."""

import json
import shlex
from typing import Any

import pytest
from support.codex_tools import EXEC_COMMAND
from support.easy_tools import LINES, SHELL_COMMAND, USER, called, convert, function, last_call, offered, output_of, written
from support.engine import call


@pytest.mark.parametrize(
    ("command", "line"),
    [(["ls", "a b"], "ls 'a b'"), (["ls -l"], "ls -l"), (["/bin/sh", "-c", "a | b"], "a | b"), ("  x\ny ", "  x\ny ")],
)
def test_a_command_is_one_line_for_the_shell(command: Any, line: str) -> None:
    (item,) = output_of([EXEC_COMMAND], called(call("shell", json.dumps({"command": command}))))
    assert json.loads(item["arguments"])["cmd"] == line


def test_a_long_command_is_read_at_once() -> None:
    """Quadratic work takes minutes here."""
    line = f"cat {shlex.quote('a' * 4_000_000 + ' ')}; ls"
    item = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": written({"cmd": line})}
    assert last_call(convert([USER, item], [EXEC_COMMAND])).function.name == "shell"


def test_of_two_tools_for_commands_one_becomes_the_shell() -> None:
    assert offered(convert([USER], [SHELL_COMMAND, EXEC_COMMAND])) == ["shell_command", *LINES, "shell"]


def test_arguments_are_filled_in_only_where_the_tool_has_them() -> None:
    (item,) = output_of([function("exec_command", "cmd", cmd="string")], called(call("shell", '{"command": "ls"}')))
    assert item["arguments"] == '{"cmd":"ls"}'
