"""Hard tools as easy functions: definition → function → call → item → the next turn's history, for every row of the table."""

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND, PATCH_GRAMMAR, WRITE_STDIN
from support.engine import MockEngine, answer, call, objection, text
from support.exchanges import Recorder, run_answers
from support.gateway import GatewayUnderTest, running_gateway

from antiphon.core import grammars
from antiphon.core.calls import FORMS, CallState
from antiphon.core.check_work import CheckOutcome
from antiphon.core.easier_tools.adaptations import ADAPTATIONS, offer_easier_tools
from antiphon.core.easier_tools.file_commands import REPLACE
from antiphon.core.easier_tools.functions import EasyFunction
from antiphon.core.easier_tools.results import WHAT_NEXT
from antiphon.core.event_style import EventStyle
from antiphon.core.help import NO_HELP, Help
from antiphon.core.knowledge import EngineKnowledge, Model
from antiphon.core.request import Conversion, chat_to_bytes, request_to_chat
from antiphon.core.request_fields import request_to_items
from antiphon.core.tools import Grammar, tools_to_box
from antiphon.core.validation import body_to_request
from antiphon.dialects import LLAMACPP, PLAIN
from antiphon.wire.chat import ChatCall

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
OTHER: Tool = {"type": "function", "name": "other", "parameters": {"type": "object", "properties": {}}}
TWO_FILES = "*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch\n"
FUNCTIONS = {(row.kind, function.name): function for row in ADAPTATIONS for function in row.functions}


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
    conversion = request_to_chat(request, request_to_items(request), PLAIN, "m", help=help)
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


# ---- the round trip --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_call_of_an_easy_function_becomes_the_clients_own_and_goes_in_again_as_the_function(name: str) -> None:
    case = CASES[name]
    first = convert([USER], [case.tool])
    assert case.function in offered(first)
    (item,) = output_of([case.tool], called(call(case.function, written(case.arguments), id="c1")))
    assert {member: item[member] for member in case.item} == case.item
    second = convert([USER, item, {"type": case.output, "call_id": "c1", "output": "done"}], [case.tool])
    assert second.chat.messages[: len(first.chat.messages)] == first.chat.messages
    function = last_call(second).function
    assert (function.name, json.loads(function.arguments)) == (case.function, case.normalised or case.arguments)
    assert second.chat.messages[-1].content == "done"


def test_every_row_of_the_table_is_among_the_cases() -> None:
    natives = {(row.kind, row.name, function.name) for row in ADAPTATIONS for function in row.functions}
    tested = {(case.tool["type"], case.tool.get("name", case.tool["type"]), case.function) for case in CASES.values()}
    assert tested == natives


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_client_gets_its_own_calls_and_the_engine_the_functions_again(engine: MockEngine, streamed: bool) -> None:
    engine.lists("small-1.5B")
    tools = [EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH]
    async with running_gateway(engine) as gateway:
        items: list[Item] = [USER]
        for number, name in enumerate(("write", "exec_command", "write_stdin")):
            case = CASES[name]
            engine.will(called(call(case.function, written(case.arguments), id=f"c{number}")))
            item = await _answer(gateway, items, tools, streamed)
            assert {member: item[member] for member in case.item} == case.item
            items += [item, {"type": case.output, "call_id": f"c{number}", "output": "done"}]
        engine.will(text("Done."))
        await _answer(gateway, items, tools, streamed)
        assert "help for a small model (the model has 1.5 billion parameters): apply_patch is offered as" in gateway.notice
    first, *_, last = engine.requests
    names = [*LINES, "shell", "write_stdin", "write_file", "edit_file", "delete_file"]
    assert [tool["function"]["name"] for tool in first["tools"]] == names
    assert last["messages"][: len(first["messages"])] == first["messages"]
    made = [each["function"] for message in last["messages"] for each in message.get("tool_calls", ())]
    assert [each["name"] for each in made] == ["write_file", "shell", "write_stdin"]
    assert json.loads(made[0]["arguments"]) == CASES["write"].arguments


async def _answer(gateway: GatewayUnderTest, items: list[Item], tools: list[Tool], streamed: bool) -> Item:
    """The one item of the answer."""
    if streamed:
        response = (await gateway.stream(items, tools=tools))[-1]["response"]
    else:
        response = await gateway.create(items, tools=tools)
    assert [tool["type"] for tool in response["tools"]] == [tool["type"] for tool in tools]
    (item,) = response["output"]
    return dict(item)


def test_the_events_of_a_call_are_those_of_the_clients_tool() -> None:
    events = events_of([APPLY_PATCH], called(call("delete_file", '{"path": "a"}')))
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"
    assert [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"] == [patch]
    assert [event["input"] for event in events if event["type"] == "response.custom_tool_call_input.done"] == [patch]


def test_to_the_engine_a_call_stays_what_the_model_wrote() -> None:
    conversion = convert([USER], [EXEC_COMMAND])
    tools = conversion.requirements.tools
    state = CallState("c1", new_id=lambda prefix: prefix, tools=tools, style=EventStyle(), forms=FORMS)
    state.name = "shell"
    wrote = ['{"command": ', '"ls"}']
    for piece in wrote:
        assert not state.ready()
        assert list(state.feed(piece)) == []
    assert state.ready()
    state.outcome = CheckOutcome("".join(wrote))
    events = [*state.open(0), *state.close("completed")]
    assert events[-1].item.arguments == '{"yield_time_ms":30000,"cmd":"ls"}'  # type: ignore[attr-defined]
    assert (state.arguments, state.written) == ("".join(wrote), "shell" + "".join(wrote))


def test_an_engine_that_constrains_arguments_constrains_those_of_the_functions() -> None:
    request, _ = body_to_request(msgspec.json.encode({"input": "Hi", "tools": [EXEC_COMMAND, APPLY_PATCH]}))
    dialect = replace(PLAIN, constrains_calls=True)
    conversion = request_to_chat(request, request_to_items(request), dialect, "m", help=HELP)
    assert [tool.function.strict for tool in conversion.chat.tools or ()] == [True] * 8


def test_parallel_calls_of_two_functions_are_two_calls_of_the_tool() -> None:
    one = call("delete_file", '{"path": "a"}', id="c1", index=0)
    two = call("write_file", '{"path": "b", "content": "x"}', id="c2", index=1)
    items = output_of([APPLY_PATCH], called(one, two))
    assert [item["call_id"] for item in items] == ["c1", "c2"]
    assert [item["input"].splitlines()[1] for item in items] == ["*** Delete File: a", "*** Add File: b"]


# ---- properties ------------------------------------------------------------------------------------------------------

characters = st.characters(exclude_categories=["Cs"])
lines = st.lists(st.text(characters, max_size=12).map(lambda line: line.replace("\n", "").rstrip("\r")), max_size=5)
texts = lines.map(lambda given: "".join(f"{line}\n" for line in given))
paths = st.text(characters, min_size=1, max_size=12).map(lambda path: path.replace("\n", "").replace("\r", "").strip() or "a")
# In a command, one that begins like an option is written in another way.
plain_paths = paths.map(lambda path: f"./{path}" if path.startswith("-") else path)
rests = st.dictionaries(st.sampled_from(["workdir", "tty", "timeout"]), texts | st.integers(0, 9))
normalised = {
    "write_file": st.fixed_dictionaries({"path": paths, "content": texts.map(lambda content: content or "\n")}),
    "edit_file": st.fixed_dictionaries({"path": paths, "old_lines": texts, "new_lines": texts}),
    "delete_file": st.fixed_dictionaries({"path": paths}),
    "shell": st.builds(lambda command, rest: {"command": f"ls {command}", **rest}, texts, rests),
    "read_file": st.fixed_dictionaries({"path": plain_paths}),
    "replace_text": st.fixed_dictionaries({"path": plain_paths, "old_text": texts.filter(bool), "new_text": texts}),
    "move_file": st.fixed_dictionaries({"path": plain_paths, "new_path": plain_paths}),
    "make_folder": st.fixed_dictionaries({"path": plain_paths}),
    "write_stdin": st.fixed_dictionaries({"session_id": st.integers(0, 99), "chars": texts}),
}
values = st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3)
anything = st.dictionaries(
    st.sampled_from("path new_path content old_lines new_lines old_text new_text command cmd chars session_id".split()), values
)
markers = ["*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: a", "*** Delete File: a", "*** Move to: b"]
pieces = st.sampled_from([*markers, "*** End of File", "@@", "@@ f", "+", "+a", "-a", " a", "", "\r"]) | st.text(max_size=4)
patches = st.lists(pieces, max_size=8).map("\n".join)


@given(st.data())
@pytest.mark.parametrize("row", FUNCTIONS, ids="-".join)
def test_function_to_tool_to_function_is_the_identity_on_normalised_calls(row: tuple[str, str], data: st.DataObject) -> None:
    function = FUNCTIONS[row]
    arguments = data.draw(normalised[function.name])
    own = function.own_arguments(function.native_arguments(written(arguments)))
    assert own is not None
    assert json.loads(own) == arguments


@given(st.data())
@pytest.mark.parametrize("row", FUNCTIONS, ids="-".join)
def test_a_call_is_normalised_once(row: tuple[str, str], data: st.DataObject) -> None:
    """Whatever was written, the history shows the same from then on."""
    function = FUNCTIONS[row]
    native = function.native_arguments(data.draw(anything.map(json.dumps) | st.text(max_size=10)))
    shown = function.own_arguments(native)
    if shown is not None:
        assert function.own_arguments(function.native_arguments(shown)) == shown


@given(st.data())
@pytest.mark.parametrize("row", FUNCTIONS, ids="-".join)
def test_no_call_of_a_client_breaks_the_way_back(row: tuple[str, str], data: st.DataObject) -> None:
    native = data.draw(
        patches.map(lambda patch: json.dumps({"input": patch}))
        | patches.map(lambda patch: json.dumps({"type": "update_file", "path": "a", "diff": patch}))
        | anything.map(json.dumps)
        | st.text()
    )
    shown = FUNCTIONS[row].own_arguments(native)
    assert shown is None or isinstance(shown, str)


@given(st.data())
def test_every_rendered_patch_follows_the_grammar_of_codex(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["write_file", "edit_file", "delete_file"]))
    native = FUNCTIONS["custom", name].native_arguments(written(data.draw(normalised[name])))
    assert grammars.complaint(Grammar("grammar", "lark", PATCH_GRAMMAR), json.loads(native)["input"]) is None


@settings(max_examples=25)
@given(st.data())
def test_a_conversation_with_easy_functions_only_ever_grows_at_its_end(data: st.DataObject) -> None:
    tools = [EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH, OTHER]
    outputs = dict.fromkeys(("write_file", "edit_file", "delete_file", "apply_patch"), "custom_tool_call_output")
    items: list[Item] = [{"role": "developer", "content": "Be kind."}, USER]
    before = convert(items, tools)
    for turn in range(6):
        name = data.draw(st.sampled_from([*normalised, "apply_patch", "other"]))
        arguments = data.draw(normalised.get(name, st.just({"input": TWO_FILES})))
        (item,) = output_of(tools, called(call(name, written(arguments), id=f"c{turn}")))
        items += [item, {"type": outputs.get(name, "function_call_output"), "call_id": f"c{turn}", "output": "done"}]
        after = convert(items, tools)
        assert after.chat.messages[: len(before.chat.messages)] == before.chat.messages
        function = last_call(after).function
        assert (function.name, json.loads(function.arguments)) == (name, arguments)
        before = after


# ---- what a model writes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "lines"),
    [
        ("write_file", {"path": "a", "content": ""}, ["*** Add File: a", "+"]),
        ("write_file", {"path": "a", "content": "\n\n"}, ["*** Add File: a", "+", "+"]),
        ("write_file", {"path": "a", "content": ["one", "", "two\n"]}, ["*** Add File: a", "+one", "+", "+two"]),
        ("write_file", {"path": "a", "content": {"b": 1}}, ["*** Add File: a", "+{", '+  "b": 1', "+}"]),
        ("write_file", {"path": "a", "content": 8080}, ["*** Add File: a", "+8080"]),
        ("write_file", {"path": "a", "content": "*** End Patch\n@@"}, ["*** Add File: a", "+*** End Patch", "+@@"]),
        ("write_file", {"path": "a", "content": "\ta\\n\u2028é\x0c"}, ["*** Add File: a", "+\ta\\n\u2028é\x0c"]),
        ("edit_file", {"path": "a", "old_lines": "x", "new_lines": "x"}, ["*** Update File: a", "@@", "-x", "+x"]),
        ("edit_file", {"path": "a", "old_lines": "\n", "new_lines": ""}, ["*** Update File: a", "@@", "-"]),
        ("edit_file", {"path": "a", "old_lines": "", "new_lines": ""}, ["*** Update File: a", "@@"]),
        ("edit_file", {"path": "a", "old_lines": "-a\r\n+b", "new_lines": []}, ["*** Update File: a", "@@", "--a", "-+b"]),
    ],
)
def test_what_is_written_becomes_whole_lines(function: str, arguments: Item, lines: list[str]) -> None:
    (item,) = output_of([APPLY_PATCH], called(call(function, json.dumps(arguments))))
    assert item["input"] == patched(*lines)["input"]


@pytest.mark.parametrize(
    ("command", "line"),
    [(["ls", "a b"], "ls 'a b'"), (["ls -l"], "ls -l"), (["/bin/sh", "-c", "a | b"], "a | b"), ("  x\ny ", "  x\ny ")],
)
def test_a_command_is_one_line_for_the_shell(command: Any, line: str) -> None:
    (item,) = output_of([EXEC_COMMAND], called(call("shell", json.dumps({"command": command}))))
    assert json.loads(item["arguments"])["cmd"] == line


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
    native = FUNCTIONS["function", "replace_text"].native_arguments(
        written({"path": str(file), "old_text": old, "new_text": new})
    )
    done = subprocess.run(["bash", "-c", json.loads(native)["command"]], capture_output=True, text=True)
    assert file.read_text() == (after or "Helo $x, Helo\n")
    assert (done.returncode, done.stderr) == ((0, "") if after is not None else (1, "the file has no such text\n"))


def test_a_text_in_a_file_that_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    native = FUNCTIONS["function", "replace_text"].native_arguments('{"path": "none", "old_text": "a", "new_text": "b"}')
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


def test_a_long_command_is_read_at_once() -> None:
    """Quadratic work takes minutes here."""
    line = f"cat {shlex.quote('a' * 4_000_000 + ' ')}; ls"
    item = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": written({"cmd": line})}
    assert last_call(convert([USER, item], [EXEC_COMMAND])).function.name == "shell"


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
    "apply_patch verification failed: Failed to find expected lines in a:\nx",
    "x\nExit code: 0\nOutput:\n",
]


@pytest.mark.parametrize(("reported", "shown"), [*RESULTS, *((text, text) for text in UNCHANGED)])
def test_the_results_of_easy_functions_are_plain(reported: str, shown: str) -> None:
    item = {"type": "function_call", "call_id": "c1", "name": "exec_command", "arguments": '{"cmd": "ls"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": reported}
    shown = f"{shown}\n{WHAT_NEXT}" if shown.startswith("Done.") else shown
    assert convert([USER, item, result], [EXEC_COMMAND]).chat.messages[-1].content == shown
    for tools, help in (([EXEC_COMMAND], NO_HELP), ([OTHER], HELP)):
        assert convert([USER, item, result], tools, help).chat.messages[-1].content == reported


# The function, its arguments, what is said of them, and the name that the history has.
BAD = [
    ("write_file", '{"path": "a"}', '"content" is a required property', "write_file"),
    ("write_file", '{"path": "a\\nb", "content": "x"}', "at path", "write_file"),
    ("edit_file", '{"path": " ", "old_lines": "", "new_lines": "x"}', "at path", "edit_file"),
    ("delete_file", '{"file": "a"}', '"path" is a required property', "delete_file"),
    ("delete_file", "nonsense", "not JSON", "delete_file"),
    ("read_file", '{"path": "a\\nb"}', "at path", "exec_command"),
    ("replace_text", '{"path": "a", "old_text": "", "new_text": ""}', "at old_text", "exec_command"),
    ("shell", '{"line": "ls"}', '"command" is a required property', "exec_command"),
]


@pytest.mark.parametrize(("function", "arguments", "complaint", "shown"), BAD)
def test_a_bad_call_is_asked_for_once_more(function: str, arguments: str, complaint: str, shown: str) -> None:
    asked = Recorder()
    good = call("delete_file", '{"path": "a"}', id="c2")
    output = output_of([APPLY_PATCH, EXEC_COMMAND], called(call(function, arguments)), called(good), on_ask=asked)
    assert [item["name"] for item in output] == ["apply_patch"]
    assert complaint in asked.chats[1]["messages"][-1]["content"]


@pytest.mark.parametrize(("function", "arguments", "complaint", "shown"), BAD)
def test_a_call_that_is_bad_twice_is_passed_on_for_its_tool_to_report(
    function: str, arguments: str, complaint: str, shown: str
) -> None:
    bad = called(call(function, arguments))
    tools = [APPLY_PATCH, EXEC_COMMAND]
    (item,) = output_of(tools, bad, bad)
    passed_on = item["input"] if item["type"] == "custom_tool_call" else f"{function}({item['arguments']})"
    assert passed_on == f"{function}({arguments})"
    output = {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "no"}
    made = last_call(convert([USER, item, output], tools)).function
    assert made.name == shown
    assert json.loads(made.arguments) == (json.loads(arguments) if complaint != "not JSON" else {"invalid_json": arguments})


def test_a_bad_call_of_the_built_in_tool_is_passed_on_as_a_diff_that_is_none() -> None:
    bad = called(call("write_file", '{"path": "a"}'))
    (item,) = output_of([BUILT_IN], bad, bad)
    assert item["operation"] == {"type": "update_file", "path": "", "diff": 'write_file({"path": "a"})'}
    made = last_call(convert([USER, item], [BUILT_IN])).function
    assert (made.name, made.arguments) == ("write_file", '{"path": "a"}')


@pytest.mark.parametrize(("tool", "function"), [(EXEC_COMMAND, "shell"), (APPLY_PATCH, "write_file")])
def test_half_a_call_is_never_translated(tool: Tool, function: str) -> None:
    half = '{"command": "rm -rf /home", "path": "a", "content": "x'
    (item,) = output_of([tool], answer(call(function, half), finish="length"))
    assert item["status"] == "incomplete"
    assert half in item.get("arguments", "") + item.get("input", "")
    assert "cmd" not in item.get("arguments", "")
    assert "Begin Patch" not in item.get("input", "")


# ---- other names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "custom", "name": "apply_patch"}])
def test_a_call_by_the_tools_own_name_is_understood(choice: Any) -> None:
    made = called(call("apply_patch", written({"input": TWO_FILES})))
    (item,) = output_of([APPLY_PATCH, OTHER], made, tool_choice=choice)
    assert (item["type"], item["input"]) == ("custom_tool_call", TWO_FILES)
    (item,) = output_of([EXEC_COMMAND], called(call("exec_command", '{"cmd": "ls"}')))
    assert (item["name"], item["arguments"]) == ("exec_command", '{"cmd": "ls"}')


@pytest.mark.parametrize("name", ["apply_patch", "delete_file"])
def test_calls_in_the_text_are_found_by_either_name(name: str) -> None:
    patch = CASES["delete"].item["input"]
    arguments = {"input": patch} if name == "apply_patch" else CASES["delete"].arguments
    said = f"<tool_call>\n{written({'name': name, 'arguments': arguments})}\n</tool_call>"
    (item,) = output_of([APPLY_PATCH], text(said))
    assert (item["type"], item["input"]) == ("custom_tool_call", patch)


def test_a_call_by_the_tools_own_name_is_still_checked_by_its_grammar() -> None:
    wrong = called(call("apply_patch", '{"input": "nonsense"}'))
    (item,) = output_of([APPLY_PATCH], wrong, called(call("delete_file", '{"path": "a"}')))
    assert item["input"] == patched("*** Delete File: a")["input"]


@pytest.mark.parametrize(
    ("patch", "name", "arguments"),
    [
        (
            "*** Begin Patch\n*** Update File: a\n one\n-two\n+zwei\n three\n*** End Patch",
            "edit_file",
            {"path": "a", "old_lines": "one\ntwo\nthree\n", "new_lines": "one\nzwei\nthree\n"},
        ),
        (TWO_FILES, "apply_patch", {"input": TWO_FILES}),
        *(
            (patched(*lines)["input"], "apply_patch", {"input": patched(*lines)["input"]})
            for lines in (
                ("*** Update File: a", "@@", "-x", "+y", "@@", "-z"),
                ("*** Update File: a", "@@ def f():", "-x"),
                ("*** Update File: a", "*** Move to: b", "@@", "-x"),
                ("*** Update File: a", "@@", "-x", "*** End of File"),
                ("*** Update File: a",),
                ("*** Add File: a",),
                ("*** Add File:  a", "+x"),
            )
        ),
    ],
)
def test_a_patch_that_no_function_expresses_stays_a_patch(patch: str, name: str, arguments: Item) -> None:
    item = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": patch}
    function = last_call(convert([USER, item], [APPLY_PATCH])).function
    assert (function.name, json.loads(function.arguments)) == (name, arguments)


# ---- choices ---------------------------------------------------------------------------------------------------------

EDITS = ["write_file", "edit_file", "delete_file"]
PATCH_CHOICE = {"type": "custom", "name": "apply_patch"}


@pytest.mark.parametrize(
    ("choice", "names", "sent"),
    [
        ("required", [*LINES, "shell", *EDITS, "other"], "required"),
        (PATCH_CHOICE, EDITS, "required"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [PATCH_CHOICE]}, EDITS, "auto"),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "exec_command"}]},
            [*LINES, "shell"],
            "required",
        ),
    ],
)
def test_a_choice_of_a_tool_is_one_of_its_functions(choice: Any, names: list[str], sent: str) -> None:
    conversion = convert([USER], [EXEC_COMMAND, APPLY_PATCH, OTHER], tool_choice=choice)
    assert (offered(conversion), conversion.chat.tool_choice) == (names, sent)


def test_a_required_patch_is_made_by_any_of_its_functions() -> None:
    asked = Recorder()
    wrong, right = call("shell", '{"command": "ls"}'), call("edit_file", written(CASES["edit"].arguments))
    tools = [EXEC_COMMAND, APPLY_PATCH]
    (item,) = output_of(tools, called(wrong), called(right), tool_choice=PATCH_CHOICE, on_ask=asked)
    assert item["name"] == "apply_patch"
    assert "delete_file, edit_file, write_file" in asked.chats[1]["messages"][-1]["content"]


def test_a_required_patch_is_constrained_to_a_call_of_its_functions() -> None:
    asked = Recorder()
    small = EngineKnowledge(LLAMACPP, [Model("m-1.5B", 1, "us")])
    request = {"tools": [EXEC_COMMAND, APPLY_PATCH], "tool_choice": PATCH_CHOICE}
    said = text('{"name": "delete_file", "arguments": {"path": "a"}}')
    (item,) = run_answers(request, said, engines=[small], on_ask=asked)[-1]["response"]["output"]
    assert item["input"] == patched("*** Delete File: a")["input"]
    constraint = json.dumps(asked.chats[0].get("response_format") or asked.chats[0]["grammar"])
    assert all(name in constraint for name in EDITS)
    assert "shell" not in constraint


@pytest.mark.parametrize("limit", [{"parallel_tool_calls": False}, {"max_tool_calls": 1}])
def test_limits_count_the_functions_of_one_tool_together(limit: Item) -> None:
    one = call("delete_file", '{"path": "a"}', id="c1", index=0)
    two = call("write_file", '{"path": "b", "content": "x"}', id="c2", index=1)
    items = output_of([APPLY_PATCH], called(one, two), **limit)
    assert [item["call_id"] for item in items] == ["c1"]


# ---- what is left alone ----------------------------------------------------------------------------------------------


def function(name: str, *required: str, strict: bool = False, **properties: str) -> Tool:
    described = {each: {"type": kind} for each, kind in properties.items()}
    parameters = {"type": "object", "properties": described, "required": list(required)}
    return {"type": "function", "name": name, "parameters": parameters, "strict": strict}


@pytest.mark.parametrize(
    "tool",
    [
        function("exec_command", "cmd", "host", cmd="string", host="string"),
        function("exec_command", "command", command="string"),
        function("exec_command", "cmd", cmd="array"),
        function("exec_command", "cmd", cmd="string", strict=True),
        function("write_stdin", "session_id", session_id="string", chars="string"),
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": True}, "required": 3}},
        {"type": "custom", "name": "apply_patch", "description": "Applies a unified diff."},
        {"type": "namespace", "name": "mine", "tools": [EXEC_COMMAND]},
    ],
)
def test_another_tool_of_that_name_is_offered_as_it_is(tool: Tool) -> None:
    helped, plain = convert([USER], [tool]), convert([USER], [tool], NO_HELP)
    assert chat_to_bytes(helped.chat) == chat_to_bytes(plain.chat)
    assert helped.notices == plain.notices


@pytest.mark.parametrize("taken", ["write_file", "edit_file", "delete_file", "shell"])
def test_a_name_that_the_client_uses_itself_means_the_clients_tool(taken: str) -> None:
    tools = [APPLY_PATCH, EXEC_COMMAND, function(taken, "path", path="string")]
    names = offered(convert([USER], tools))
    assert len(names) == len(set(names))
    assert ("apply_patch" in names) == (taken != "shell")
    assert ("exec_command" in names) == (taken == "shell")
    (item,) = output_of(tools, called(call(taken, '{"path": "a"}')))
    assert (item["name"], item["arguments"]) == (taken, '{"path": "a"}')


def test_of_two_tools_for_commands_one_becomes_the_shell() -> None:
    assert offered(convert([USER], [SHELL_COMMAND, EXEC_COMMAND])) == ["shell_command", *LINES, "shell"]


def test_arguments_are_filled_in_only_where_the_tool_has_them() -> None:
    (item,) = output_of([function("exec_command", "cmd", cmd="string")], called(call("shell", '{"command": "ls"}')))
    assert item["arguments"] == '{"cmd":"ls"}'


def test_without_help_the_request_is_what_it_was() -> None:
    tools = [EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH]
    items: list[Item] = [
        USER,
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": CASES["write"].item["input"]},
        {"type": "function_call", "call_id": "c2", "name": "exec_command", "arguments": '{"cmd": "ls"}'},
    ]
    other_help = Help(holds_calls=False, stops_loops=True, lean_codex=True, reason="a test")
    plain, other = convert(items, tools, NO_HELP), convert(items, tools, other_help)
    assert chat_to_bytes(plain.chat) == chat_to_bytes(other.chat)
    assert offered(plain) == ["exec_command", "write_stdin", "apply_patch"]
    made = [(each.function.name, each.function.arguments) for each in plain.chat.messages[1].tool_calls or ()]
    patch = msgspec.json.encode({"input": CASES["write"].item["input"]}).decode()
    assert made == [("apply_patch", patch), ("exec_command", '{"cmd": "ls"}')]
    assert not any("help" in notice for notice in plain.notices)


async def test_help_that_is_off_is_off_for_small_models_too(engine: MockEngine) -> None:
    engine.lists("small-1.5B")
    async with running_gateway(engine, help="off") as gateway:
        await gateway.create(tools=[EXEC_COMMAND, APPLY_PATCH])
    assert [tool["function"]["name"] for tool in engine.last["tools"]] == ["exec_command", "apply_patch"]
    assert "help" not in gateway.notice


def test_the_notice_says_what_is_offered_how_and_why() -> None:
    conversion = convert([USER], [EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH])
    assert conversion.notices == (
        "help for a small model (the model has 1.5 billion parameters): apply_patch is offered as write_file, edit_file and "
        "delete_file; exec_command is offered as read_file, replace_text, move_file, make_folder and shell; write_stdin is "
        "offered with fewer parameters",
    )


def test_the_functions_have_short_descriptions_without_an_example() -> None:
    box = tools_to_box([EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH])
    offer_easier_tools(box, "a test")
    for name, tool in box.functions.items():
        described = tool.function.description or ""
        assert 0 < len(described) < 250
        assert not any(mark in described for mark in ("***", "@@", "`", "e.g."))
        function: EasyFunction = box.easy[name]
        assert function.parameters["required"] == list(function.parameters["properties"])
