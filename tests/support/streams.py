"""A strict reader of Responses streams, and the invariants of every stream."""

from typing import Any

import msgspec
from conformance.members import is_known_order
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

SDK_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}

BEGINNING = ["response.created", "response.queued", "response.in_progress"]

# All keys of the Open Responses document's ResponseResource, and those of them that are never null.
RESPONSE_KEYS = set(
    "id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools "
    "tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature "
    "reasoning usage max_output_tokens max_tool_calls store background service_tier metadata "
    "safety_identifier prompt_cache_key".split()
)
NEVER_NULL = set(
    "temperature top_p presence_penalty frequency_penalty top_logprobs service_tier truncation text store background".split()
)

# Calls whose arguments are streamed: the member of the item, and its events.
STREAMED = {
    "function_call": ("arguments", "response.function_call_arguments"),
    "custom_tool_call": ("input", "response.custom_tool_call_input"),
    "mcp_call": ("arguments", "response.mcp_call_arguments"),
    "code_interpreter_call": ("code", "response.code_interpreter_call_code"),
}
# Items that are whole when they are added.
WHOLE = {"mcp_approval_request"}

# Calls of tools that the gateway runs.
RUN_HERE = {"mcp_call", "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"}

Event = dict[str, Any]


def parse(raw: bytes, *, done: bool = True) -> list[Event]:
    """The events of a stream; fails where a frame is not exactly what we promise to send."""
    frames = raw.decode().split("\n\n")
    assert frames.pop() == "", "the stream ends with a blank line"
    if done:
        assert frames.pop() == "data: [DONE]"
    events = []
    for frame in frames:
        head, data = frame.split("\n")
        event = msgspec.json.decode(data.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        events.append(event)
    return events


def check_response(response: dict[str, Any]) -> None:
    assert response.keys() >= RESPONSE_KEYS, RESPONSE_KEYS - response.keys()
    assert all(response[key] is not None for key in NEVER_NULL)
    assert isinstance(response["created_at"], int)
    assert response["reasoning"].keys() == {"effort", "summary"}
    for tool in response["tools"]:
        if tool["type"] == "function":
            assert tool.keys() >= {"name", "description", "parameters", "strict"}
    usage = response["usage"]
    if usage is not None:
        assert usage["input_tokens_details"].keys() == {"cached_tokens", "cache_write_tokens"}
        assert usage["output_tokens_details"].keys() == {"reasoning_tokens"}
        assert all(isinstance(usage[key], int) for key in ("input_tokens", "output_tokens", "total_tokens"))


def check_stream(events: list[Event], *, for_sdk: bool = True) -> dict[str, Any]:
    """Checks every invariant of a Responses stream, and returns the final response."""
    beginning = BEGINNING if events[0]["response"]["background"] else [BEGINNING[0], BEGINNING[2]]
    assert [event["type"] for event in events[: len(beginning)]] == beginning
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    terminal = [event["type"] for event in events if event["type"] in TERMINAL]
    assert len(terminal) == 1, terminal
    assert events[-1]["type"] == terminal[0]
    done_items: list[dict[str, Any]] = []
    watch: ItemWatch | None = None
    for event in events:
        if for_sdk:
            _sdk_knows(event)
        if "response" in event:
            check_response(event["response"])
        elif event["type"] == "response.output_item.added":
            assert watch is None, "items never interleave"
            assert event["output_index"] == len(done_items)
            watch = ItemWatch(event)
        elif event["type"] == "response.output_item.done":
            assert watch is not None
            watch.finish(event)
            done_items.append(event["item"])
            watch = None
        else:
            assert watch is not None, f"{event['type']} outside of an item"
            watch.see(event)
    assert watch is None, "every item that was added is done"
    response: dict[str, Any] = events[-1]["response"]
    assert response["output"] == done_items
    # The API has no event of its own for a response that was cancelled.
    assert events[-1]["type"] == f"response.{response['status'].replace('cancelled', 'incomplete')}"
    allowed = {"completed"} if response["status"] == "completed" else {"completed", "incomplete"}
    for item in done_items:
        # The API has no other status for a patch that was cut off.
        unfinished = {"in_progress"} if item["type"] == "apply_patch_call" and "incomplete" in allowed else set()
        # A tool that fails does not fail the response.
        failed = {"failed"} if item["type"] in RUN_HERE else set()
        assert item.get("status", "completed") in allowed | unfinished | failed
    assert response["output_text"] == "".join(
        part["text"] for item in done_items if item["type"] == "message" for part in item["content"] if "text" in part
    )
    return response


class ItemWatch:
    """One item between added and done."""

    def __init__(self, added: Event) -> None:
        self.item = added["item"]
        self.index = added["output_index"]
        assert self.item.get("status", "in_progress") == "in_progress"
        assert not self.item.get("content")
        assert not self.item.get("arguments") or self.item["type"] in WHOLE
        self.deltas: dict[str, list[str]] = {}
        self.open_part: str | None = None
        self.finished: set[str] = set()
        self.parts: list[dict[str, Any]] = []
        self.printed: dict[str, str] = {}
        self.kinds: list[str] = []

    def see(self, event: Event) -> None:
        kind = event["type"]
        self.kinds.append(kind.removeprefix("response.").replace("reasoning.", "reasoning_text."))
        assert event.get("item_id", self.item["id"]) == self.item["id"]
        assert event["output_index"] == self.index
        at = next((event[name] for name in ("content_index", "summary_index", "command_index") if name in event), 0)
        key = f"{kind.rsplit('.', 1)[0]}/{at}"
        if kind == "response.content_part.added":
            assert event["content_index"] == len(self.parts)
            assert self.open_part is None
            self.open_part = key
        elif kind == "response.content_part.done":
            assert self.open_part == key
            self.open_part = None
            self.parts.append(event["part"])
        elif kind.startswith("response.shell_call_output_content."):
            self._see_output(event)
        elif kind.endswith(".delta"):
            assert event["delta"] != "", "no empty deltas"
            assert key not in self.finished
            self.deltas.setdefault(key, []).append(event["delta"])
        elif kind.endswith(".done") and "part" not in event:
            assert key not in self.finished
            self.finished.add(key)
            whole = next(event[name] for name in ("text", "arguments", "refusal", "input", "command", "code") if name in event)
            assert "".join(self.deltas.get(key, [])) == whole

    def _see_output(self, event: Event) -> None:
        """What a command printed comes in one piece."""
        if "delta" in event:
            self.printed = event["delta"]
            return
        (output,) = event["output"]
        assert {name: output[name] for name in ("stdout", "stderr") if output[name]} == self.printed
        self.printed = {}
        self.parts.append(output)

    def finish(self, done: Event) -> None:
        item = done["item"]
        assert done["output_index"] == self.index
        assert item["id"] == self.item["id"]
        assert item["type"] == self.item["type"]
        assert self.open_part is None
        assert set(self.deltas) <= self.finished, "what was streamed is done"
        if item.get("status", "completed") == "completed" and not item.get("error"):
            assert is_known_order(item["type"], self.kinds), f"OpenAI sends other events: {self.kinds}"
        assert item.get("call_id") == self.item.get("call_id")
        if (streamed := STREAMED.get(item["type"])) is not None:
            member, kind = streamed
            assert item[member] == "".join(self.deltas.get(f"{kind}/0", []))
        elif "content" in item:
            assert item["content"] == self.parts
        elif item["type"] == "shell_call_output":
            assert item["output"] == self.parts


def _sdk_knows(event: Event) -> None:
    # Codex needs context_length_exceeded, which the SDK's closed list of codes does not have.
    if event["type"] == "response.failed" and event["response"]["error"]["code"] == "context_length_exceeded":
        event = msgspec.json.decode(msgspec.json.encode(event))
        event["response"]["error"]["code"] = "server_error"
    if not event["type"].startswith("response.reasoning.") and event["type"] not in {"response.reasoning.delta"}:
        SDK_EVENT.validate_python(event)
    if "response" in event:
        SdkResponse.model_validate(event["response"])
