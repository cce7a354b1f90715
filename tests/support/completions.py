"""Chat completions for the tests: streams and their chunks, what a client makes of them, and whether they are well formed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from antiphon.core.stream.reasoning_tags import PAIRS
from antiphon.core.stream.text_calls.forms import FORMS

# What OpenAI's answers and chunks have, and engines write as OpenAI does. All else is an engine's own.
OF_ANSWER = {"id", "object", "created", "model", "choices", "usage", "service_tier"}
OF_CHOICE = {"index", "delta", "message", "finish_reason", "logprobs"}


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


def choices_of(chunks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["choices"][0] for chunk in chunks if chunk.get("choices")]


def deltas_of(chunks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for choice in choices_of(chunks)]


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
    found = [choice["finish_reason"] for choice in choices_of(chunks)]
    return [reason for reason in found if reason is not None]


def usage_of(chunks: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """What the last chunk with a usage says."""
    return next((chunk["usage"] for chunk in reversed([*chunks]) if chunk.get("usage")), None)


def logprobs_of(chunks: Iterable[dict[str, Any]]) -> list[Any]:
    found = [choice["logprobs"] for choice in choices_of(chunks) if choice.get("logprobs")]
    return [token for each in found for token in each["content"]]


def own_members(pieces: Iterable[Mapping[str, Any]], known: set[str]) -> dict[str, Any]:
    """The last value of each member that is the engine's own; of lists, such as tokens, all of them."""
    members: dict[str, Any] = {}
    for piece in pieces:
        for name, value in piece.items():
            if name not in known and value is not None:
                members[name] = [*members.get(name, ()), *value] if isinstance(value, list) else value
    return members


def as_chunk(whole: bytes) -> dict[str, Any]:
    """A whole answer as the only chunk of a stream."""
    completion = msgspec.json.decode(whole)
    (choice,) = completion["choices"]
    calls = [{"index": at, **call} for at, call in enumerate(choice["message"].get("tool_calls") or [])]
    return {**completion, "choices": [{**choice, "delta": {**choice["message"], "tool_calls": calls}}]}


def whole_of(stream: bytes) -> dict[str, Any]:
    """The answer that an engine would give to the same request without `stream`."""
    chunks = chunks_of(stream)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, **joined(chunks)},
        "logprobs": {"content": tokens} if (tokens := logprobs_of(chunks)) else None,
        "finish_reason": next(iter(finish_of(chunks)), None),
        **own_members(choices_of(chunks), OF_CHOICE),
    }
    named = {"id": chunks[0]["id"], "object": "chat.completion", "created": chunks[0]["created"], "model": chunks[0]["model"]}
    return {**named, "choices": [choice], "usage": usage_of(chunks), **own_members(chunks, OF_ANSWER)}


# ---- well formed -----------------------------------------------------------------------------------------------------

THOUGHT_IN_TEXT = "a thought in the text, or the end of one"
THOUGHT_TWICE = "a thought that the text repeats"
CALL_IN_TEXT = "a call in the text, or the end of one"
ERROR = "an error, and no answer"
ENDS_WRONG = "an end that is none of OpenAI's, or that its calls belie"
BROKEN_CALL = "a call without id or name, or whose arguments are no object although the answer was not cut off"
TAGS_OF_THOUGHTS = [tag for pair in PAIRS for tag in pair]
# Other marks of calls, such as a bracket, are in many texts.
TAGS_OF_CALLS = [mark for form in FORMS for mark in (*form.markers, *form.ends) if mark.startswith("<") and mark.endswith(">")]


def fault_of(stream: bytes) -> str | None:
    """What is wrong with an engine's answer; None: it is well formed, as a client of OpenAI's servers expects it."""
    if not stream.endswith(b"data: [DONE]\n\n") or b'data: {"error"' in stream:
        return ERROR
    chunks = chunks_of(stream)
    return next(_faults(joined(chunks), finish_of(chunks)), None)


def _faults(message: Mapping[str, Any], finish: list[str]) -> Iterator[str]:
    text, calls = message.get("content") or "", message.get("tool_calls", [])
    thought = (message.get("reasoning_content") or message.get("reasoning") or "").strip()
    if any(tag in text for tag in TAGS_OF_THOUGHTS):
        yield THOUGHT_IN_TEXT
    if thought and thought in text:
        yield THOUGHT_TWICE
    if any(tag in text for tag in TAGS_OF_CALLS):
        yield CALL_IN_TEXT
    if finish not in (["tool_calls"] if calls else ["stop"], ["length"], ["content_filter"]):
        yield ENDS_WRONG
    if any(_is_broken(call, was_cut=finish == ["length"]) for call in calls):
        yield BROKEN_CALL


def _is_broken(call: Mapping[str, Any], *, was_cut: bool) -> bool:
    if not call.get("id") or not call["function"].get("name"):
        return True
    try:
        return not isinstance(msgspec.json.decode(call["function"]["arguments"]), dict)
    except msgspec.DecodeError:
        return not was_cut
