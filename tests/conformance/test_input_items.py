"""Every type of input item: what the engine gets of it, and that it is listed as OpenAI lists it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter
from support.engine import MockEngine
from support.gateway import GatewayUnderTest

Item = dict[str, Any]
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)

OF_CODEX = {"agent_message", "context_compaction"}

ASKED: Item = {"role": "user", "content": "Hi"}
APPROVAL: Item = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "maps", "name": "find", "arguments": "{}"}
FUNCTION: Item = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}, "strict": False}


def call(name: str, arguments: str) -> Item:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


@dataclass(frozen=True)
class Case:
    item: Item
    # The last message that the engine gets, as far as it is given here.
    message: Item = field(default_factory=dict)
    # Items before it; those after it are at the end of the prompt.
    before: tuple[Item, ...] = (ASKED,)
    after: tuple[Item, ...] = ()
    notice: str = ""
    tools: tuple[Item, ...] = ()


CALLS: dict[str, Item] = {
    "function_call": {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Rome"}'},
    "custom_tool_call": {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "ls"},
    "local_shell_call": {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_1",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
        "status": "completed",
    },
    "shell_call": {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}},
    "apply_patch_call": {
        "type": "apply_patch_call",
        "call_id": "call_1",
        "operation": {"type": "delete_file", "path": "a.py"},
        "status": "completed",
    },
    "tool_search_call": {
        "type": "tool_search_call",
        "call_id": "call_1",
        "arguments": {"query": "maps"},
        "execution": "client",
    },
}
# Without its result, a call gets one that says so.
RESULT: Item = {"role": "tool", "tool_call_id": "call_1"}


def a_call(kind: str) -> Case:
    return Case(CALLS[kind], RESULT)


def an_output(call_of: str, item: Item, content: str, *, tools: tuple[Item, ...] = ()) -> Case:
    return Case(item, {**RESULT, "content": content}, before=(ASKED, CALLS[call_of]), tools=tools)


def a_note(item: Item, text: str) -> Case:
    """What a tool of another server did is a short note in the assistant's words."""
    return Case(item, {"role": "assistant", "content": f"[{item['type']}: {text}]"})


CASES: dict[str, Case] = {
    "message": Case({"type": "message", "role": "user", "content": "And now?"}, {"role": "user", "content": "And now?"}, ()),
    "item_reference": Case(
        {"type": "item_reference", "id": "msg_1"},
        {"role": "user", "content": "Hi"},
        before=({"type": "message", "id": "msg_1", "role": "user", "content": "Hi"},),
    ),
    "reasoning": Case(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "They greet."}],
        },
        after=({"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Well?"}),
        message={"role": "user", "content": "Well?"},
    ),
    **{kind: a_call(kind) for kind in CALLS},
    "function_call_output": an_output(
        "function_call", {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}, "sunny"
    ),
    "custom_tool_call_output": an_output(
        "custom_tool_call", {"type": "custom_tool_call_output", "call_id": "call_1", "output": "a.py"}, "a.py"
    ),
    "local_shell_call_output": an_output(
        "local_shell_call", {"type": "local_shell_call_output", "id": "call_1", "output": "a.py"}, "a.py"
    ),
    "shell_call_output": an_output(
        "shell_call",
        {
            "type": "shell_call_output",
            "call_id": "call_1",
            "output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        '[{"stdout":"a.py","stderr":"","outcome":{"type":"exit","exit_code":0}}]',
    ),
    "apply_patch_call_output": an_output(
        "apply_patch_call",
        {"type": "apply_patch_call_output", "call_id": "call_1", "status": "completed", "output": "deleted"},
        "deleted",
    ),
    "tool_search_output": an_output(
        "tool_search_call",
        {"type": "tool_search_output", "call_id": "call_1", "tools": [FUNCTION], "execution": "client"},
        '[{"type":"function","name":"weather","parameters":{"type":"object","properties":{}},"strict":false}]',
        tools=(FUNCTION,),
    ),
    "web_search_call": Case(
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "Rome", "queries": ["Rome"]},
        },
        {"role": "tool", "content": "(the result is not shown again)"},
    ),
    "file_search_call": Case(
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["Rome"],
            "results": [{"file_id": "file-1", "filename": "rome.pdf", "score": 0.9, "text": "Rome is old.", "attributes": {}}],
        },
        {"role": "tool", "content": "rome.pdf:\nRome is old."},
    ),
    "code_interpreter_call": Case(
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "1 + 1",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        {"role": "tool", "content": "2"},
    ),
    "image_generation_call": Case(
        {
            "type": "image_generation_call",
            "id": "ig_1",
            "status": "completed",
            "result": "aGk=",
            "revised_prompt": "A cat",
        },
        {"role": "tool", "content": "The image was made and is shown to the user."},
    ),
    "mcp_call": Case(
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "maps",
            "name": "find",
            "arguments": "{}",
            "output": "Rome",
        },
        {"role": "tool", "tool_call_id": "mcp_1", "content": "Rome"},
    ),
    "mcp_approval_request": Case(APPROVAL, {"role": "user", "content": "Hi"}),
    "mcp_approval_response": Case(
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False},
        {"role": "tool", "tool_call_id": "mcpr_1", "content": "The user did not approve this call, so it was not made."},
        before=(ASKED, APPROVAL),
    ),
    "mcp_list_tools": Case(
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "maps", "tools": []}, {"role": "user", "content": "Hi"}
    ),
    "computer_call": a_note(
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "call_1",
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "screenshot"},
        },
        '{"action":{"type":"screenshot"}}',
    ),
    "computer_call_output": Case(
        {
            "type": "computer_call_output",
            "call_id": "call_1",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="},
        },
        {"role": "user", "content": "Hi"},
        notice="computer_call_output was left out",
    ),
    "program": a_note(
        {"type": "program", "id": "prog_1", "call_id": "call_1", "code": "1 + 1", "fingerprint": "f"},
        '{"code":"1 + 1","fingerprint":"f"}',
    ),
    "program_output": Case(
        {"type": "program_output", "id": "po_1", "call_id": "call_1", "result": "2", "status": "completed"},
        {"role": "user", "content": "[program_output: 2]"},
    ),
    "additional_tools": Case(
        {"type": "additional_tools", "role": "developer", "tools": [FUNCTION]},
        {"role": "user", "content": "Hi"},
        tools=(FUNCTION,),
    ),
    "compaction": Case(
        {"type": "compaction", "encrypted_content": "of another server"},
        {"role": "user"},
        notice="cannot be opened here",
    ),
    "context_compaction": Case(
        {"type": "context_compaction", "encrypted_content": "of another server"},
        {"role": "user"},
        notice="cannot be opened here",
    ),
    "agent_message": Case(
        {"type": "agent_message", "author": "reviewer", "content": [{"type": "input_text", "text": "Done."}]},
        {"role": "user", "content": "Message from reviewer:\nDone."},
    ),
    "compaction_trigger": Case({"type": "compaction_trigger"}, {"role": "user"}),
    "configuration_update": Case(
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"role": "user", "content": "Hi"},
        notice="configuration_update was left out",
    ),
}


@pytest.mark.parametrize("kind", CASES)
async def test_an_item_reaches_the_engine(kind: str, gateway: GatewayUnderTest, engine: MockEngine) -> None:
    case = CASES[kind]
    if kind not in OF_CODEX:
        ITEM.validate_python(case.item)
    await gateway.create([*case.before, case.item, *case.after])
    last = engine.last["messages"][-1]
    assert case.message.items() <= last.items()
    assert case.notice in gateway.notice
    assert [tool["function"]["name"] for tool in engine.last.get("tools", [])] == [tool["name"] for tool in case.tools]


# What only a request may have: a reference is stored as the item that it names, a trigger not at all.
MOMENTARY = ("item_reference", "compaction_trigger")
STORED = [kind for kind in CASES if kind not in MOMENTARY]


@pytest.mark.parametrize("kind", STORED)
async def test_an_item_is_listed_as_it_was_sent(kind: str, gateway: GatewayUnderTest) -> None:
    case = CASES[kind]
    response = await gateway.create([*case.before, case.item])
    _, listed = await gateway.get(f"/v1/responses/{response['id']}/input_items?order=asc")
    kept = listed["data"][-1]
    assert kept["id"]
    # Content has a type for each part, and an action all its members.
    given = {name: value for name, value in case.item.items() if name not in ("content", "action")}
    assert given.items() <= kept.items()


@pytest.mark.parametrize("kind", STORED)
async def test_an_item_can_be_part_of_a_conversation(kind: str, gateway: GatewayUnderTest) -> None:
    case = CASES[kind]
    _, conversation = await gateway.post({"items": [*case.before, case.item]}, "/v1/conversations")
    _, listed = await gateway.get(f"/v1/conversations/{conversation['id']}/items?order=asc")
    assert listed["data"][-1]["type"] == kind


@pytest.mark.parametrize("kind", MOMENTARY)
async def test_an_item_of_a_request_is_not_listed(kind: str, gateway: GatewayUnderTest) -> None:
    case = CASES[kind]
    response = await gateway.create([*case.before, case.item])
    _, listed = await gateway.get(f"/v1/responses/{response['id']}/input_items?order=asc")
    assert {item["type"] for item in listed["data"]} == {"message"}


@pytest.mark.parametrize("kind", MOMENTARY)
async def test_an_item_of_a_request_cannot_be_part_of_a_conversation(kind: str, gateway: GatewayUnderTest) -> None:
    case = CASES[kind]
    status, body = await gateway.post({"items": [*case.before, case.item]}, "/v1/conversations")
    assert (status, body["error"]["param"]) == (400, "items[1].type")
    assert kind in body["error"]["message"]
