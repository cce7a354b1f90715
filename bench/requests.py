"""The requests of the load, in both protocols. The user's text says what the mock engine answers (native/engine.c)."""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Api = Literal["responses", "chat"]
Kind = Literal["text", "reasoning", "think", "calls"]
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
# A coding agent's history: turns of a question, a call and its result; 300 KB in all.
TURNS = 66
TOOLS = "shell", "update_plan", "view_image", "write_stdin", "exec_command"
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "array", "items": {"type": "string"}}, "workdir": {"type": "string"}},
    "required": ["command"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What one request asks for."""

    kind: Kind = "text"
    # Milliseconds between two deltas. 0: as fast as they are read.
    interval: int = 0
    deltas: int = 1
    stream: bool = True
    store: bool = True
    history: bool = False

    @property
    def text(self) -> str:
        return f"bench/{self.kind}/{self.interval}/{self.deltas}"


class Marks(NamedTuple):
    """What occurs once in each delta of a stream, and what in the end of an answer."""

    delta: str
    end: str


MARKS: dict[Api, Marks] = {"responses": Marks('.delta",', '"completed"'), "chat": Marks('data: {"id":', '"usage":')}
# Without `stream_options`, a chat stream may come without its usage.
STREAMED_CHAT = MARKS["chat"]._replace(end="[DONE]")


def marks(api: Api, asked: Asked) -> Marks:
    return STREAMED_CHAT if api == "chat" and asked.stream else MARKS[api]


def request(api: Api, asked: Asked) -> bytes:
    """As it is sent over a connection that stays open."""
    make = _responses if api == "responses" else _chat
    body = json.dumps({"model": "bench", "stream": asked.stream, **make(asked)}, separators=(",", ":"))
    path = "/v1/responses" if api == "responses" else "/v1/chat/completions"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def _responses(asked: Asked) -> dict[str, Any]:
    body: dict[str, Any] = {"store": asked.store, "input": asked.text}
    if asked.kind == "calls":
        body["tools"] = [{"type": "function", "name": "note", "parameters": NOTE, "strict": False}]
    if asked.history:
        tools = [{"type": "function", "name": name, "parameters": PARAMETERS, "strict": False} for name in TOOLS]
        body |= {"instructions": "You are an agent. " * 800, "tools": tools, "input": _items(asked)}
    return body


def _items(asked: Asked) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for number in range(TURNS):
        items += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _question(number)}]},
            {"type": "function_call", "name": "shell", "arguments": _arguments(number), "call_id": f"call_{number}"},
            {"type": "function_call_output", "call_id": f"call_{number}", "output": RESULT},
        ]
    return [*items, {"role": "user", "content": asked.text}]


def _chat(asked: Asked) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": asked.text}]}
    if asked.kind == "calls":
        body["tools"] = [{"type": "function", "function": {"name": "note", "parameters": NOTE}}]
    if asked.history:
        tools = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in TOOLS]
        body |= {"tools": tools, "messages": _messages(asked)}
    return body


def _messages(asked: Asked) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent. " * 800}]
    for number in range(TURNS):
        function = {"name": "shell", "arguments": _arguments(number)}
        messages += [
            {"role": "user", "content": _question(number)},
            {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": RESULT},
        ]
    return [*messages, {"role": "user", "content": asked.text}]


RESULT = "line of output\n" * 220


def _question(number: int) -> str:
    return f"step {number} " + "word " * 200


def _arguments(number: int) -> str:
    return json.dumps({"command": ["bash", "-lc", f"cat file{number}"]})
