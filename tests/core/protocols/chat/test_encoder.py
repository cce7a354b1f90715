"""Events as chunks: however the engine's answer arrives, they say the same, and what the whole answer says."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.chat import arrivals, read, run
from support.completions import chunks_of, deltas_of, fault_of, finish_of, joined
from support.engine import DONE, answer, call, chunk, text

from antiphon.core.events.lifecycle import Heartbeat
from antiphon.core.protocols.chat.places import Places
from antiphon.core.protocols.chat.protocol import CHAT
from antiphon.wire import events
from antiphon.wire.responses import CreateResponse, Response

STREAMS = Path(__file__).parents[3] / "golden" / "streams"
RECORDED = sorted(STREAMS.glob("*.sse"))
CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock"}


def pieces_of(raw: bytes, seed: int) -> Iterator[bytes]:
    chance, at = random.Random(seed), 0
    while at < len(raw):
        size = chance.choice((1, 2, 7, 40, 300, 5000))
        yield raw[at : at + size]
        at += size


def whole_to_message(whole: dict[str, Any]) -> dict[str, Any]:
    """Without what has no value."""
    (choice,) = whole["choices"]
    return {name: value for name, value in choice["message"].items() if value not in (None, [])}


def one_choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {**CHUNK, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}


def test_a_text_is_a_role_its_pieces_and_an_end() -> None:
    stream, whole = run([text("Hel", "lo")])
    assert chunks_of(stream) == [
        one_choice({"role": "assistant", "content": "", "refusal": None}),
        one_choice({"content": "Hel"}),
        one_choice({"content": "lo"}),
        one_choice({}, "stop"),
    ]
    assert whole == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "mock",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None, "annotations": []},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 5,
            "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
    }


def test_a_call_has_its_name_first_and_then_its_arguments() -> None:
    two = answer(call("get_weather", '{"city":"Paris"}'), call("get_weather", '{"city":"Rome"}', id="call_2", index=1))
    stream, whole = run([two])
    chunks = chunks_of(stream)
    deltas = deltas_of(chunks)
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    assert deltas[0] == {"role": "assistant", "content": None, "refusal": None}
    assert deltas[1] == {"tool_calls": [first]}
    assert deltas[2] == {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]}
    assert {piece["index"] for delta in deltas for piece in delta.get("tool_calls", [])} == {0, 1}
    assert finish_of(chunks) == ["tool_calls"]
    (choice,) = whole["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert joined(chunks) == whole_to_message(whole)


def test_a_custom_call_is_its_input() -> None:
    tools = [{"type": "custom", "custom": {"name": "run"}}]
    written = answer(call("run", '{"input": "ls -l"}'))
    request = read(tools=tools).request
    assert request.tools == [{"type": "custom", "name": "run"}]
    stream, whole = run([written], tools=tools)
    first = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "run", "input": ""}}
    assert deltas_of(chunks_of(stream))[1] == {"tool_calls": [first]}
    assert joined(chunks_of(stream)) == whole_to_message(whole)
    assert whole["choices"][0]["message"]["tool_calls"][0]["custom"] == {"name": "run", "input": "ls -l"}


def test_a_thought_is_split_off() -> None:
    stream, whole = run([text("<think>Hm", "m</think>", "Yes.")])
    assert joined(chunks_of(stream)) == {"role": "assistant", "content": "Yes.", "reasoning_content": "Hmm"}
    assert joined(chunks_of(stream)) == whole_to_message(whole)


def test_the_usage_comes_last_if_it_is_asked_for() -> None:
    stream, whole = run([text("Hi")], stream_options={"include_usage": True})
    *chunks, last = chunks_of(stream)
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)
    assert last == {**CHUNK, "choices": [], "usage": whole["usage"]}


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_that_was_cut_off_says_why(finish: str) -> None:
    stream, whole = run([text("Hi", finish=finish)])
    assert finish_of(chunks_of(stream)) == [whole["choices"][0]["finish_reason"]] == [finish]


def test_an_empty_answer_is_an_empty_text() -> None:
    stream, whole = run([text()])
    assert deltas_of(chunks_of(stream)) == [{"role": "assistant", "content": "", "refusal": None}, {}]
    assert whole["choices"][0]["message"]["content"] == ""


def test_a_refusal_is_no_content() -> None:
    stream, whole = run([answer(chunk({"refusal": "I "}), chunk({"refusal": "cannot."}))])
    message = whole["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, "I cannot.")
    assert joined(chunks_of(stream))["refusal"] == "I cannot."


def test_citations_are_those_of_this_api() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 2}}
    stream, whole = run([answer(chunk({"content": "Hi"}), chunk({"annotations": [cited]}))])
    assert whole["choices"][0]["message"]["annotations"] == joined(chunks_of(stream))["annotations"]
    assert joined(chunks_of(stream))["annotations"][0]["url_citation"] == cited["url_citation"]


def test_probabilities_come_with_their_tokens() -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
    piece = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None, "logprobs": {"content": [token]}}
    raw = b"data: " + msgspec.json.encode({**CHUNK, "choices": [piece]}) + b"\n\n" + chunk(finish="stop") + DONE
    stream, whole = run([raw], logprobs=True)
    shown = [chunk["choices"][0]["logprobs"] for chunk in chunks_of(stream)]
    assert shown == [None, {"content": [token], "refusal": None}, None]
    assert whole["choices"][0]["logprobs"] == {"content": [token], "refusal": None}


def test_the_tier_is_named_to_those_who_ask() -> None:
    stream, whole = run([text("Hi")], service_tier="auto", stream_options={"include_usage": True})
    assert {chunk["service_tier"] for chunk in chunks_of(stream)} == {whole["service_tier"]} == {"default"}


def test_metadata_come_back_with_the_whole_answer() -> None:
    assert run([text("Hi")], metadata={"a": "b"})[1]["metadata"] == {"a": "b"}


def test_what_fails_in_the_middle_is_an_error_object() -> None:
    broken = chunk({"content": "half"}) + b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    *_, last = chunks_of(run([broken])[0])
    assert last["error"].keys() == {"message", "type", "param", "code"}
    assert (last["error"]["type"], last["error"]["param"]) == ("server_error", None)


def own_chunk(text: str, choice: dict[str, Any], **members: Any) -> bytes:
    """A chunk with members of the engine's own."""
    made = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **choice}], **members}
    return b"data: " + msgspec.json.encode(made) + b"\n\n"


def test_what_only_the_engine_has_comes_with_the_chunk_that_it_was_in() -> None:
    pieces = [
        own_chunk("ha", {"token_ids": [5]}, prompt_token_ids=[1, 2], system_fingerprint="b1"),
        # The same token again, so that the chunk is the same to the last byte.
        own_chunk("ha", {"token_ids": [5]}, system_fingerprint="b1"),
        own_chunk("!", {"token_ids": [6], "stop_reason": None}, system_fingerprint="b1"),
        own_chunk("", {"finish_reason": "stop", "stop_reason": "END"}),
        b'data: {"choices": [], "timings": {"predicted_ms": 3.5}}\n\n',
        DONE,
    ]
    stream, whole = run(pieces)
    chunks = chunks_of(stream)
    assert [chunk["system_fingerprint"] for chunk in chunks] == ["b1"] * len(chunks)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [each["token_ids"] for each in choices if "token_ids" in each] == [[5], [5], [6]]
    assert chunks[0]["prompt_token_ids"] == [1, 2]
    assert [each["stop_reason"] for each in choices if "stop_reason" in each] == ["END"]
    assert [chunk["timings"] for chunk in chunks if "timings" in chunk] == [{"predicted_ms": 3.5}]
    (choice,) = whole["choices"]
    assert (choice["token_ids"], choice["stop_reason"]) == ([5, 5, 6], "END")
    assert (whole["prompt_token_ids"], whole["timings"], whole["system_fingerprint"]) == ([1, 2], {"predicted_ms": 3.5}, "b1")
    assert choice["message"]["content"] == "haha!"


def test_what_comes_alone_is_passed_on_at_once() -> None:
    progress = [b'data: {"choices": [], "prompt_progress": {"processed": %d}}\n\n' % count for count in (1, 2)]
    stream, _ = run([*progress, text("Hello")], return_progress=True)
    first, second, *others = chunks_of(stream)
    assert (first["choices"][0]["delta"]["role"], first["prompt_progress"]) == ("assistant", {"processed": 1})
    assert (second["choices"][0]["delta"], second["prompt_progress"]) == ({}, {"processed": 2})
    assert not any("prompt_progress" in chunk for chunk in others)


def test_reports_of_reading_that_only_the_gateway_asked_for_are_not_passed_on() -> None:
    stream, whole = run([b'data: {"choices": [], "prompt_progress": {"total": 2, "processed": 1}}\n\n', text("Hello")])
    assert b"prompt_progress" not in stream
    assert "prompt_progress" not in whole


def test_what_only_the_engine_has_is_not_lost_while_a_call_is_read() -> None:
    written = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
    pieces = [own_chunk(piece, {"token_ids": [ord(piece)]}) for piece in written]
    stream, whole = run([*pieces, chunk(finish="stop"), DONE])
    found = [chunk["choices"][0].get("token_ids", []) for chunk in chunks_of(stream)]
    assert [each for ids in found for each in ids] == [*map(ord, written)] == whole["choices"][0]["token_ids"]
    assert whole["choices"][0]["message"]["tool_calls"]


WELL_FORMED = [path for path in RECORDED if fault_of(path.read_bytes()) is None]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("get_weather", "get_time", "ping")]


def saying(frames: Iterable[tuple[int, bytes]]) -> list[int]:
    """The numbers of the frames that say something: a piece of a text, of a thought or of a call, each number once."""
    found: dict[int, None] = {}
    has_begun = False
    for at, raw in frames:
        for delta in deltas_of(chunks_of(raw + DONE)):
            # The line breaks before a text are the template's.
            text = delta.get("content") or ""
            has_begun = has_begun or (not text.isspace() and bool(text))
            thought = delta.get("reasoning_content") or delta.get("reasoning")
            if thought or delta.get("tool_calls") or (text and has_begun):
                found[at] = None
    return [*found]


@pytest.mark.parametrize("path", WELL_FORMED, ids=[path.stem for path in WELL_FORMED])
def test_every_piece_of_a_well_formed_answer_comes_with_the_frame_that_had_it(path: Path) -> None:
    frames = [frame + b"\n\n" for frame in path.read_bytes().removesuffix(DONE).split(b"\n\n")[:-1]]
    asked: dict[str, Any] = {"tools": TOOLS} if b'"tool_calls":' in path.read_bytes() else {"tool_choice": "auto"}
    assert saying(arrivals([*frames, DONE], **asked)) == saying(enumerate(frames))


def test_a_sign_of_life_is_a_comment() -> None:
    encoder = CHAT.encoder(CreateResponse(), Places())
    response = Response(id="resp_1", created_at=1, model="m")
    assert encoder.encode(Heartbeat(response=response)) == b""
    assert encoder.encode(events.ResponseInProgress(response=response)) == b""
    assert encoder.heartbeat().startswith(b":")


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_a_recorded_answer_says_the_same_however_it_arrives_and_as_a_whole(path: Path) -> None:
    raw = path.read_bytes()
    options: dict[str, Any] = {"stream_options": {"include_usage": True}, "logprobs": "logprobs" in path.stem}
    stream, whole = run([raw], **options)
    chunks = chunks_of(stream)
    ways: Iterable[Iterable[bytes]] = [
        [raw[at : at + 1] for at in range(len(raw))],
        *(pieces_of(raw, seed) for seed in range(3)),
    ]
    for pieces in ways:
        assert run(pieces, **options)[0] == stream
    if "error" in chunks[-1]:
        return
    said, expected = joined(chunks), whole_to_message(whole)
    assert {name: value for name, value in said.items() if value != ""} == {n: v for n, v in expected.items() if v != ""}
    assert finish_of(chunks) == [whole["choices"][0]["finish_reason"]]
    assert chunks[-1]["usage"] == whole["usage"]
    assert (whole["choices"][0]["logprobs"] is not None) == options["logprobs"]
