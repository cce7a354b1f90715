"""What is done to files by commands: the commands, and which of them are shown as functions."""

import json
import subprocess
from pathlib import Path

import pytest
from support.codex_tools import EXEC_COMMAND
from support.easy_tools import FUNCTIONS, USER, convert, last_call, written

REPLACE_TEXT = FUNCTIONS["function", "shell_command", "replace_text"]


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("Helo", "Hello", "Hello $x, Hello\n"),
        ("Helo $x", "-e 's/' $1 \\1", "-e 's/' $1 \\1, Helo\n"),
        ("x, Helo\n", "", "Helo $"),
        (".*", "", None),
    ],
)
def test_a_text_is_replaced_as_it_is_written(old: str, new: str, after: str | None, tmp_path: Path) -> None:
    file = tmp_path / "it's a file"
    file.write_text("Helo $x, Helo\n")
    native = REPLACE_TEXT.tool_arguments(written({"path": str(file), "old_text": old, "new_text": new}))
    done = subprocess.run(["bash", "-c", json.loads(native)["command"]], capture_output=True, text=True)
    assert file.read_text() == (after or "Helo $x, Helo\n")
    assert (done.returncode, done.stderr) == ((0, "") if after is not None else (1, "the file has no such text\n"))


def test_a_text_in_a_file_that_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    native = REPLACE_TEXT.tool_arguments('{"path": "none", "old_text": "a", "new_text": "b"}')
    done = subprocess.run(["bash", "-c", json.loads(native)["command"]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("cat a", "read_file"),
        ("cat  a", "shell"),
        ("cat a b", "shell"),
        ('cat "a"', "shell"),
        ("cat a | wc -l", "shell"),
        ("cat 'a", "shell"),
        ("cat -n", "shell"),
        ("mv a b", "move_file"),
        ("mv -f a b", "shell"),
        ("mkdir -p a/b", "make_folder"),
        ("mkdir a", "shell"),
    ],
)
def test_only_a_command_that_a_function_writes_is_shown_as_that_function(line: str, function: str) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": written({"cmd": line})}
    conversion = convert([USER, item], [EXEC_COMMAND])
    assert last_call(conversion).function.name == function
