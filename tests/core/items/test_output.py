"""Deltas into events: one item at a time, each done before the next, and one terminal event."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs
from support.exchanges import REQUEST, make_environment, run_deltas
from support.streams import check_stream

from antiphon.core.events.deltas import (
    AnnotationsDelta,
    CallDelta,
    Delta,
    EngineFailed,
    Finished,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ThoughtEnded,
    UsageReport,
)
from antiphon.core.events.lifecycle import EventOptions, Numbering
from antiphon.core.items.enforcement import Enforcement
from antiphon.core.items.item_sequence import ItemSequence
from antiphon.core.items.output import Output
from antiphon.core.items.usage import UsageCount
from antiphon.core.stream.chat_chunks import ENDINGS
from antiphon.core.toolbox.requirements import Requirements
from antiphon.errors import ContextLengthExceeded, EngineError
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Usage


def translated(*deltas: Delta, ended: bool = True, parallel: bool = True) -> list[dict[str, Any]]:
    return run_deltas(*deltas, request=structs.replace(REQUEST, parallel_tool_calls=parallel), ended=ended)


def output(*deltas: Delta, **options: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = translated(*deltas, **options)[-1]["response"]["output"]
    return items


def calls(*deltas: Delta, **options: Any) -> list[tuple[str, str, str]]:
    return [(item["call_id"], item["name"], item["arguments"]) for item in output(*deltas, Finished("stop"), **options)]


def test_reasoning_is_done_before_the_call_begins() -> None:
    kinds = [event["type"] for event in translated(ReasoningDelta("hm"), CallDelta(0, "a", "f", "{}"), Finished("tool_calls"))]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_the_first_call_is_done_before_the_second_begins() -> None:
    events = translated(CallDelta(0, "a", "f", "{}"), CallDelta(1, "b", "g", "{"), CallDelta(1, arguments="}"))
    order = [(event["type"], event["item"]["call_id"]) for event in events if "item" in event]
    assert order == [
        ("response.output_item.added", "a"),
        ("response.output_item.done", "a"),
        ("response.output_item.added", "b"),
        ("response.output_item.done", "b"),
    ]


def test_interleaved_pieces_are_sorted_into_their_calls() -> None:
    assert calls(
        CallDelta(0, "a", "f", '{"x":'),
        CallDelta(1, "b", "g", '{"y":'),
        CallDelta(0, arguments="1}"),
        CallDelta(1, arguments="2}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_the_second_call_streams_as_soon_as_the_first_is_whole() -> None:
    events = translated(
        CallDelta(0, "a", "f", "{"), CallDelta(1, "b", "g", "{"), CallDelta(0, arguments="}"), CallDelta(1, arguments="}")
    )
    deltas = [(event["output_index"], event["delta"]) for event in events if event["type"].endswith("arguments.delta")]
    assert deltas == [(0, "{"), (0, "}"), (1, "{"), (1, "}")]


def test_parallel_calls_that_all_have_index_0_are_told_apart_by_their_ids() -> None:
    assert calls(CallDelta(0, "a", "f", "{}"), CallDelta(0, "b", "f", "{}")) == [("a", "f", "{}"), ("b", "f", "{}")]


def test_two_indexes_with_one_id_are_two_calls_and_the_second_gets_an_id_of_its_own() -> None:
    assert calls(
        CallDelta(0, "a", "f", '{"x":'),
        CallDelta(1, "a", "f", '{"y":'),
        CallDelta(0, "a", None, "1}"),
        CallDelta(1, "a", None, "2}"),
    ) == [("a", "f", '{"x":1}'), ("call_1", "f", '{"y":2}')]


def test_without_ids_a_name_after_whole_arguments_is_a_new_call() -> None:
    assert calls(CallDelta(0, None, "f", "{}"), CallDelta(0, None, "f", "{}")) == [
        ("call_0", "f", "{}"),
        ("call_2", "f", "{}"),
    ]


def test_without_an_index_a_name_opens_a_call_and_the_rest_follows_it() -> None:
    assert calls(
        CallDelta(None, None, "f", "{"), CallDelta(arguments="}"), CallDelta(None, None, "g", "{}"), CallDelta(arguments=" ")
    ) == [("call_0", "f", "{}"), ("call_2", "g", "{} ")]


def test_an_id_that_comes_late_does_not_change_the_one_that_was_made_up() -> None:
    assert calls(CallDelta(0, None, "f", "{"), CallDelta(0, "late", None, "}")) == [("call_0", "f", "{}")]


def test_a_name_that_is_repeated_on_every_piece_is_one_call() -> None:
    assert calls(CallDelta(0, "a", "f", "{"), CallDelta(0, "a", "f", "}")) == [("a", "f", "{}")]


def test_a_name_that_comes_late_holds_its_call_back() -> None:
    assert calls(CallDelta(0, "a"), CallDelta(0, arguments="{"), CallDelta(0, name="f"), CallDelta(0, arguments="}")) == [
        ("a", "f", "{}")
    ]


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    assert calls(CallDelta(0, "a", "f"), CallDelta(1, "b", "g")) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_a_call_without_a_name_fails_the_response() -> None:
    events = translated(CallDelta(0, "a", None, "{}"), Finished("tool_calls"))
    assert events[-1]["type"] == "response.failed"
    assert "without a name" in events[-1]["response"]["error"]["message"]


def test_an_empty_placeholder_of_a_call_is_nothing() -> None:
    assert output(TextDelta("Hi"), CallDelta(0), Finished("stop"))[0]["type"] == "message"


def test_only_so_many_calls_are_shown() -> None:
    assert calls(CallDelta(0, "a", "f", "{}"), CallDelta(1, "b", "g", "{}"), parallel=False) == [("a", "f", "{}")]


def test_the_first_calls_are_told_also_where_one_gets_its_name_late() -> None:
    named_late = CallDelta(0, "a", None, "{"), CallDelta(1, "b", "g", "{}"), CallDelta(0, name="f", arguments="}")
    assert calls(*named_late, parallel=False) == [("a", "f", "{}")]
    assert len(calls(*named_late)) == 2


def test_a_placeholder_takes_no_place() -> None:
    assert calls(CallDelta(0), CallDelta(1, "b", "g", "{}"), parallel=False) == [("b", "g", "{}")]


def test_a_call_without_a_name_is_left_out_where_no_more_may_be_made() -> None:
    assert calls(CallDelta(0, "a", "f", "{}"), CallDelta(1, "b", None, "{}"), parallel=False) == [("a", "f", "{}")]


def test_dropped_calls_are_counted_and_a_placeholder_is_not() -> None:
    enforcement = Enforcement(False, False)
    enforcement.begin_answer(Requirements(parallel=False))
    sequence = ItemSequence(Numbering(), enforcement)
    new_id = make_environment().new_id
    output = Output(sequence, new_id=new_id, style=EventOptions(), enforcement=enforcement, usage=UsageCount())
    for delta in (CallDelta(0, "a", "f", "{}"), CallDelta(1), CallDelta(2, "c", "g", "{}"), CallDelta(3, "d", None, "{}")):
        output.receive(delta)
    assert enforcement.left_out.dropped == 2


def test_text_after_a_call_is_a_message_of_its_own() -> None:
    items = output(TextDelta("a"), CallDelta(0, "x", "f", "{}"), TextDelta("\n"), TextDelta("b"), Finished("stop"))
    assert [item["type"] for item in items] == ["message", "function_call", "message"]
    assert items[2]["content"][0]["text"] == "b"


def test_text_that_comes_in_the_middle_of_a_call_waits_for_its_end() -> None:
    items = output(CallDelta(0, "x", "f", "{"), TextDelta("b"), CallDelta(0, arguments="}"), Finished("stop"))
    assert [item["type"] for item in items] == ["function_call", "message"]
    assert items[0]["arguments"] == "{}"


def test_line_breaks_between_items_are_no_message() -> None:
    items = output(ReasoningDelta("hm"), TextDelta("\n\n"), CallDelta(0, "x", "f", "{}"), TextDelta(" \n"), Finished("stop"))
    assert [item["type"] for item in items] == ["reasoning", "function_call"]


def test_a_blank_thought_is_no_item() -> None:
    assert [item["type"] for item in output(ReasoningDelta("\n\n"), TextDelta("Hi"), Finished("stop"))] == ["message"]


def test_a_refusal_is_a_part_of_the_message() -> None:
    events = translated(TextDelta("Hm."), RefusalDelta("I can"), RefusalDelta("not."), Finished("stop"))
    content = events[-1]["response"]["output"][0]["content"]
    assert [part["type"] for part in content] == ["output_text", "refusal"]
    assert content[1]["refusal"] == "I cannot."
    assert "response.refusal.done" in [event["type"] for event in events]


def test_a_thought_that_ends_late_parts_two_messages() -> None:
    items = output(TextDelta("I should look."), ThoughtEnded(), TextDelta("\n\nParis."), Finished("stop"))
    assert [item["content"][0]["text"] for item in items] == ["I should look.", "Paris."]


def test_only_the_cut_item_is_incomplete_and_it_is_the_last() -> None:
    items = output(TextDelta("a"), CallDelta(0, "x", "f", '{"a'), Finished("length"))
    assert [item["status"] for item in items] == ["completed", "incomplete"]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "eos", "", "whatever"])
def test_a_reason_that_is_not_listed_is_an_ordinary_end(reason: str) -> None:
    assert translated(TextDelta("a"), Finished(reason))[-1]["type"] == "response.completed"


@pytest.mark.parametrize("reason", [reason for reason, ending in ENDINGS.items() if ending.error])
def test_an_engine_that_gave_up_fails_the_response(reason: str) -> None:
    events = translated(TextDelta("a"), Finished(reason))
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"


def test_an_end_without_a_reason_is_a_broken_stream_unless_the_engine_said_done() -> None:
    assert translated(TextDelta("a"), ended=False)[-1]["type"] == "response.failed"
    assert translated(TextDelta("a"), ended=True)[-1]["type"] == "response.completed"
    assert translated(TextDelta("a"), Finished("stop"), ended=False)[-1]["type"] == "response.completed"


@pytest.mark.parametrize("arguments", ["", "{", '{"a": "b', '{"a": 1'])
def test_a_call_whose_arguments_are_not_whole_is_cut_off_unless_the_engine_gave_a_reason(arguments: str) -> None:
    for ended in (True, False):
        response = translated(TextDelta("a"), CallDelta(0, "x", "f", arguments), ended=ended)[-1]["response"]
        assert response["status"] == "failed"
        assert "ended before the answer did" in response["error"]["message"]
        assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert translated(CallDelta(0, "x", "f", arguments), Finished("tool_calls"))[-1]["type"] == "response.completed"


def test_whole_calls_are_an_answer_without_a_reason() -> None:
    items = output(CallDelta(0, "x", "f", "{}"), CallDelta(1, "y", "g", '{"a": 1}'), CallDelta(2))
    assert [item["status"] for item in items] == ["completed", "completed"]


def test_of_several_calls_only_the_cut_one_is_incomplete() -> None:
    response = translated(CallDelta(0, "x", "f", "{}"), CallDelta(1, "y", "g", '{"a'))[-1]["response"]
    assert response["status"] == "failed"
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_a_failure_keeps_what_came_before_it_and_tells_its_code() -> None:
    events = translated(TextDelta("a"), EngineFailed(ContextLengthExceeded("too long")), TextDelta("b"))
    response = events[-1]["response"]
    assert response["error"] == {"code": "context_length_exceeded", "message": "too long"}
    assert response["output"][0]["content"][0]["text"] == "a"


def test_a_failure_after_the_finish_is_none() -> None:
    assert translated(TextDelta("a"), Finished("stop"), EngineFailed(EngineError("x")))[-1]["type"] == "response.completed"


def test_the_last_usage_counts() -> None:
    def usage(total: int) -> UsageReport:
        return UsageReport(Usage(1, InputTokensDetails(), total - 1, OutputTokensDetails(), total))

    events = translated(usage(2), TextDelta("a"), usage(5), Finished("stop"))
    assert events[-1]["response"]["usage"]["total_tokens"] == 5


names = st.one_of(st.none(), st.sampled_from(["f", "g"]))
any_delta = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=5)),
    st.builds(ReasoningDelta, st.text(min_size=1, max_size=5)),
    st.builds(RefusalDelta, st.text(min_size=1, max_size=5)),
    st.builds(
        CallDelta,
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.sampled_from(["a", "b"])),
        names,
        st.sampled_from(["", "{", "}", "{}", '{"a":', "1}", " ", "]"]),
    ),
    st.just(AnnotationsDelta([{"type": "file_path", "file_id": "f", "index": 0}])),
    st.just(ThoughtEnded()),
    st.builds(Finished, st.sampled_from(["stop", "length", "tool_calls", "error"])),
    st.just(EngineFailed(EngineError("x"))),
)


@given(st.lists(any_delta, max_size=25), st.booleans(), st.booleans())
def test_whatever_comes_the_stream_is_well_formed(deltas: list[Delta], ended: bool, parallel: bool) -> None:
    events = translated(*deltas, ended=ended, parallel=parallel)
    made = [item for item in check_stream(events)["output"] if item["type"] == "function_call"]
    assert parallel or len(made) <= 1
    assert len({call["call_id"] for call in made}) == len(made), "results are assigned to calls by their ids"


@given(st.lists(any_delta, max_size=25))
def test_no_visible_text_is_lost(deltas: list[Delta]) -> None:
    written = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    response = translated(*deltas)[-1]["response"]
    messages = [item for item in response["output"] if item["type"] == "message"]
    shown = "".join(part["text"] for item in messages for part in item["content"] if "text" in part)
    assume(response["status"] != "failed")
    assert "".join(shown.split()) == "".join(written.split())
