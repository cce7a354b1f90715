"""A recording is run again: the same events, each with its chunk; from memory and from a file."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.engine import answer, call, chunk, text
from support.exchanges import ScriptedAnswer, make_environment
from support.recorded import record
from support.sync_runs import to_stream
from support.toy_tool import DICE, Dice, KnownDice

from antiphon.core.events.plain_deltas import expand
from antiphon.core.exchange.environment import KnownDefinitions
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.knowledge.dialects import BY_NAME, PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.recording.file import NotARecording, file_to_recording, is_recording, recording_to_file
from antiphon.core.recording.recording import Recording
from antiphon.core.recording.rerun import run_again
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import Cancelled, ContextLengthExceeded, EngineFailure, EngineUnavailable
from antiphon.sealing import Sealer
from antiphon.wire.events import OutputTextDelta
from antiphon.wire.responses import CreateResponse

RECORDED = sorted((Path(__file__).parents[2] / "golden" / "streams").glob("*.sse"))
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
STRUCTURED = {"text": {"format": {"type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}}}
SEALS = Sealer(lambda text: f"sealed {random.random()} {text}", lambda blob: blob.rpartition(" ")[2])
LONG: list[dict[str, Any]] = [{"role": "user", "content": "tea " * 2000}, {"role": "user", "content": "b"}]
TOO_LONG = ContextLengthExceeded("Too long.", failure=EngineFailure(400, "x", "maximum context length is 10 tokens"))


def in_pieces(data: bytes) -> Sequence[bytes]:
    return [data[at : at + 33] for at in range(0, len(data), 33)]


def runs_again(recording: Recording) -> bytes:
    rerun = run_again(recording)
    assert rerun.trouble is None
    return to_stream(rerun.events)


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_every_recorded_stream_gives_its_events_again(path: Path) -> None:
    recording, events = record(
        {"tools": [{"type": "function", "name": "f"}]}, path.read_bytes(), text("Again."), split=in_pieces
    )
    expected = to_stream(events)
    assert runs_again(recording) == expected
    assert runs_again(file_to_recording(recording_to_file(recording, "1"))) == expected


CASES: dict[str, tuple[dict[str, Any], list[ScriptedAnswer], dict[str, Any]]] = {
    "a repair": (STRUCTURED, [text('{"a": "x"}'), text('{"a": 1}')], {}),
    "an engine that refuses, and is asked again": (
        {"input": LONG, "truncation": "auto"},
        [TOO_LONG, text("Yes")],
        {},
    ),
    "an engine that fails": ({}, [EngineUnavailable("away")], {}),
    "an engine that breaks off": ({}, [chunk({"content": "Hel"})], {}),
    "sealed thoughts": (
        {
            "input": [
                {"type": "reasoning", "summary": [], "encrypted_content": "sealed thought"},
                {"role": "user", "content": "?"},
            ]
        },
        [answer(chunk({"reasoning_content": "Hm"}), chunk({"content": "Yes"}))],
        {"sealer": SEALS},
    ),
    "padded deltas": (
        {"stream_options": {"include_obfuscation": True}},
        [text("Hel", "lo")],
        {"padding": lambda: "abcdefghijklmnop"},
    ),
    "a compaction first": (
        {"input": LONG, "context_management": [{"type": "compaction", "compact_threshold": 1000}]},
        [text("They said a."), text("Yes")],
        {"sealer": SEALS},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_whatever_happened_happens_again(name: str) -> None:
    request, answers, options = CASES[name]
    recording, events = record(request, *answers, **options)
    expected = to_stream(events)
    assert runs_again(recording) == expected
    assert runs_again(file_to_recording(recording_to_file(recording, "1"))) == expected
    assert len(run_again(recording).asks) == len(answers)


@pytest.mark.parametrize("is_shown", [True, False, None], ids=["shown", "hidden", "not known in time"])
def test_what_a_probe_has_shown_meanwhile_counts_again(is_shown: bool | None) -> None:
    """Also for the exchange that compacts the history, which knows it then."""
    engine = EngineKnowledge(PLAIN, name="http://engine")
    engine.assume(["m"])
    probed = engine.assumes

    def ends(model: str) -> bool:
        """The probe ends when the exchange has seen that there is one."""
        is_assumed = probed(model)
        if is_assumed and is_shown is not None:
            engine.learn("m", {"shows_tools": is_shown})
        return is_assumed

    engine.assumes = ends  # type: ignore[method-assign]
    compacts = {"input": LONG, "context_management": [{"type": "compaction", "compact_threshold": 1000}]}
    request = {"tools": [{"type": "function", "name": "f"}], **compacts}
    recording, events = record(request, text("They said a."), text("Yes"), engines=[engine], sealer=SEALS)
    expected = to_stream(events)
    for again in (recording, file_to_recording(recording_to_file(recording, "1"))):
        assert runs_again(again) == expected
        rerun = run_again(again)
        assert [bool(ask.chat.tools) for ask in rerun.asks] == [False, is_shown is True]
        assert "probed" in [moment.result[0] for moment in rerun.moments if moment.kind == "wait"]


def test_each_event_comes_from_the_chunk_that_brought_it() -> None:
    recording, _ = record({}, text("Hel", "lo"), split=in_pieces)
    rerun = run_again(recording)
    deltas = {moment.event.delta: moment.chunk for moment in rerun.moments if isinstance(moment.event, OutputTextDelta)}
    assert list(deltas) == ["Hel", "lo"]
    for delta, at in deltas.items():
        assert at is not None
        assert f'"{delta}"'.encode() in rerun.chunks[at].data
    assert all(each.data.startswith(b"data:") and each.data.endswith(b"\n\n") for each in rerun.chunks)


def test_an_answer_that_is_no_stream_is_one_chunk() -> None:
    message = {"role": "assistant", "content": "Hello"}
    body = msgspec.json.encode({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    rerun = run_again(record({}, body, split=in_pieces)[0])
    assert [each.data for each in rerun.chunks] == [body]


def test_tools_that_the_gateway_ran_are_not_run_again() -> None:
    ran: list[str] = []

    def run(call: ToolCall) -> ToolResult:
        ran.append(call.id)
        return ToolResult("6")

    rolls = answer(call("roll", '{"sides": 6}', id="a"), finish="tool_calls")
    recording, events = record({"tools": [DICE]}, rolls, text("Six."), run_tool=run, tools={"dice": Dice()})
    assert runs_again(recording) == to_stream(events)
    assert ran == ["a"]
    assert [ask.purpose for ask in run_again(recording).asks] == ["answer", "tools"]


LOOPS = {
    "two rounds": [
        answer(call("roll", '{"sides": 6}', id="a"), call("roll", '{"sides": "8"}', id="b", index=1), finish="tool_calls"),
        answer(call("toss", "{}", id="c"), finish="tool_calls"),
        text("Fourteen."),
    ],
    "a loop": [*[answer(call("roll", '{"sides": 6}', id=f"c{n}"), finish="tool_calls") for n in range(3)], text("Six.")],
    "a call of the client beside it": [answer(call("roll", '{"sides": 6}', id="a"), call("f", "{}", id="b", index=1))],
}


@pytest.mark.parametrize("answers", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("result", [ToolResult("6"), ToolResult("x" * 200_000, notice="long"), ToolResult("No.", failed=True)])
def test_loops_run_again_from_memory_and_from_a_file(answers: list[bytes], result: ToolResult) -> None:
    tools = {"dice": KnownDice()}
    request = {"tools": [DICE, {"type": "function", "name": "f"}], "max_tool_calls": 2}
    recording, events = record(request, *answers, run_tool=lambda call: result, tools=tools, split=in_pieces)
    expected = to_stream(events)
    assert runs_again(recording) == expected
    assert runs_again(file_to_recording(recording_to_file(recording, "1"), tools)) == expected
    assert len(run_again(recording).asks) == len(answers)


@pytest.mark.parametrize(
    ("request_fields", "answers", "purposes"),
    [
        (STRUCTURED, [text('{"a": "x"}'), text('{"a": 1}')], ["answer", "repair"]),
        ({"input": LONG, "truncation": "auto"}, [TOO_LONG, text("Yes")], ["answer", "second ask, with a shorter history"]),
    ],
)
def test_each_chat_request_says_what_it_is_for(
    request_fields: dict[str, Any], answers: list[ScriptedAnswer], purposes: list[str]
) -> None:
    assert [ask.purpose for ask in run_again(record(request_fields, *answers)[0]).asks] == purposes


def test_what_others_had_found_out_before_is_still_known() -> None:
    """A schema that was compiled for an earlier request is not compiled for this one."""
    definitions = KnownDefinitions()
    first, _ = record(STRUCTURED, text('{"a": 1}'), definitions=definitions)
    second, events = record(STRUCTURED, text('{"a": 1}'), definitions=definitions)
    checks = [sum(name == "checked" for _, name, _, _ in recording.calls) for recording in (first, second)]
    assert checks[0] > checks[1]
    assert runs_again(second) == to_stream(events)


def test_what_is_learned_later_changes_nothing() -> None:
    """The knowledge is that of the moment when the exchange began."""
    knowledge = EngineKnowledge(PLAIN, [Model("m", 0, "x")], "http://engine")
    history = [{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}]
    items = [
        {"role": "user", "content": "a"},
        *history,
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    recording, events = record({"input": items}, text("Yes"), engines=[knowledge])
    before = run_again(recording).asks[0].chat
    knowledge.learn("m", {"reasoning_member": "reasoning_content"})
    assert run_again(recording).asks[0].chat == before
    assert runs_again(recording) == to_stream(events)


def test_a_response_that_still_runs_is_shown_up_to_now() -> None:
    recording, events = record({}, text("Hel", "lo"))
    recording.calls = [each for each in recording.calls if each[1] not in ("finish", "end")]
    rerun = run_again(recording)
    assert (rerun.trouble, rerun.ended) == (None, False)
    shown = [msgspec.to_builtins(event) for event in rerun.events]
    assert shown == [msgspec.to_builtins(expand(event)) for event in events][: len(shown)]


def test_a_cancelled_compaction_is_cancelled_once() -> None:
    request = {"input": LONG, "context_management": [{"type": "compaction", "compact_threshold": 1000}]}
    body = msgspec.json.encode({"model": "m", "stream": True, **request})
    environment = make_environment(sealer=SEALS)
    recording = Recording(body, lambda: 0.0, environment=environment)
    converted = msgspec.json.decode(body, type=CreateResponse)
    knowledge = [EngineKnowledge(PLAIN)]
    exchange = recording.make_exchange(converted, knowledge, environment, history=[])
    exchange.start()
    exchange.counted(5000)
    assert exchange.compaction is not None
    exchange.compaction.start()
    exchange.abort(Cancelled())
    assert [name for _, name, _, _ in recording.calls] == ["start", "counted", "compaction.start", "abort"]
    assert run_again(recording).trouble is None


def test_images_are_not_kept() -> None:
    image = "data:image/png;base64," + "iVBORw0KGgo" * 1000
    parts = [{"type": "input_image", "image_url": image}, {"type": "input_text", "text": "What is it?"}]
    recording, events = record({"input": [{"role": "user", "content": parts}]}, text("A dot."), dialect=BY_NAME["vllm"])
    assert len(recording.body) < 500
    assert b"not/kept/11000/characters" in recording.body
    assert runs_again(recording) == to_stream(events)


def test_a_recording_that_was_cut_says_so() -> None:
    recording, _ = record({}, text("Hel", "lo"))
    recording.is_cut = True
    assert run_again(recording).trouble == "The recording was cut: it would have become too large."


def test_an_exchange_that_draws_more_than_it_did_says_so() -> None:
    recording, _ = record({}, text("Hello"))
    recording.environment_values.ids.clear()
    assert "asked for more ids" in str(run_again(recording).trouble)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_file_has_its_version_in_front() -> None:
    data = recording_to_file(record({}, text("Hello"))[0], "1.2.3")
    assert is_recording(data)
    assert not is_recording(text("Hello"))
    assert not is_recording(b'{"choices": []}')
    members = msgspec.json.decode(data)
    assert (members["antiphon_recording"], members["version"]) == (1, "1.2.3")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"antiphon_recording": 2}', "version 2"),
        (b'{"antiphon_recording": 1}', "damaged"),
        (b'{"antiphon_recording": 1,', "damaged"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    assert is_recording(data)
    with pytest.raises(NotARecording, match=reason):
        file_to_recording(data)


def test_bytes_that_are_no_text_survive_in_a_file() -> None:
    recording, events = record({}, [b"data: \xff\xfe\n\n"])
    assert runs_again(file_to_recording(recording_to_file(recording, "1"))) == to_stream(events)
