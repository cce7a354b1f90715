"""A thread is a conversation that a server keeps. This one keeps none, and says so."""

from typing import Any

import msgspec
import pytest

from antiphon.core.protocols.client_protocol import ReadRequest
from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS
from antiphon.errors import InvalidRequest, NotFound


def read(thread: dict[str, Any]) -> ReadRequest:
    body = {"model": "mock", "max_tokens": 16, "messages": [{"role": "user", "content": "Hi"}], "thread": thread}
    return MESSAGES.read(msgspec.json.encode(body), {}, DEFAULT_LIMITS)


def test_a_new_thread_is_answered_with_a_notice() -> None:
    answered = read({"type": "create"})
    assert answered.notices == ["thread: the conversation is not kept here"]
    assert answered.unknown == []


def test_a_thread_is_not_found() -> None:
    """By the code of the error, Anthropic's SDKs know that they have to send the whole conversation."""
    with pytest.raises(NotFound) as raised:
        read({"type": "continue", "previous_message_id": "msg_1"})
    status, body, _ = MESSAGES.error(raised.value)
    assert status == 404
    error = msgspec.json.decode(body)["error"]
    assert (error["type"], error["details"]) == ("not_found_error", {"error_code": "thread_not_found"})


def test_other_errors_have_no_details() -> None:
    error = msgspec.json.decode(MESSAGES.error(NotFound("There is no such path.")).body)["error"]
    assert error == {"type": "not_found_error", "message": "There is no such path."}


def test_a_thread_is_created_or_continued() -> None:
    with pytest.raises(InvalidRequest, match=r"`thread\.type`"):
        read({"type": "fork"})
