"""Calls of tools that come without a definition: what does not fit is asked for once more, and then passed on to its tool."""

from typing import Any

import msgspec
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

PATCH = {"type": "create_file", "path": "a.txt", "diff": "+hi\n"}
APPLY_PATCH = [{"type": "apply_patch"}]


def patch(arguments: Any) -> bytes:
    return answer(call("apply_patch", msgspec.json.encode(arguments).decode()), finish="tool_calls")


async def test_a_patch_may_be_written_like_the_item_of_the_api(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(patch({"operation": PATCH}))
    response = await gateway.create("Create a.txt", tools=APPLY_PATCH)
    assert [item["operation"] for item in response["output"]] == [PATCH]
    assert len(engine.requests) == 1


async def test_a_patch_without_its_diff_is_asked_for_once_more(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(patch({"type": "create_file", "path": "a.txt"}), patch(PATCH))
    response = await gateway.create("Create a.txt", tools=APPLY_PATCH)
    assert [item["operation"] for item in response["output"]] == [PATCH]
    assert len(engine.requests) == 2


async def test_a_patch_that_is_wrong_twice_is_passed_on_to_its_tool(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    engine.will(patch({"path": "a.txt"}), patch({"path": "a.txt"}))
    response = await gateway.create("Create a.txt", tools=APPLY_PATCH)
    assert response["status"] == "completed"
    assert [item["operation"]["path"] for item in response["output"]] == ["a.txt"]


async def test_a_shell_call_without_commands_is_asked_for_once_more(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    empty, whole = (answer(call("shell", each), finish="tool_calls") for each in ('{"commands": []}', '{"commands": ["ls"]}'))
    engine.will(empty, whole)
    response = await gateway.create("List the files", tools=[{"type": "shell", "environment": {"type": "local"}}])
    assert [item["action"]["commands"] for item in response["output"]] == [["ls"]]


async def test_the_model_gets_its_local_shell_call_back_as_it_wrote_it(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    tools = [{"type": "local_shell"}]
    engine.will(answer(call("local_shell", '{"command":["ls"]}'), finish="tool_calls"), text("Two files."))
    first = await gateway.create("List the files", tools=tools)
    output = {"type": "local_shell_call_output", "id": "lsho_1", "call_id": "call_1", "output": "a.txt b.txt"}
    await gateway.create([output], tools=tools, previous_response_id=first["id"])
    made = engine.last["messages"][1]["tool_calls"][0]["function"]
    assert made == {"name": "local_shell", "arguments": '{"command":["ls"]}'}
