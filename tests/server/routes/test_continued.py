"""Whatever was accepted once can be continued: by previous_response_id, and in a conversation."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engine import MockEngine, answer, call, text
from support.gateway import GatewayUnderTest

from antiphon.core.prompt.item_types import ITEM_TYPES
from antiphon.store.records import Item as StoredItem

QUESTION = {"role": "user", "content": "Weather?"}
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


def sent(engine: MockEngine) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in engine.last["messages"]]


# ---- what clients repeat ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", ["nothing", "the call", "the user message", "both"])
async def test_a_client_may_repeat_what_it_continues(gateway: GatewayUnderTest, engine: MockEngine, repeats: str) -> None:
    engine.will(answer(call("weather", '{"city": "Oslo"}', id="call_a"), finish="tool_calls"))
    first = await gateway.create([QUESTION], tools=[TOOL])
    again = {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": '{"city":"Oslo"}'}
    output = {"type": "function_call_output", "call_id": "call_a", "output": "Rain"}
    repeated = {"nothing": [], "the call": [again], "the user message": [QUESTION], "both": [QUESTION, again]}[repeats]
    second = await gateway.create([*repeated, output], tools=[TOOL], previous_response_id=first["id"])
    assert sent(engine) == [("user", "Weather?"), ("assistant", ""), ("tool", "Rain")]
    assert bool(gateway.notice) is (repeats != "nothing")
    await gateway.create("Thanks", previous_response_id=second["id"])
    assert sent(engine)[:3] == [("user", "Weather?"), ("assistant", ""), ("tool", "Rain")]


async def test_a_report_in_the_name_of_a_tool_needs_no_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    report = {"type": "function_call_output", "name": "timer", "namespace": "app", "output": "It is five."}
    first = await gateway.create([QUESTION, report])
    assert sent(engine) == [("user", "Weather?"), ("user", "Message from timer:\nIt is five.")]
    await gateway.create("Thanks", previous_response_id=first["id"])
    assert sent(engine)[:2] == [("user", "Weather?"), ("user", "Message from timer:\nIt is five.")]


# ---- on entry --------------------------------------------------------------------------------------------------------

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "done"}
BAD_ITEMS: list[tuple[Any, str]] = [
    ({"type": ""}, "type"),
    ({"type": "", "role": "user", "content": "Hi"}, "type"),
    ({"type": 5}, "type"),
    ({"type": ["message"], "role": "user", "content": "Hi"}, "type"),
    ({"text": "?"}, "type"),
    ({"role": "king", "content": "Hi"}, "role"),
    ({"role": "user"}, "content"),
    ({"role": "user", "content": [{"type": "input_text"}]}, "content[0].text"),
    ({"role": "user", "content": [{"type": "input_video"}]}, "content[0].type"),
    ({"role": "user", "content": [{"type": "input_file", "file_data": "?"}]}, "content[0].file_data"),
    ({"type": "function_call", "name": "f", "arguments": "{}"}, "call_id"),
    (OUTPUT, "call_id"),
    ({"type": "function_call_output", "output": "done"}, "call_id"),
    ({"type": "reasoning", "summary": "hm"}, "summary"),
    ({"type": "additional_tools", "tools": [{"type": "function"}]}, "tools[0].name"),
    ({"type": "additional_tools", "tools": 5}, "tools"),
]


@pytest.mark.parametrize(("item", "param"), BAD_ITEMS)
async def test_an_item_that_cannot_be_continued_is_rejected_when_it_enters(
    gateway: GatewayUnderTest, engine: MockEngine, item: Any, param: str
) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    for path, list_of in (
        ("/v1/conversations", "items"),
        (f"/v1/conversations/{conversation['id']}/items", "items"),
        ("/v1/responses", "input"),
    ):
        status, body = await gateway.post({list_of: [QUESTION, item]}, path)
        assert (status, body["error"]["param"]) == (400, f"{list_of}[1].{param}")
    assert not engine.requests


@pytest.mark.parametrize(
    "item", [{"type": "item_reference", "id": "msg_1"}, {"type": "item_reference"}, {"type": "compaction_trigger"}]
)
async def test_what_concerns_a_request_only_cannot_be_added_to_a_conversation(
    gateway: GatewayUnderTest, item: dict[str, str]
) -> None:
    status, body = await gateway.post({"items": [item]}, "/v1/conversations")
    assert (status, body["error"]["param"]) == (400, "items[0].type")
    assert item["type"] in body["error"]["message"]


@pytest.mark.parametrize("item", [{"type": ["list"]}, {"type": {}}, {"type": 5}, {"role": ["user"], "content": 3}])
async def test_whatever_a_compaction_replaces_is_not_read_and_can_be_continued(
    gateway: GatewayUnderTest, engine: MockEngine, item: dict[str, Any]
) -> None:
    engine.will(text("The summary."))
    compacted = await gateway.create([QUESTION, {"type": "compaction_trigger"}])
    response = await gateway.create([item, compacted["output"][0], {"role": "user", "content": "On"}])
    await gateway.create("More", previous_response_id=response["id"])
    assert [role for role, _ in sent(engine)][-3:] == ["user", "assistant", "user"]


async def test_an_unknown_item_is_accepted_and_left_out_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({"items": [{"type": "mystery"}]}, "/v1/conversations")
    await gateway.create("Hi", conversation=conversation["id"])
    assert gateway.notice == "history[0]: mystery was left out"
    assert sent(engine) == [("user", "Hi")]


async def test_an_output_is_added_to_the_conversation_that_has_its_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    status, _ = await gateway.post({"items": [QUESTION, CALL, OUTPUT]}, "/v1/conversations")
    assert status == 200
    _, conversation = await gateway.post({"items": [QUESTION, CALL]}, "/v1/conversations")
    status, _ = await gateway.post({"items": [OUTPUT]}, f"/v1/conversations/{conversation['id']}/items")
    assert status == 200
    await gateway.create("Go on", conversation=conversation["id"])
    assert sent(engine)[1:3] == [("assistant", ""), ("tool", "done")]
    status, body = await gateway.post({"items": [OUTPUT]}, "/v1/conversations/conv_nowhere/items")
    assert (status, body["error"]["code"]) == (404, "conversation_not_found")


async def test_a_conversation_outlives_the_deletion_of_a_call(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({"items": [QUESTION, CALL, OUTPUT]}, "/v1/conversations")
    path = f"/v1/conversations/{conversation['id']}/items"
    _, listed = await gateway.get(f"{path}?order=asc")
    status, _ = await gateway.get(f"{path}/{listed['data'][1]['id']}", method="DELETE")
    assert status == 200
    await gateway.create("Go on", conversation=conversation["id"])
    assert sent(engine) == [("user", "Weather?"), ("user", "Go on")]
    assert gateway.notice.startswith("history[1] was left out: No tool call found")


async def test_what_was_stored_unchecked_is_left_out_with_a_notice(gateway: GatewayUnderTest, engine: MockEngine) -> None:
    _, conversation = await gateway.post({}, "/v1/conversations")
    unchecked = [QUESTION, *(item for item, _ in BAD_ITEMS), {"type": "item_reference", "id": "gone"}]
    stored = [StoredItem(f"item_{at}", msgspec.json.encode(item)) for at, item in enumerate(unchecked)]
    await gateway.gateway.store.add_items("", conversation["id"], stored)
    await gateway.create("Go on", conversation=conversation["id"])
    assert sent(engine) == [("user", "Weather?"), ("user", "Go on")]
    for at in range(1, len(unchecked)):
        assert f"history[{at}]" in gateway.notice


async def test_a_schema_in_a_stored_tool_that_does_not_compile_is_a_notice(gateway: GatewayUnderTest) -> None:
    tool = {"type": "function", "name": "f", "strict": True, "parameters": {"type": "nonsense"}}
    _, conversation = await gateway.post({"items": [{"type": "additional_tools", "tools": [tool]}]}, "/v1/conversations")
    await gateway.create("Hi", conversation=conversation["id"])
    assert "the schema of tool f cannot be read: its calls are not checked" in gateway.notice


names = st.sampled_from("role content call_id name arguments output summary id input tools action encrypted_content".split())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names | st.just("type"), inner, max_size=2),
    max_leaves=4,
)
any_item = st.builds(
    lambda kind, rest: {**rest, **kind},
    st.fixed_dictionaries({}, optional={"type": st.sampled_from([*ITEM_TYPES, "mystery", "", 5, None])}),
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "king"]),
            "content": st.text(max_size=5) | values,
            "call_id": st.just("c") | values,
            "name": st.just("f") | values,
            "output": values,
            "id": st.sampled_from(["a", "b"]) | values,
            "tools": values,
            "summary": values,
        },
    ),
)


@given(st.lists(any_item, max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_whatever_was_accepted_once_can_be_continued(gateway: GatewayUnderTest, items: list[Any]) -> None:
    status, conversation = await gateway.post({"items": items}, "/v1/conversations")
    assert status in (200, 400)
    if status == 200:
        for _ in range(2):
            await gateway.create([QUESTION], conversation=conversation["id"])
    status, first = await gateway.post({"model": "mock", "input": [QUESTION, *items]})
    assert status in (200, 400)
    if status == 200:
        second = await gateway.create([QUESTION], previous_response_id=first["id"])
        await gateway.create([QUESTION], previous_response_id=second["id"])
