"""Chat completions for the tests: streams and their chunks, and what a client makes of them."""

from collections.abc import Iterable
from typing import Any

import msgspec

# Of a chunk, what a whole answer has, too.
NAMED = ("id", "created", "model")


def chunks_of(stream: bytes) -> list[dict[str, Any]]:
    """Of a stream that ends as it should."""
    *frames, last, rest = stream.split(b"\n\n")
    assert (last, rest) == (b"data: [DONE]", b"")
    shown = [frame for frame in frames if not frame.startswith(b":")]
    assert all(frame.startswith(b"data: ") for frame in shown)
    return [msgspec.json.decode(frame.removeprefix(b"data: ")) for frame in shown]


def check_chunks(chunks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """What always holds of a stream: one completion, whose role comes first, and which ends once, after all else, or with an
    error, which is returned."""
    failed = chunks[-1].get("error")
    chunks = chunks[:-1] if failed else chunks
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) <= 1
    shown = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert ["role" in choice["delta"] for choice in shown] == [at == 0 for at in range(len(shown))]
    ends = [choice for choice in shown if choice["finish_reason"] is not None]
    assert ends == ([] if failed else shown[-1:])
    assert all(choice["delta"] == {} for choice in ends)
    assert all(chunk is chunks[-1] and chunk["choices"] == [] for chunk in chunks if chunk.get("usage"))
    return failed


def deltas_of(chunks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def joined(chunks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of the deltas: the message, with what has not come left out."""
    message: dict[str, Any] = {}
    for delta in deltas_of(chunks):
        for name, value in delta.items():
            if name == "tool_calls":
                _join_calls(message.setdefault("tool_calls", []), value)
            elif isinstance(value, list):
                message.setdefault(name, []).extend(value)
            elif value is not None:
                message[name] = message.get(name, "") + value
    return message


def _join_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        if piece["index"] == len(calls):
            calls.append(msgspec.json.decode(msgspec.json.encode({k: v for k, v in piece.items() if k != "index"})))
            continue
        call = calls[piece["index"]]
        kind, member = ("custom", "input") if "custom" in piece else ("function", "arguments")
        call[kind][member] = call[kind].get(member, "") + piece[kind][member]


def finish_of(chunks: Iterable[dict[str, Any]]) -> list[str]:
    found = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk.get("choices")]
    return [reason for reason in found if reason is not None]


def whole_of(stream: bytes) -> dict[str, Any]:
    """The answer that an engine would give to the same request without `stream`."""
    chunks = chunks_of(stream)
    message = {"role": "assistant", "content": None, **joined(chunks)}
    choice = {"index": 0, "message": message, "finish_reason": finish_of(chunks)[0]}
    members = {name: chunks[0][name] for name in NAMED}
    usage = next((chunk["usage"] for chunk in reversed(chunks) if chunk.get("usage")), None)
    return {**members, "object": "chat.completion", "choices": [choice], "usage": usage}
