"""An error or a notice names what the client sent, not what it was read into."""

from typing import Any

import msgspec
import pytest

from antiphon.core.protocols.messages.protocol import MESSAGES
from antiphon.core.protocols.messages.read import body_to_request
from antiphon.core.protocols.responses.fields import DEFAULT_LIMITS, RequestLimits
from antiphon.errors import InvalidRequest

PNG = {"type": "image", "source": {"type": "file", "file_id": "file-1"}}
CALLED = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
ANSWERED = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "It:"}, PNG]}
LOOK = {"name": "look", "input_schema": {"type": "object"}}
LATER = {"name": "later", "input_schema": {"type": "object"}, "defer_loading": True}
BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 10,
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, CALLED]},
        {"role": "user", "content": [ANSWERED, {"type": "text", "text": ""}, PNG]},
        {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "later"}}]},
        {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": LOOK}}]},
    ],
    "tools": [LATER, {"type": "bash_20250124", "name": "bash"}, {"type": "mcp_toolset", "mcp_server_name": "s"}],
    "mcp_servers": [{"name": "other", "url": "https://o.example"}, {"name": "s", "url": "https://s.example"}],
}


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("input[0].content[0].text", "messages[0].content.text"),
        ("input[1].encrypted_content", "messages[1].content[0].signature"),
        ("input[2].arguments", "messages[1].content[1].input"),
        ("input[3].call_id", "messages[2].content[0].tool_use_id"),
        ("input[3].output[1].file_id", "messages[2].content[0].content[1].source.file_id"),
        ("input[4].content[0].file_id", "messages[2].content[2].source.file_id"),
        ("input[4]", "messages[2]"),
        # The gateway has added it.
        ("input[9].content", "messages"),
        ("tools[0].name", "tools[1].name"),
        ("tools[1].server_url", "mcp_servers[1].url"),
        ("tools[2].parameters.properties", "tools[0].input_schema.properties"),
        ("tools[3].parameters", "messages[4].content[0].tool.definition.input_schema"),
        ("tools[4].server_url", "mcp_servers[0].url"),
        ("tools[9].name", "tools[9].name"),
        ("max_output_tokens", "max_tokens"),
        ("instructions", "system"),
        ("text.format.schema", "output_config.format.schema"),
        ("reasoning.effort", "output_config.effort"),
        ("stop_sequences[0]", "stop_sequences[0]"),
    ],
)
def test_a_path_is_the_clients_own(path: str, named: str) -> None:
    facts = body_to_request(msgspec.json.encode(BODY), {}, DEFAULT_LIMITS).facts
    assert MESSAGES.in_own_words(f"Invalid `{path}`: no.", facts) == f"Invalid `{named}`: no."
    assert MESSAGES.in_own_words(f"{path}: it was left out", facts).startswith(named if "[" in path else path)


def test_words_that_are_no_path_stay() -> None:
    facts = body_to_request(msgspec.json.encode(BODY), {}, DEFAULT_LIMITS).facts
    words = "the input of tools has instructions[0] and max_output_tokens"
    assert MESSAGES.in_own_words(words, facts) == words


def test_what_is_refused_when_it_is_read_has_its_own_name_too() -> None:
    limits = RequestLimits(tools=2)
    with pytest.raises(InvalidRequest) as refused:
        body_to_request(msgspec.json.encode(BODY), {}, limits)
    assert refused.value.param == "tools"
    with pytest.raises(InvalidRequest) as refused:
        body_to_request(msgspec.json.encode({**BODY, "tools": []}), {}, RequestLimits(input_items=1))
    assert refused.value.param == "messages"


def test_an_error_may_name_no_field() -> None:
    answered = MESSAGES.error(InvalidRequest("The body must be a JSON object."))
    assert msgspec.json.decode(answered.body)["error"]["message"] == "The body must be a JSON object."
