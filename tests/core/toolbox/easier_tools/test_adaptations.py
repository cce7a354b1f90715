"""Hard tools as easy functions: definition → function → call → item → the next turn's history, for every row of the table."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND, WRITE_STDIN
from support.easy_tools import (
    CASES,
    CLAUDE,
    EDITS,
    HELP,
    LINES,
    OTHER,
    PATCH_CHOICE,
    TWO_FILES,
    USER,
    Item,
    Tool,
    called,
    convert,
    function,
    last_call,
    offered,
    output_of,
    written,
)
from support.engine import MockEngine, answer, call, text
from support.exchanges import Recorder
from support.gateway import GatewayUnderTest, running_gateway
from support.items import call_output, function_call
from support.messages import create, fold, stream

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.items.calls import FORMS, CallState
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.help import FULL_HELP, NO_HELP, Help
from antiphon.core.prompt.convert import ChatInputs, request_to_chat
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.stream.chat_stream import chat_to_bytes
from antiphon.core.toolbox.easier_tools.adaptations import ADAPTATIONS, offer_easier_tools
from antiphon.core.toolbox.easy_function import EasyFunction
from antiphon.core.toolbox.request_tools import tools_to_box

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
            # Input may be sent to what is running.
            result = "Process running with session ID 7\nOutput:\n"
            items += [item, {"type": case.output, "call_id": f"c{number}", "output": result}]
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


@pytest.mark.parametrize("streamed", [False, True])
async def test_claude_code_gets_its_own_calls_and_the_engine_the_functions_again(engine: MockEngine, streamed: bool) -> None:
    """Through Messages. What it says of its environment is in the first message."""
    engine.lists("small-1.5B")
    tools = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in CLAUDE]
    said: list[Item] = [
        {"role": "user", "content": "What is in a b.txt?"},
        {"role": "system", "content": "# Environment\n - Platform: linux"},
    ]
    async with running_gateway(engine) as gateway:
        for number, name in enumerate(("Read", "Write", "Edit", "Bash")):
            case = CASES[name]
            engine.will(called(call(case.function, written(case.arguments), id=f"c{number}")))
            given = {"messages": said, "system": "Be brief.", "tools": tools}
            answered = fold(await stream(gateway, **given)) if streamed else await create(gateway, **given)
            (use,) = answered["content"]
            assert (use["type"], use["name"], use["input"]) == ("tool_use", name, json.loads(case.item["arguments"]))
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": f"Result {number}"}
            said += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    first, *_, last = engine.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["shell", "replace_text", "read_file", "write_file"]
    assert last["messages"][: len(first["messages"])] == first["messages"]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["messages"][0]["content"] == "Be brief.\n\n# Environment\n - Platform: linux"
    made = [each["function"]["name"] for message in last["messages"] for each in message.get("tool_calls", ())]
    assert made == ["read_file", "write_file", "replace_text"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Read", {"file_path": "a", "offset": 3}),
        ("Read", {"file_path": " a"}),
        ("Edit", {"file_path": "a", "old_string": "", "new_string": "b"}),
        ("Edit", {"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": True}),
    ],
)
def test_a_call_of_claude_code_that_no_function_expresses_stays_as_it_is(name: str, arguments: Item) -> None:
    call_item = function_call("c", name, written(arguments))
    conversion = convert([USER, call_item, call_output("c", "done")], CLAUDE)
    function = last_call(conversion).function
    assert (function.name, json.loads(function.arguments)) == (name, arguments)


def test_tools_that_only_have_the_names_of_those_of_claude_code_are_left_alone() -> None:
    tools = [function("Read", "path", path="string"), function("Bash", "command", "why", command="string", why="string")]
    assert offered(convert([USER], tools)) == ["Read", "Bash"]


async def _answer(gateway: GatewayUnderTest, items: list[Item], tools: list[Tool], streamed: bool) -> Item:
    """The one item of the answer."""
    if streamed:
        response = (await gateway.stream(items, tools=tools))[-1]["response"]
    else:
        response = await gateway.create(items, tools=tools)
    assert [tool["type"] for tool in response["tools"]] == [tool["type"] for tool in tools]
    (item,) = response["output"]
    return dict(item)


def test_to_the_engine_a_call_stays_what_the_model_wrote() -> None:
    conversion = convert([USER], [EXEC_COMMAND])
    tools = conversion.requirements.tools
    state = CallState("c1", new_id=lambda prefix: prefix, tools=tools, style=EventOptions(), forms=FORMS)
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
    conversion = request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m", help=HELP))
    assert [tool.function.strict for tool in conversion.chat.tools or ()] == [True] * 8


def test_input_is_only_sent_to_what_is_running() -> None:
    def callable_names(*items: Item, help: Help = FULL_HELP) -> set[str]:
        conversion = convert([USER, *items], [EXEC_COMMAND, WRITE_STDIN], help=help)
        assert "write_stdin" in offered(conversion), "the prompt keeps its prefix"
        return set(conversion.offer.names) & {"write_stdin"}

    command = function_call("c1", "exec_command", '{"cmd": "python3 -i"}')
    ended = call_output("c1", "Process exited with code 0\nOutput:\n")
    running = call_output("c1", "Process running with session ID 7\nOutput:\n>>> ")
    assert callable_names() == callable_names(command, ended) == set()
    assert callable_names(command, running) == callable_names(command, running, USER) == {"write_stdin"}
    assert callable_names(help=NO_HELP) == {"write_stdin"}


def test_a_call_that_sends_input_to_nothing_is_asked_for_again() -> None:
    asked = Recorder()
    sent = call("write_stdin", '{"session_id": 1, "chars": "x = 1"}', id="c1")
    good = call("write_file", '{"path": "a.py", "content": "x = 1"}', id="c2")
    output = output_of([APPLY_PATCH, EXEC_COMMAND, WRITE_STDIN], called(sent), called(good), on_ask=asked)
    assert [item["name"] for item in output] == ["apply_patch"]
    assert len(asked.chats) == 2


# ---- what a model writes ---------------------------------------------------------------------------------------------

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


# ---- choices ---------------------------------------------------------------------------------------------------------


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


# ---- what is left alone ----------------------------------------------------------------------------------------------


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


def test_without_help_the_request_is_what_it_was() -> None:
    tools = [EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH]
    items: list[Item] = [
        USER,
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": CASES["write"].item["input"]},
        {"type": "function_call", "call_id": "c2", "name": "exec_command", "arguments": '{"cmd": "ls"}'},
    ]
    other_help = Help(constrains_answers=False, stops_loops=True, lean_codex=True, reason="a test")
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
        "offered with fewer parameters, and may be called once something is running",
    )


def test_the_functions_have_short_descriptions_without_an_example() -> None:
    box = tools_to_box([EXEC_COMMAND, WRITE_STDIN, APPLY_PATCH])
    offer_easier_tools(box, "a test")
    for name, tool in box.offered.functions.items():
        described = tool.function.description or ""
        assert 0 < len(described) < 250
        assert not any(mark in described for mark in ("***", "@@", "`", "e.g."))
        function: EasyFunction = box.easy.functions[name]
        assert function.parameters["required"] == list(function.parameters["properties"])
