"""Both ways beside each other, for every recorded answer: what is well formed is told alike, and what is not is made so.

`fault_of` has the rule; whatever is recorded is under it. Streamed and whole, with the engine's answer arriving frame by frame.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.chat import USER
from support.completions import (
    CALL_IN_TEXT,
    ERROR,
    OF_ANSWER,
    OF_CHOICE,
    THOUGHT_IN_TEXT,
    as_chunk,
    choices_of,
    chunks_of,
    deltas_of,
    fault_of,
    finish_of,
    joined,
    logprobs_of,
    own_members,
    usage_of,
)
from support.engine import Answer, Body, MockEngine, Refusal, Writer
from support.gateway import GatewayUnderTest, standing_before

PATH = "/v1/chat/completions"
STREAMS = Path(__file__).parents[2] / "golden" / "streams"
FAULTS = {path: fault_of(path.read_bytes()) for path in sorted(STREAMS.glob("*.sse"))}
KINDS = {"lc": "llamacpp", "vllm": "vllm"}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("get_weather", "get_time", "ping")]
# vLLM's name, and ours.
SAME = {"reasoning": "reasoning_content"}

Chunks = Sequence[dict[str, Any]]


def told(chunks: Chunks) -> dict[str, Any]:
    """What a client is told, without ids and times of the answer, and without what says nothing."""
    # The line breaks around a thought are the template's.
    message = {name: text.lstrip("\n") if isinstance(text, str) else text for name, text in joined(chunks).items()}
    return {
        "message": {SAME.get(name, name): value for name, value in message.items() if value not in ("", [])},
        "finish": finish_of(chunks),
        "model": {chunk["model"] for chunk in chunks},
        "logprobs": logprobs_of(chunks),
        "extras": (own_members(chunks, OF_ANSWER), own_members(choices_of(chunks), OF_CHOICE)),
    }


def without_ids(seen: dict[str, Any]) -> dict[str, Any]:
    """A call in a text has none, so that it is given one."""
    calls = [{**call, "id": ""} for call in seen["message"].get("tool_calls", [])]
    return {**seen, "message": {**seen["message"], "tool_calls": calls}}


def pieces_of(chunks: Chunks) -> list[str]:
    """The texts as they came, without the line breaks before the first."""
    pieces = [delta["content"] for delta in deltas_of(chunks) if delta.get("content")]
    return [*itertools.dropwhile(str.isspace, pieces)]


def counted(sent: Chunks) -> dict[str, Any] | None:
    """The engine's usage. Where it counts no tokens of a thought that it sends, they are estimated."""
    usage = usage_of(sent)
    if usage is None or usage.get("completion_tokens_details") != {"reasoning_tokens": 0}:
        return usage
    return {name: value for name, value in usage.items() if name != "completion_tokens_details"}


def has_all_of(value: Any, expected: Any) -> bool:
    """More members, such as details that are 0, do no harm."""
    if not isinstance(expected, dict):
        return expected is None or bool(value == expected)
    return all(name in value and has_all_of(value[name], each) for name, each in expected.items())


def says(engine: MockEngine, raw: bytes) -> None:
    """The engine answers so from now on, streamed and whole."""

    async def write_frames(write: Writer) -> None:
        for frame in raw.split(b"\n\n")[:-1]:
            await write(frame + b"\n\n")

    def answer(body: Body) -> Answer:
        if not raw.startswith(b"data: "):
            return Refusal(400, msgspec.json.decode(raw))
        return write_frames if body.get("stream") else raw

    engine.otherwise = answer
    # What was asked is not what the answer was recorded for.
    engine.objects_to = lambda body: None


def frames_of(answered: bytes) -> Chunks:
    """What is in the frames of a stream, or the only object of what is none."""
    frames = [frame.removeprefix(b"data: ") for frame in answered.split(b"\n\n") if frame]
    return [msgspec.json.decode(frame) for frame in frames if frame != b"[DONE]"]


async def ask(gateway: GatewayUnderTest, way: str, *, streams: bool, **fields: Any) -> tuple[int, bytes]:
    """`n` is nothing that can be done here."""
    only_passed = {"n": 2} if way == "pass" else {}
    streamed = {"stream": True, "stream_options": {"include_usage": True}} if streams else {}
    body = {"messages": [USER], **fields, **only_passed, **streamed}
    async with gateway.client.post(gateway.url + PATH, json=body) as answered:
        assert answered.headers["antiphon-way"] == way
        return answered.status, await answered.read()


def each(*faults: str | None) -> pytest.MarkDecorator:
    """Every recorded answer that has one of these faults, and the kind of engine that gave it."""
    paths = [path for path, fault in FAULTS.items() if fault in faults]
    cases = [(KINDS[path.stem.split("_")[0]], path.read_bytes()) for path in paths]
    return pytest.mark.parametrize(("kind", "raw"), cases, ids=[path.stem for path in paths])


def test_each_kind_of_answer_was_recorded() -> None:
    assert {*FAULTS.values()} == {None, THOUGHT_IN_TEXT, CALL_IN_TEXT, ERROR}
    assert [*FAULTS.values()].count(None) >= 30


@each(None)
async def test_what_is_well_formed_is_told_alike(kind: str, raw: bytes) -> None:
    sent = chunks_of(raw)
    expected = told(sent)
    (model,), tokens = expected["model"], expected["logprobs"]
    # Where there are tools, what looks like a call is not shown before it is known to be none.
    asked: Body = {"tools": TOOLS} if "tool_calls" in expected["message"] else {"tool_choice": "auto"}
    if tokens:
        asked |= {"logprobs": True, "top_logprobs": max(len(token["top_logprobs"]) for token in tokens)}
    async with standing_before(kind) as (gateway, engine):
        engine.lists(model)
        says(engine, raw)
        assert await ask(gateway, "pass", streams=True, model=model, **asked) == (200, raw)
        _, passed = await ask(gateway, "pass", streams=False, model=model, **asked)
        _, streamed = await ask(gateway, "reliable", streams=True, model=model, **asked)
        _, whole = await ask(gateway, "reliable", streams=False, model=model, **asked)
    chunks = chunks_of(streamed)
    assert pieces_of(chunks) == pieces_of(sent)
    assert told([as_chunk(passed)]) == expected
    for answered in (chunks, [as_chunk(whole)]):
        assert told(answered) == expected
        assert has_all_of(usage_of(answered), counted(sent))


@each(THOUGHT_IN_TEXT, CALL_IN_TEXT)
async def test_what_is_not_well_formed_is_made_so(kind: str, raw: bytes) -> None:
    async with standing_before(kind) as (gateway, engine):
        says(engine, raw)
        assert await ask(gateway, "pass", streams=True, tools=TOOLS) == (200, raw)
        _, streamed = await ask(gateway, "reliable", streams=True, tools=TOOLS)
        _, whole = await ask(gateway, "reliable", streams=False, tools=TOOLS)
    assert fault_of(streamed) is None
    assert without_ids(told([as_chunk(whole)])) == without_ids(told(chunks_of(streamed)))


@each(ERROR)
async def test_an_error_of_an_engine_becomes_one_of_openais(kind: str, raw: bytes) -> None:
    (expected,) = (frame for frame in frames_of(raw) if "error" in frame)
    async with standing_before(kind) as (gateway, engine):
        says(engine, raw)
        status, passed = await ask(gateway, "pass", streams=True, tools=TOOLS)
        assert frames_of(passed)[-1] == expected
        checked = [await ask(gateway, "reliable", streams=streams, tools=TOOLS) for streams in (True, False)]
    # Before the stream has begun, it is that of the engine.
    assert checked[0][0] == status
    for _, answered in checked:
        error = frames_of(answered)[-1]["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert expected["error"]["message"] in error["message"]
