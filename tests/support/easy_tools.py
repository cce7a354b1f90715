"""Hard tools as easy functions: the tools, a case for each function, and what becomes of a call."""

import json
import shlex
from typing import Any, NamedTuple

import msgspec

from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.help import Help
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.easier_tools.adaptations import ADAPTATIONS
from antiphon.core.toolbox.easier_tools.commands import REPLACE
from antiphon.wire.chat import ChatCall
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND, WRITE_STDIN
from support.engine import answer, objection
from support.exchanges import run_answers

Tool = dict[str, Any]
Item = dict[str, Any]
HELP = Help(easier_tools=True, reason="the model has 1.5 billion parameters")
USER = {"role": "user", "content": "Hi"}
BUILT_IN = {"type": "apply_patch"}
SHELL_COMMAND: Tool = {
    "type": "function",
    "name": "shell_command",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "workdir": {"type": "string"}, "timeout_ms": {"type": "number"}},
        "required": ["command"],
    },
}


def _claude_tool(name: str, *required: str, **more: str) -> Tool:
    """As Claude Code 2.1.327 has it, without its descriptions."""
    properties = {each: {"type": "string"} for each in required} | {each: {"type": kind} for each, kind in more.items()}
    return {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False},
    }


READ = _claude_tool("Read", "file_path", offset="integer", limit="integer", pages="string")
WRITE = _claude_tool("Write", "file_path", "content")
EDIT = _claude_tool("Edit", "file_path", "old_string", "new_string", replace_all="boolean")
BASH = _claude_tool("Bash", "command", timeout="number", description="string", run_in_background="boolean")
CLAUDE = [BASH, EDIT, READ, WRITE]
OTHER: Tool = {"type": "function", "name": "other", "parameters": {"type": "object", "properties": {}}}
TWO_FILES = "*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch\n"
FUNCTIONS = {(row.kind, row.name, function.name): function for row in ADAPTATIONS for function in row.functions}


class Case(NamedTuple):
    tool: Tool
    function: str
    # As the model writes them.
    arguments: Item
    # What the client's item has, and the type of its output.
    item: Item
    output: str
    # As the history shows them, where that differs.
    normalised: Item | None = None


def patched(*lines: str) -> Item:
    patch = "".join(f"{line}\n" for line in ("*** Begin Patch", *lines, "*** End Patch"))
    return {"type": "custom_tool_call", "name": "apply_patch", "input": patch}


# What is done to files by commands: the arguments, and the command.
REPLACED = ("perl", "-0777", "-i", "-pe", REPLACE, "--")
LINES: dict[str, tuple[Item, str]] = {
    "read_file": ({"path": "a b.txt"}, "cat 'a b.txt'"),
    "replace_text": (
        {"path": "a.txt", "old_text": "it's\n", "new_text": ""},
        shlex.join([*REPLACED, "a.txt", "it's\n", ""]),
    ),
    "move_file": ({"path": "a", "new_path": "./-b"}, "mv a ./-b"),
    "make_folder": ({"path": "a/b"}, "mkdir -p a/b"),
}


def _file_case(tool: Tool, function: str) -> Case:
    member, filled = {"exec_command": ("cmd", {"yield_time_ms": 30000})}.get(tool["name"], ("command", {"timeout_ms": 120000}))
    arguments, line = LINES[function]
    item = {"type": "function_call", "name": tool["name"], "arguments": encode({**filled, member: line})}
    return Case(tool, function, arguments, item, "function_call_output")


def encode(members: Item) -> str:
    return msgspec.json.encode(members).decode()


CASES = {
    "write": Case(
        APPLY_PATCH,
        "write_file",
        {"path": "a.txt", "content": "one\n\ntwo\n"},
        patched("*** Add File: a.txt", "+one", "+", "+two"),
        "custom_tool_call_output",
    ),
    "write without a final line end": Case(
        APPLY_PATCH,
        "write_file",
        {"path": " a b.txt ", "content": "one\r\ntwo"},
        patched("*** Add File: a b.txt", "+one", "+two"),
        "custom_tool_call_output",
        {"path": "a b.txt", "content": "one\ntwo\n"},
    ),
    "edit": Case(
        APPLY_PATCH,
        "edit_file",
        {"path": "a.py", "old_lines": "    pass\n", "new_lines": "    return a\n\n"},
        patched("*** Update File: a.py", "@@", "-    pass", "+    return a", "+"),
        "custom_tool_call_output",
    ),
    "append": Case(
        APPLY_PATCH,
        "edit_file",
        {"path": "a.py", "old_lines": "", "new_lines": ["one", "two"]},
        patched("*** Update File: a.py", "@@", "+one", "+two"),
        "custom_tool_call_output",
        {"path": "a.py", "old_lines": "", "new_lines": "one\ntwo\n"},
    ),
    "delete": Case(
        APPLY_PATCH,
        "delete_file",
        {"path": "/tmp/a b"},
        patched("*** Delete File: /tmp/a b"),
        "custom_tool_call_output",
    ),
    "write with the built-in tool": Case(
        BUILT_IN,
        "write_file",
        {"path": "a", "content": "one\ntwo\n"},
        {"type": "apply_patch_call", "operation": {"type": "create_file", "path": "a", "diff": "+one\n+two"}},
        "apply_patch_call_output",
    ),
    "edit with the built-in tool": Case(
        BUILT_IN,
        "edit_file",
        {"path": "a", "old_lines": "one\n", "new_lines": ""},
        {"type": "apply_patch_call", "operation": {"type": "update_file", "path": "a", "diff": "@@\n-one"}},
        "apply_patch_call_output",
    ),
    "delete with the built-in tool": Case(
        BUILT_IN,
        "delete_file",
        {"path": "a"},
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        "apply_patch_call_output",
    ),
    "exec_command": Case(
        EXEC_COMMAND,
        "shell",
        {"command": "ls -l"},
        {"type": "function_call", "name": "exec_command", "arguments": '{"yield_time_ms":30000,"cmd":"ls -l"}'},
        "function_call_output",
    ),
    "exec_command with a list": Case(
        EXEC_COMMAND,
        "shell",
        {"command": ["bash", "-lc", "cd a && ls"], "workdir": "/tmp"},
        {
            "type": "function_call",
            "name": "exec_command",
            "arguments": '{"yield_time_ms":30000,"cmd":"cd a && ls","workdir":"/tmp"}',
        },
        "function_call_output",
        {"command": "cd a && ls", "workdir": "/tmp"},
    ),
    "shell_command": Case(
        SHELL_COMMAND,
        "shell",
        {"command": "make"},
        {"type": "function_call", "name": "shell_command", "arguments": '{"timeout_ms":120000,"command":"make"}'},
        "function_call_output",
    ),
    **{
        f"{function} by {tool['name']}": _file_case(tool, function)
        for tool in (EXEC_COMMAND, SHELL_COMMAND)
        for function in LINES
    },
    "Read": Case(
        READ,
        "read_file",
        {"path": " a b.txt "},
        {"type": "function_call", "name": "Read", "arguments": '{"file_path":"a b.txt"}'},
        "function_call_output",
        {"path": "a b.txt"},
    ),
    "Write": Case(
        WRITE,
        "write_file",
        {"path": "a.txt", "content": ["one", "two"]},
        {"type": "function_call", "name": "Write", "arguments": '{"file_path":"a.txt","content":"one\\ntwo"}'},
        "function_call_output",
        {"path": "a.txt", "content": "one\ntwo"},
    ),
    "Edit": Case(
        EDIT,
        "replace_text",
        {"path": "a.txt", "old_text": "one", "new_text": ""},
        {"type": "function_call", "name": "Edit", "arguments": '{"file_path":"a.txt","old_string":"one","new_string":""}'},
        "function_call_output",
    ),
    "Bash": Case(
        BASH,
        "shell",
        {"command": "ls"},
        {"type": "function_call", "name": "Bash", "arguments": '{"command":"ls"}'},
        "function_call_output",
    ),
    "write_stdin": Case(
        WRITE_STDIN,
        "write_stdin",
        {"session_id": 3, "chars": "y\n"},
        {
            "type": "function_call",
            "name": "write_stdin",
            "arguments": '{"yield_time_ms":5000,"session_id":3,"chars":"y\\n"}',
        },
        "function_call_output",
    ),
}


def convert(items: list[Item], tools: list[Tool], help: Help = HELP, **fields: Any) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": items, "tools": tools, **fields}))
    conversion = request_to_chat(ChatInputs(request, request_to_items(request), PLAIN, "m", help=help))
    assert objection(msgspec.json.decode(msgspec.json.encode(conversion.chat))) is None
    return conversion


def offered(conversion: Conversion) -> list[str]:
    return [tool.function.name for tool in conversion.chat.tools or ()]


def last_call(conversion: Conversion) -> ChatCall:
    calls = [each for message in conversion.chat.messages for each in message.tool_calls or ()]
    return calls[-1]


def events_of(tools: list[Tool], *answers: bytes, on_ask: Any = lambda step: None, **fields: Any) -> list[Item]:
    """Of a response by a small model."""
    small = EngineKnowledge(PLAIN, [Model("m-1.5B", 1, "us")])
    return run_answers({"tools": tools, **fields}, *answers, engines=[small], on_ask=on_ask)


def output_of(tools: list[Tool], *answers: bytes, **fields: Any) -> list[Item]:
    output: list[Item] = events_of(tools, *answers, **fields)[-1]["response"]["output"]
    return output


def called(*calls: bytes) -> bytes:
    return answer(*calls, finish="tool_calls")


def written(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False)


EDITS = ["write_file", "edit_file", "delete_file"]
PATCH_CHOICE = {"type": "custom", "name": "apply_patch"}


def function(name: str, *required: str, strict: bool = False, **properties: str) -> Tool:
    described = {each: {"type": kind} for each, kind in properties.items()}
    parameters = {"type": "object", "properties": described, "required": list(required)}
    return {"type": "function", "name": name, "parameters": parameters, "strict": strict}
