"""Input items, as clients send them."""

from typing import Any

Item = dict[str, Any]


def user(text: Any) -> Item:
    return {"role": "user", "content": text}


def developer(text: str) -> Item:
    return {"role": "developer", "content": text}


def assistant(text: str) -> Item:
    return {"role": "assistant", "content": text}


def function_call(call_id: str, name: str = "f", arguments: str = "{}") -> Item:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def call_output(call_id: str, value: Any = "ok") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": value}
