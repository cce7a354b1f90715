"""`is_error`: an engine has no member for it, so the text of the result says that the call failed."""

from typing import Any

import msgspec
import pytest

from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS

IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
SHOWN = {"type": "input_image", "image_url": "https://example.com/a.png"}


def said(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text}


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({"content": "sunny"}, "sunny"),
        ({"content": "sunny", "is_error": False}, "sunny"),
        ({"content": "No such city.", "is_error": True}, "Error: No such city."),
        ({"content": "ValueError: no such city", "is_error": True}, "ValueError: no such city"),
        ({"content": [said("No such city."), said("Try another.")], "is_error": True}, "Error: No such city.\nTry another."),
        ({"content": [], "is_error": True}, "Error"),
        ({"is_error": True}, "Error"),
        ({}, ""),
        ({"content": [IMAGE], "is_error": True}, [said("Error", "input_text"), SHOWN]),
        ({"content": [said("An error:"), IMAGE], "is_error": True}, [said("An error:", "input_text"), SHOWN]),
        ({"content": [IMAGE]}, [SHOWN]),
    ],
)
def test_a_failed_call_says_so(result: dict[str, Any], output: Any) -> None:
    use = {"type": "tool_use", "id": "a", "name": "weather", "input": {}}
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", **result}]},
    ]
    body = msgspec.json.encode({"model": "mock", "max_tokens": 16, "messages": messages})
    given = MESSAGES.read(body, {}, DEFAULT_LIMITS).request.input
    assert isinstance(given, list)
    assert given[-1]["output"] == output
