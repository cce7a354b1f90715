"""Requests of Anthropic Messages; and streams: their events, what always holds of them, and the message that they add up to."""

from typing import Any

import msgspec

from antiphon.partial_json import object_arguments
from support.gateway import GatewayUnderTest

Body = dict[str, Any]

VERSION = {"anthropic-version": "2023-06-01"}
PATH = "/v1/messages"
HI: list[Body] = [{"role": "user", "content": "Hi"}]


def body(messages: Any = HI, **members: Any) -> Body:
    return {"model": "mock", "max_tokens": 100, "messages": messages, **members}


async def create(gateway: GatewayUnderTest, messages: Any = HI, **members: Any) -> Body:
    status, message = await gateway.post(body(messages, **members), PATH, headers=VERSION)
    assert status == 200, message
    return message


async def refused(gateway: GatewayUnderTest, messages: Any = HI, path: str = PATH, **members: Any) -> str:
    """The words of an error."""
    status, answer = await gateway.post(body(messages, **members), path, headers=VERSION)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    words: str = answer["error"]["message"]
    return words


async def stream(gateway: GatewayUnderTest, messages: Any = HI, **members: Any) -> list[Body]:
    data = msgspec.json.encode(body(messages, stream=True, **members))
    async with gateway.client.post(f"{gateway.url}{PATH}?beta=true", data=data, headers=VERSION) as answered:
        assert (answered.status, answered.content_type) == (200, "text/event-stream")
        assert answered.headers["request-id"] == answered.headers["x-request-id"]
        gateway.notice = answered.headers.get("antiphon-notice", "")
        events = parse(await answered.read())
    check_events(events)
    return events


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
                message |= {name: event[name] for name in ("context_management",) if name in event}
    for index, text in inputs.items():
        message["content"][index]["input"] = msgspec.json.decode(object_arguments(text))
    return message


def _add(block: Body, delta: Body, inputs: dict[int, str], index: int) -> None:
    kind = delta["type"]
    if kind == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block.setdefault("citations", []).append(delta["citation"])
    elif kind == "compaction_delta":
        block |= {name: delta[name] for name in ("content", "encrypted_content")}
    else:
        block[ADDED[kind]] += delta[ADDED[kind]]
