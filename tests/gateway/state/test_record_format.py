"""Records are read by every later version."""

from typing import Any

import msgspec
import pytest
from support.stores import record

from antiphon.gateway.state.record_format import encode_settings, record_to_response
from antiphon.wire.responses import Response

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
