"""An error or a notice names what the client sent, not what it was read into."""

from typing import Any

import pytest
from support.chat import CALL, USER, WEATHER, read

from antiphon.core.protocols.chat.protocol import CHAT
from antiphon.errors import InvalidRequest

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
FILE = {"type": "file", "file": {"file_data": "no base64!", "filename": "a.pdf"}}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look:"}, IMAGE, FILE]},
    {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL, CUSTOM]},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Sunny"}]},
]
PATHS = {
    "input[0].content": "messages[0].content",
    "input[1].content[1].image_url": "messages[1].content[1].image_url.url",
    "input[1].content[2].file_data": "messages[1].content[2].file.file_data",
    "input[3]": "messages[2]",
    "input[4].arguments": "messages[2].tool_calls[0].function.arguments",
    "input[4].name": "messages[2].tool_calls[0].function.name",
    "input[5].input": "messages[2].tool_calls[1].custom.input",
    "input[6].output[0].text": "messages[3].content[0].text",
    "input[6].call_id": "messages[3].tool_call_id",
    # The gateway has added it.
    "input[9].content": "messages",
    "input": "messages",
    "max_output_tokens": "max_completion_tokens",
    "text.format.schema": "response_format.json_schema.schema",
    "text.format": "response_format",
    "text.format.schema.properties": "response_format.json_schema.schema.properties",
    "reasoning.effort": "reasoning_effort",
    "tools[0].function.name": "tools[0].function.name",
    "temperature": "temperature",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_the_clients_own(path: str) -> None:
    given = read(messages=MESSAGES, tools=[WEATHER])
    assert CHAT.in_own_words(path, given.facts) == PATHS[path]
    assert CHAT.in_own_words(f"Invalid `{path}`: no.", given.facts) == f"Invalid `{PATHS[path]}`: no."


def test_words_are_no_fields() -> None:
    said = "The input of max_output_tokens is text.format."
    assert CHAT.in_own_words(said, read(tools=[WEATHER]).facts) == said


def test_what_the_reader_itself_finds_is_named_so_too() -> None:
    long = {**CUSTOM, "custom": {"name": "n" * 1000, "input": ""}}
    with pytest.raises(InvalidRequest) as wrong:
        read(tools=[WEATHER], messages=[USER, {"role": "assistant", "tool_calls": [CALL, long]}, USER])
    assert wrong.value.param == "messages[1].tool_calls[1].custom.name"
    assert f"`{wrong.value.param}`" in wrong.value.message
