"""Records are read by every later version."""

from typing import Any

import msgspec
import pytest
from support.stores import record

from antiphon.gateway.state.record_format import encode_items, encode_settings, record_to_response
from antiphon.gateway.state.recorder import ids_of_messages
from antiphon.store.records import item_ids
from antiphon.wire.responses import OutputMessage, OutputText, ReasoningItem, Response

SETTINGS = encode_settings(Response(id="r1", created_at=1, model="m"))

# Output items as earlier versions wrote them.
EARLIER: list[dict[str, Any]] = [
    {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
    },
    {"type": "reasoning", "id": "rs_1", "status": "completed", "summary": []},
    {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"},
    {"type": "apply_patch_call", "id": "apc_1", "call_id": "c2", "operation": {"type": "x"}, "status": "incomplete"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"},
]


@pytest.mark.parametrize("item", EARLIER, ids=lambda item: item["type"])
def test_an_item_of_an_earlier_version_is_read(item: dict[str, Any]) -> None:
    response = record_to_response(record("r1", output=msgspec.json.encode([item]), settings=SETTINGS))
    (read,) = msgspec.to_builtins(response.output)
    assert {name: read[name] for name in item if name != "content"} == {n: v for n, v in item.items() if n != "content"}


def test_members_that_came_later_have_their_defaults() -> None:
    response = record_to_response(record("r1", output=msgspec.json.encode(EARLIER), settings=SETTINGS))
    message, _, shell, *_ = msgspec.to_builtins(response.output)
    assert message["content"] == [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]
    assert shell["environment"] == {"type": "local"}


def test_messages_can_be_found_by_the_ids_that_are_in_their_json() -> None:
    messages = [OutputMessage(id=f"msg_{at}", status="completed", content=[OutputText(text="Hi")]) for at in range(2)]
    output = encode_items(messages)
    assert ids_of_messages(messages) == item_ids(output) == ["msg_0", "msg_1"]
    kept = record("r1", output=output, input_ids=("msg_in",), output_ids=ids_of_messages(messages))
    assert kept.item_ids == ["msg_in", "msg_0", "msg_1"]
    assert kept.item_ids == msgspec.structs.replace(kept, output_ids=None).item_ids
    # One without a text is not found, which is seen in its JSON.
    assert ids_of_messages([*messages, ReasoningItem(id="rs_1", status="completed")]) is None
