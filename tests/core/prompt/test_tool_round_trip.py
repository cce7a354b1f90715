"""Every type of tool: definition → function → call → item → next turn's history is the identity."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.engine import objection
from support.exchanges import REQUEST, run_deltas

from antiphon.core.events.deltas import CallDelta, Finished
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.request_tools import tools_to_box
from antiphon.core.toolbox.tools import ToolIdentity, engine_name
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatCall

SEARCH = {"type": "tool_search", "execution": "client"}
F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
PATCH = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"

# (the tool, the arguments that the engine writes, what the item must contain, the item with its output)
Case = tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "function": (F, {"a": 1}, {"type": "function_call", "name": "f", "arguments": '{"a":1}'}, {"type": "function_call_output"}),
    "namespace": (
        {"type": "namespace", "name": "mcp__echo", "description": "", "tools": [{**F, "name": "say"}]},
        {"t": "yo"},
        {"type": "function_call", "name": "say", "namespace": "mcp__echo", "arguments": '{"t":"yo"}'},
        {"type": "function_call_output"},
    ),
    "custom": (
        {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
        {"input": PATCH},
        {"type": "custom_tool_call", "name": "apply_patch", "input": PATCH},
        {"type": "custom_tool_call_output"},
    ),
    "custom in a namespace": (
        {"type": "namespace", "name": "functions", "description": "", "tools": [{"type": "custom", "name": "exec"}]},
        {"input": "1 + 1"},
        {"type": "custom_tool_call", "name": "exec", "namespace": "functions", "input": "1 + 1"},
        {"type": "custom_tool_call_output"},
    ),
    "tool_search": (
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object", "properties": {}}},
        {"query": "spawn", "limit": 2},
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "spawn", "limit": 2}},
        {"type": "tool_search_output", "tools": [F]},
    ),
    "local_shell": (
        {"type": "local_shell"},
        {"command": ["ls"], "timeout_ms": 5},
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}},
        {"type": "local_shell_call_output"},
    ),
    "shell": (
        {"type": "shell"},
        {"commands": ["ls", "pwd"], "timeout_ms": 5},
        {"type": "shell_call", "action": {"commands": ["ls", "pwd"], "timeout_ms": 5, "max_output_length": None}},
        {"type": "shell_call_output"},
    ),
    "apply_patch": (
        {"type": "apply_patch"},
        {"type": "create_file", "path": "a.txt", "diff": "+hi"},
        {"type": "apply_patch_call", "operation": {"type": "create_file", "path": "a.txt", "diff": "+hi"}},
        {"type": "apply_patch_call_output", "status": "completed"},
    ),
}


def convert(items: list[dict[str, Any]], tools: list[dict[str, Any]], **fields: Any) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": items, "tools": tools, **fields}))
    conversion = request_to_chat(ChatInputs(request, request_to_items(request), PLAIN, "m"))
    assert objection(msgspec.json.decode(msgspec.json.encode(conversion.chat))) is None
    return conversion


def events_of(
    tools: list[dict[str, Any]], name: str, pieces: list[str], call_id: str = "c1", input: Any = "Hi"
) -> list[dict[str, Any]]:
    """The events of one call, its arguments in these pieces."""
    call = [CallDelta(0, call_id, name), *(CallDelta(0, arguments=piece) for piece in pieces)]
    return run_deltas(*call, Finished("tool_calls"), request=structs.replace(REQUEST, tools=tools, input=input))


def calls_of(conversion: Conversion, at: int) -> list[ChatCall]:
    calls = conversion.chat.messages[at].tool_calls
    assert isinstance(calls, list)
    return calls


def pieces_of(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("name", CASES)
def test_a_call_comes_back_as_its_native_item_and_goes_in_again_as_the_same_call(name: str) -> None:
    tool, arguments, expected, answer = CASES[name]
    user = {"role": "user", "content": "Hi"}
    first = convert([user], [tool])
    assert first.notices == ()
    (function,) = [tool.function for tool in first.chat.tools or ()]
    written = msgspec.json.encode(arguments).decode()
    for size in (1, 3, 1000):
        item = events_of([tool], function.name, pieces_of(written, size))[-1]["response"]["output"][0]
        assert {key: item[key] for key in expected} == expected
        output = {**answer, "call_id": "c1", "output": "done"}
        second = convert([user, item, output], [tool])
        (call,) = calls_of(second, 1)
        assert (call.id, call.function.name) == ("c1", function.name)
        assert json.loads(call.function.arguments) == arguments
        assert second.chat.messages[: len(first.chat.messages)] == first.chat.messages
        assert second.chat.messages[2].role == "tool"


texts = st.text(max_size=30)
arguments_of = {
    "function": st.dictionaries(texts, texts | st.integers(), max_size=3),
    "namespace": st.dictionaries(texts, texts | st.integers(), max_size=3),
    "custom": st.fixed_dictionaries({"input": texts}),
    "custom in a namespace": st.fixed_dictionaries({"input": texts}),
    "tool_search": st.fixed_dictionaries({"query": texts}, optional={"limit": st.integers()}),
    "local_shell": st.fixed_dictionaries({"command": st.lists(texts, min_size=1)}),
    "shell": st.fixed_dictionaries({"commands": st.lists(texts, min_size=1)}, optional={"timeout_ms": st.integers()}),
    "apply_patch": st.fixed_dictionaries({"type": st.just("update_file"), "path": texts, "diff": texts}),
}


@settings(max_examples=25)
@given(st.data())
def test_a_conversation_of_ten_turns_only_ever_grows_at_its_end(data: st.DataObject) -> None:
    tools = [case[0] for case in CASES.values()]
    box = tools_to_box(tools)
    names = dict(zip(CASES, box.offered.functions, strict=True))
    items: list[dict[str, Any]] = [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    before = convert(items, tools)
    for turn in range(10):
        kind = data.draw(st.sampled_from(list(CASES)))
        arguments = data.draw(arguments_of[kind])
        written = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
        written = written.encode("utf-8", "replace").decode()
        item = events_of(tools, names[kind], pieces_of(written, 7), f"call_{turn}")[-1]["response"]["output"][0]
        items += [item, {**CASES[kind][3], "call_id": f"call_{turn}", "output": "done"}]
        after = convert(items, tools)
        assert after.chat.messages[: len(before.chat.messages)] == before.chat.messages
        (call,) = calls_of(after, -2)
        assert json.loads(call.function.arguments) == json.loads(written)
        before = after


# ---- names -----------------------------------------------------------------------------------------------------------

names_of_tools = st.text(alphabet="ab_-./ é", min_size=1, max_size=80)
legal_names = st.text(alphabet="ab_-", min_size=1, max_size=80)


@given(
    st.lists(
        st.tuples(st.just("function"), legal_names, st.none())
        | st.tuples(st.just("custom"), names_of_tools, st.none())
        | st.tuples(st.sampled_from(["function", "custom"]), names_of_tools, names_of_tools),
        unique=True,
    )
)
def test_names_are_legal_unique_and_mapped_back(natives: list[tuple[str, str, str | None]]) -> None:
    tools: list[dict[str, Any]] = []
    for kind, name, namespace in natives:
        tool = {"type": kind, "name": name}
        tools.append(tool if namespace is None else {"type": "namespace", "name": namespace, "tools": [tool]})
    box = tools_to_box(tools)
    assert len(box.offered.functions) == len(natives)
    for name, native in box.offered.identities.items():
        assert 1 <= len(name) <= 64
        assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in name)
        assert box.name_of(native) == name
        assert box.identity_of(name) == native


def test_a_name_does_not_depend_on_the_tools_that_come_later() -> None:
    clash: list[dict[str, Any]] = [{"type": "custom", "name": "f"}, {"type": "namespace", "name": "n", "tools": [F]}]
    few, many = tools_to_box([F, *clash]), tools_to_box([F, *clash, {**F, "name": "g"}])
    assert list(many.offered.functions)[:3] == list(few.offered.functions)
    assert next(iter(few.offered.functions)) == "f"


def test_a_name_without_its_namespace_is_understood() -> None:
    box = tools_to_box([{"type": "namespace", "name": "agents", "tools": [{**F, "name": "wait"}]}])
    assert box.identity_of("wait") == ToolIdentity("function", "wait", "agents")
    assert box.identity_of("invented") == ToolIdentity("function", "invented")
    assert engine_name(ToolIdentity("function", "wait", "agents")) == "agents__wait"


def test_tools_that_a_search_found_can_be_called_on_the_next_turn() -> None:
    found = {"type": "namespace", "name": "agents", "tools": [{**F, "name": "spawn"}]}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"type": "tool_search_call", "call_id": "c1", "arguments": {"query": "spawn"}},
        {"type": "tool_search_output", "call_id": "c1", "tools": [found]},
    ]
    conversion = convert(items, [SEARCH])
    assert list(conversion.box.offered.functions) == ["tool_search", "agents__spawn"]
    assert [tool["type"] for tool in conversion.box.in_response] == ["tool_search"]
    item = events_of([SEARCH], "agents__spawn", ["{}"], input=items)[-1]["response"]["output"][0]
    assert (item["name"], item["namespace"]) == ("spawn", "agents")


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        ({"type": "custom", "name": "apply_patch"}, ["apply_patch"]),
        ({"type": "local_shell"}, ["local_shell"]),
        ({"type": "function", "name": "say", "namespace": "mcp__echo"}, ["mcp__echo__say"]),
        (
            {"type": "allowed_tools", "tools": [{"type": "custom", "name": "apply_patch"}, {"type": "shell"}]},
            ["apply_patch", "shell"],
        ),
        ({"type": "allowed_tools", "tools": [{"type": "namespace", "name": "mcp__echo"}]}, ["mcp__echo__say"]),
    ],
)
def test_every_type_of_tool_can_be_chosen(choice: dict[str, Any], offered: list[str]) -> None:
    tools = [CASES[name][0] for name in ("function", "namespace", "custom", "local_shell", "shell")]
    conversion = convert([{"role": "user", "content": "Hi"}], tools, tool_choice=choice)
    assert [tool.function.name for tool in conversion.chat.tools or ()] == offered


def test_a_malformed_tool_in_a_namespace_is_rejected_by_name() -> None:
    with pytest.raises(InvalidRequest) as raised:
        convert([{"role": "user", "content": "Hi"}], [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}])
    assert raised.value.param == "tools[0].tools[0].name"


def test_the_commands_of_a_shell_call_are_sent_one_by_one() -> None:
    events = events_of([{"type": "shell"}], "shell", ['{"commands": ["ls",', ' "pwd"]}'])
    commands = [(event["type"], event["command_index"]) for event in events if "command_index" in event]
    kinds = [f"response.shell_call_command.{kind}" for kind in ("added", "delta", "done")]
    assert commands == [(kind, at) for at in (0, 1) for kind in kinds]


def test_a_command_that_is_empty_has_its_place_among_the_others() -> None:
    """openai-node adds commands up by their numbers, and fails where one is missing."""
    events = events_of([{"type": "shell"}], "shell", ['{"commands": ["ls", "", "pwd"]}'])
    commands = [(event["type"].rpartition(".")[2], event["command_index"]) for event in events if "command_index" in event]
    assert commands[3:5] == [("added", 1), ("done", 1)]
    assert [at for kind, at in commands if kind == "added"] == [0, 1, 2]


@pytest.mark.parametrize("odd", ["ls", 3, ["ls"], None, '{"command": "ls"}'])
@pytest.mark.parametrize(
    ("kind", "member"),
    [
        ("local_shell_call", "action"),
        ("shell_call", "action"),
        ("apply_patch_call", "operation"),
        ("tool_search_call", "arguments"),
    ],
)
def test_a_call_of_an_odd_shape_in_the_history_breaks_nothing(kind: str, member: str, odd: Any) -> None:
    items = [{"role": "user", "content": "Hi"}, {"type": kind, "call_id": "c1", member: odd}]
    (call,) = calls_of(convert(items, []), 1)
    assert isinstance(json.loads(call.function.arguments), dict)


def test_a_patch_whose_output_is_only_its_status_has_that_as_its_result() -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
    ]
    assert convert(items, [{"type": "apply_patch"}]).chat.messages[-1].content == "completed"


def test_the_input_of_a_custom_call_streams_as_it_arrives() -> None:
    events = events_of([{"type": "custom", "name": "exec"}], "exec", ['{"input": "one', " two", '\\n"}'])
    assert [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"] == [
        "one",
        " two",
        "\n",
    ]
    assert events[-3]["input"] == "one two\n"
