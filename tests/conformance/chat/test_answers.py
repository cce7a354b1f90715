"""Every member of a completion and of its chunks, and every reason why one ends."""

from typing import Any

import msgspec
import pytest
from support.chat import USER
from support.completions import as_chunk, choices_of, chunks_of, finish_of, joined, logprobs_of, usage_of
from support.engine import DONE, MockEngine, answer, call, chunk, text
from support.gateway import GatewayUnderTest

PATH = "/v1/chat/completions"
both = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}},
    {"type": "custom", "custom": {"name": "run"}},
]


async def ask(gateway: GatewayUnderTest, streams: bool, **fields: Any) -> list[dict[str, Any]]:
    """The chunks of a stream, or the whole answer as the only one."""
    body = {"messages": [USER], "tools": TOOLS, **fields}
    if streams:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    async with gateway.client.post(gateway.url + PATH, json=body) as answered:
        assert answered.status == 200, await answered.text()
        raw = await answered.read()
    return chunks_of(raw) if streams else [as_chunk(raw)]


@both
async def test_a_text_has_all_that_the_engine_knows_of_it(gateway: GatewayUnderTest, engine: MockEngine, streams: bool) -> None:
    top = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "id": 7}
    said = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None, "token_ids": [7]}
    first = {"choices": [{**said, "logprobs": {"content": [{**top, "top_logprobs": [top]}]}}], "system_fingerprint": "b1"}
    cited = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2}}
    counts = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 1}}
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17, **counts}
    engine.will(
        b"".join(
            [
                chunk({"role": "assistant", "reasoning_content": "Hm."}),
                b"data: " + msgspec.json.encode(first) + b"\n\n",
                chunk({"annotations": [cited]}),
                chunk(finish="stop"),
                chunk(usage=usage, timings={"predicted_ms": 3.5}),
                DONE,
            ]
        )
    )
    fields = {"logprobs": True, "top_logprobs": 1, "service_tier": "auto", "metadata": {"a": "b"}}
    chunks = await ask(gateway, streams, **fields)
    message = joined(chunks)
    assert (message["role"], message["content"], message["reasoning_content"]) == ("assistant", "Hi", "Hm.")
    assert message["annotations"] == [cited]
    assert logprobs_of(chunks) == [{**top, "top_logprobs": [top]}]
    assert finish_of(chunks) == ["stop"]
    counted = usage_of(chunks)
    assert counted is not None
    assert (counted["prompt_tokens"], counted["completion_tokens"], counted["total_tokens"]) == (12, 5, 17)
    assert counted["prompt_tokens_details"] == {"cached_tokens": 8, "audio_tokens": 0}
    assert counted["completion_tokens_details"]["reasoning_tokens"] == 1
    assert {each["object"] for each in chunks} == {"chat.completion.chunk" if streams else "chat.completion"}
    assert {(each["id"][:9], each["model"], each["service_tier"]) for each in chunks} == {("chatcmpl-", "mock", "default")}
    assert chunks[-1]["system_fingerprint"] == "b1"
    assert [each["timings"] for each in chunks if "timings" in each] == [{"predicted_ms": 3.5}]
    assert [each["token_ids"] for each in choices_of(chunks) if "token_ids" in each] == [[7]]
    assert streams or chunks[0]["metadata"] == {"a": "b"}


@both
async def test_calls_have_their_names_and_inputs(gateway: GatewayUnderTest, engine: MockEngine, streams: bool) -> None:
    engine.will(answer(call("weather", '{"city": "Rome"}'), call("run", '{"input": "ls"}', id="call_2", index=1)))
    chunks = await ask(gateway, streams)
    assert joined(chunks)["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
        {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls"}},
    ]
    assert finish_of(chunks) == ["tool_calls"]


@both
async def test_a_refusal_is_one(gateway: GatewayUnderTest, engine: MockEngine, streams: bool) -> None:
    engine.will(answer(chunk({"refusal": "I "}), chunk({"refusal": "cannot."})))
    assert joined(await ask(gateway, streams))["refusal"] == "I cannot."


@both
@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_an_answer_that_was_cut_off_says_why(
    gateway: GatewayUnderTest, engine: MockEngine, reason: str, streams: bool
) -> None:
    engine.will(text("Hel", "lo", finish=reason))
    chunks = await ask(gateway, streams)
    assert (joined(chunks)["content"], finish_of(chunks)) == ("Hello", [reason])
