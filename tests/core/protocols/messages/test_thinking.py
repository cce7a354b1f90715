"""How a request of Messages asks for thoughts."""

import msgspec
import pytest

from antiphon.core.protocols.messages.read import body_to_request
from antiphon.core.protocols.responses.fields import RequestLimits


@pytest.mark.parametrize("display", ["summarized", "omitted", "updates", None])
def test_however_thoughts_are_to_be_shown_the_request_is_taken(display: str | None) -> None:
    thinking = {"type": "adaptive", "display": display}
    messages = [{"role": "user", "content": "Hello"}]
    body = msgspec.json.encode({"model": "mock", "max_tokens": 10, "messages": messages, "thinking": thinking})
    reasoning = body_to_request(body, {}, RequestLimits()).request.reasoning
    assert reasoning is not None
    assert reasoning.effort == "medium"
