"""The results of easy functions, as a small model sees them."""

import pytest
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.easy_tools import HELP, OTHER, USER, Tool, convert, offered, patched

from antiphon.core.knowledge.help import NO_HELP
from antiphon.core.toolbox.easier_tools.commands import ADVISED
from antiphon.core.toolbox.prompt_texts import READ_FIRST, READ_OR_REPLACE

# What Codex reports, and what a small model sees of it.
RESULTS = [
    ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\nab\n", "Done.\nab"),
    ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n", "Done. There was no output."),
    ("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. A b.txt\n", "Done.\nSuccess. A b.txt"),
    ("Exit code: 0\nWall time: 1 seconds\nTotal output lines: 900\nOutput:\nExit code: 1\n", "Done.\nExit code: 1"),
    ("Exit code: 2\nWall time: 0 seconds\nOutput:\nno such file\n", "Failed with exit code 2.\nno such file\n"),
    ("Wall time: 0 seconds\nProcess exited with code -9\nOutput:", "Failed with exit code -9. There was no output."),
]
UNCHANGED = [
    "",
    "Output:\n",
    "Exit code: 0",
    "Wall time: 3 seconds\nOutput:\nx",
    "Chunk ID: a1\nWall time: 9 seconds\nProcess running with session ID 3\nOriginal token count: 0\nOutput:\n",
    "x\nExit code: 0\nOutput:\n",
]


@pytest.mark.parametrize(("reported", "shown"), [*RESULTS, *((text, text) for text in UNCHANGED)])
def test_the_results_of_easy_functions_are_plain(reported: str, shown: str) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": '{"cmd": "ls"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": reported}
    assert convert([USER, item, result], [EXEC_COMMAND]).chat.messages[-1].content == shown
    for tools, help in (([EXEC_COMMAND], NO_HELP), ([OTHER], HELP)):
        assert convert([USER, item, result], tools, help).chat.messages[-1].content == reported


MISSING = "Failed to find expected lines in /a b.txt:\nHelo\n"


@pytest.mark.parametrize(
    "reported",
    [f"apply_patch verification failed: {MISSING}", f"Exit code: 1\nWall time: 0 seconds\nOutput:\n{MISSING}"],
)
@pytest.mark.parametrize(
    ("tools", "advice"), [([APPLY_PATCH, EXEC_COMMAND], READ_OR_REPLACE), ([APPLY_PATCH], READ_FIRST)], ids=["both", "patches"]
)
def test_a_failed_edit_says_what_to_do_next(reported: str, tools: list[Tool], advice: str) -> None:
    edit = patched("*** Update File: /a b.txt", "@@", "-Helo", "+Hello")
    items = [USER, {**edit, "call_id": "c1"}, {"type": "custom_tool_call_output", "call_id": "c1", "output": reported}]
    shown = f"Failed. Nothing was changed: these are not whole lines of /a b.txt:\nHelo\n{advice}"
    assert convert(items, tools).chat.messages[-1].content == shown
    assert convert(items, tools, NO_HELP).chat.messages[-1].content == reported


def test_the_advice_after_a_failed_edit_names_functions_that_are_offered() -> None:
    names = offered(convert([USER], [APPLY_PATCH, EXEC_COMMAND]))
    assert all(name in names and name in READ_OR_REPLACE for name in ADVISED)
