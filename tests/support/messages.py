"""Streams of Anthropic Messages: their events, what always holds of them, and the message that they add up to."""

from typing import Any

import msgspec

from antiphon.partial_json import object_arguments

Body = dict[str, Any]

# The member of a block that deltas of a type add to, and the member of the delta that has it.
ADDED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def parse(stream: bytes) -> list[Body]:
    """The events, each named by its line `event:` as by its type."""
    events = []
    for frame in filter(None, stream.split(b"\n\n")):
        name, data = frame.split(b"\n")
        event = msgspec.json.decode(data.removeprefix(b"data: "))
        assert name == f"event: {event['type']}".encode()
        events.append(event)
    return events


def check_events(events: list[Body]) -> None:
    """One message; blocks follow one another, and count up; the end comes once, or an error in its place."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    assert kinds.count("message_start") == 1
    if kinds[-1] != "error":
        assert kinds[-2:] == ["message_delta", "message_stop"]
        assert kinds.count("message_delta") == 1
    opened: int | None = None
    count = 0
    for event in events:
        match event["type"]:
            case "content_block_start":
                assert (opened, event["index"]) == (None, count)
                opened, count = count, count + 1
            case "content_block_delta":
                assert event["index"] == opened
            case "content_block_stop":
                assert event["index"] == opened
                opened = None
    assert opened is None or kinds[-1] == "error"


def fold(events: list[Body]) -> Body:
    """The message, as an SDK puts it together."""
    message: Body = {}
    inputs: dict[int, str] = {}
    for event in events:
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                _add(message["content"][event["index"]], event["delta"], inputs, event["index"])
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    for index, text in inputs.items():
        message["content"][index]["input"] = msgspec.json.decode(object_arguments(text))
    return message


def _add(block: Body, delta: Body, inputs: dict[int, str], index: int) -> None:
    kind = delta["type"]
    if kind == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block.setdefault("citations", []).append(delta["citation"])
    else:
        block[ADDED[kind]] += delta[ADDED[kind]]
