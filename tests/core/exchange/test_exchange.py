"""Whole responses driven through an Exchange: no event loop, no sockets, no clock."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.engine import answer, call, chunk, text
from support.exchanges import Event, Recorder, checked, make_environment, run_answers
from support.toy_tool import DICE, Dice, roll

from antiphon.core.checks.work import CheckOutcome, DefinitionWork
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Check, Done, Estimate, RunTools, ToolCall
from antiphon.core.knowledge.dialects import LLAMACPP, PLAIN
from antiphon.core.knowledge.failures import failure_to_error
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.toolbox.tools import ToolResult
from antiphon.errors import ApiError, Cancelled, EngineError, EngineFailure, EngineUnavailable, InvalidRequest, StoreUnavailable
from antiphon.gateway.runs.check_process import run_check
from antiphon.wire.responses import CreateResponse, InputTokensDetails, OutputTokensDetails, Usage

F = {"type": "function", "name": "f"}
STRICT = {**F, "strict": True, "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
NUMBERS = {"type": "custom", "name": "add", "format": {"type": "grammar", "syntax": "regex", "definition": r"\d+ \+ \d+"}}


def failure(status: int, words: str, kind: str = "") -> ApiError:
    return failure_to_error(EngineFailure(status, kind, words))


def kinds(events: list[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def output_of(events: list[Event]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = events[-1]["response"]["output"]
    return output


# ---- one engine answer -----------------------------------------------------------------------------------------------


def test_text() -> None:
    events = run_answers({}, text("Hello", " world"))
    assert output_of(events)[0]["content"][0]["text"] == "Hello world"
    assert events[-1]["response"]["usage"]["total_tokens"] == 17


def test_reasoning_and_a_call() -> None:
    thought = chunk({"reasoning_content": "I should call."})
    events = run_answers({"tools": [F]}, answer(thought, call("f", '{"n": 1}'), finish="tool_calls"))
    assert [item["type"] for item in output_of(events)] == ["reasoning", "function_call"]
    assert output_of(events)[1]["arguments"] == '{"n": 1}'


def test_a_failure_in_the_middle_keeps_what_came_before_it() -> None:
    events = run_answers({}, [chunk({"content": "Hel"}), b'data: {"error": {"code": 500, "message": "out of memory"}}\n\n'])
    assert events[-1]["type"] == "response.failed"
    assert "out of memory" in events[-1]["response"]["error"]["message"]
    assert (output_of(events)[0]["status"], output_of(events)[0]["content"][0]["text"]) == ("incomplete", "Hel")


def test_an_engine_that_refuses_fails_the_response() -> None:
    events = run_answers({}, failure(400, "no"))
    assert kinds(events) == ["created", "in_progress", "failed"]
    assert events[-1]["response"]["error"]["code"] == "invalid_prompt"


def test_without_generation_nothing_is_asked() -> None:
    assert kinds(run_answers({"generate": False})) == ["created", "in_progress", "completed"]


# ---- several engine answers ------------------------------------------------------------------------------------------


def test_a_call_that_breaks_its_grammar_is_asked_for_again() -> None:
    asked = Recorder()
    bad, good = (answer(call("add", msgspec.json.encode({"input": words}).decode())) for words in ("one", "1 + 2"))
    events = run_answers({"tools": [NUMBERS]}, bad, good, on_ask=asked)
    assert [item["input"] for item in output_of(events)] == ["1 + 2"]
    assert "does not match the pattern" in asked.chats[1]["messages"][-1]["content"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 2 * 17


def test_arguments_that_nearly_follow_their_schema_are_repaired() -> None:
    events = run_answers({"tools": [STRICT]}, answer(call("f", '{"n": "7"}')))
    assert output_of(events)[0]["arguments"] == '{"n":7}'


def test_an_answer_that_stays_wrong_fails() -> None:
    events = run_answers({"tools": [STRICT]}, answer(call("f", '{"n": "x"}')), answer(call("f", "{}")))
    assert events[-1]["type"] == "response.failed"
    error = events[-1]["response"]["error"]
    assert "in two attempts" in error["message"]
    assert error["code"] == "invalid_prompt"


def test_a_refusal_teaches_a_lesson_that_lasts() -> None:
    asked, knowledge = Recorder(), EngineKnowledge(PLAIN)
    no_tools = failure(400, "this model does not support tools")
    run_answers({"tools": [F]}, no_tools, text("Hi"), engines=[knowledge], on_ask=asked)
    assert ["tools" in chat for chat in asked.chats] == [True, False]
    run_answers({"tools": [F]}, text("Hi"), engines=[knowledge], on_ask=asked)
    assert "tools" not in asked.chats[2]


def test_a_server_that_rejects_stream_options_is_not_sent_them_again() -> None:
    asked, knowledge = Recorder(), EngineKnowledge(PLAIN)
    rejected = failure(400, "Unrecognized request argument supplied: stream_options")
    run_answers({}, rejected, text("Hi"), engines=[knowledge], on_ask=asked)
    assert ["stream_options" in chat for chat in asked.chats] == [True, False]


def test_a_failure_in_the_middle_teaches_too() -> None:
    broken = [chunk({"content": "Well"}), chunk(finish="parse_error")]
    events = run_answers({"tools": [F]}, broken, text("Hi"))
    assert events[-1]["type"] == "response.completed"
    assert [item["content"][0]["text"] for item in output_of(events)] == ["Well", "Hi"]


def test_a_prompt_that_is_too_long_is_truncated() -> None:
    asked = Recorder()
    history = [
        {"role": role, "content": f"{role} {turn} " + "word " * 50} for turn in range(4) for role in ("user", "assistant")
    ]
    overflow = failure(400, "request (400 tokens) exceeds the available context size (200 tokens)", "exceed_context_size_error")
    request = {"input": [*history, {"role": "user", "content": "And now?"}], "truncation": "auto"}
    events = run_answers(request, overflow, text("Hi"), on_ask=asked)
    assert events[-1]["type"] == "response.completed"
    assert len(asked.chats[1]["messages"]) < len(asked.chats[0]["messages"])
    assert asked.chats[1]["messages"][-1]["content"] == "And now?"


def test_without_truncation_it_fails() -> None:
    overflow = failure(400, "maximum context length is 200 tokens")
    events = run_answers({}, overflow)
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"


def test_an_engine_that_is_away_is_replaced_by_the_next() -> None:
    asked = Recorder()
    engines = [EngineKnowledge(PLAIN), EngineKnowledge(replace(LLAMACPP, name="other"), [Model("x", 0, "x")])]
    run_answers({}, EngineUnavailable("away"), text("Hi"), engines=engines, on_ask=asked)
    assert asked.engines == [0, 1]


def test_the_usage_of_every_answer_counts_also_where_the_response_fails() -> None:
    format = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    answers = [text("No.").replace(b'"total_tokens":17', b'"total_tokens":%d' % total) for total in (1, 10)]
    events = run_answers({"text": {"format": format}}, *answers)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["usage"]["total_tokens"] == 11


# ---- tools that the gateway runs -------------------------------------------------------------------------------------


def rolls(*sides: int, first: int = 0, tokens: int = 1) -> bytes:
    calls = [call("roll", f'{{"sides": {n}}}', id=f"call_{first}_{at}", index=at) for at, n in enumerate(sides)]
    return answer(*calls, finish="tool_calls").replace(b'"total_tokens":17', b'"total_tokens":%d' % tokens)


def test_three_rounds_of_a_tool_are_one_response_with_its_usage_summed() -> None:
    asked = Recorder()
    last = text("You rolled 6, 8 and 10.").replace(b'"total_tokens":17', b'"total_tokens":1000')
    events = run_answers(
        {"tools": [DICE], "tool_choice": "required"},
        rolls(6, tokens=1),
        rolls(8, first=1, tokens=10),
        rolls(10, first=2, tokens=100),
        last,
        dialect=replace(PLAIN, enforces_required=True),
        run_tool=roll,
        tools={"dice": Dice()},
        on_ask=asked,
    )
    assert [item["type"] for item in output_of(events)] == ["dice_call", "dice_call", "dice_call", "message"]
    assert [item["result"] for item in output_of(events)[:3]] == ["6", "8", "10"]
    assert events[-1]["response"]["usage"]["total_tokens"] == 1111
    assert kinds(events).count("created") == kinds(events).count("completed") == 1
    # Each question is the one before it, the calls, and their results; what was required is required once.
    for before, after in itertools.pairwise(asked.chats):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    assert [message["role"] for message in asked.chats[-1]["messages"]] == ["user", *("assistant", "tool") * 3]
    assert [chat["tool_choice"] for chat in asked.chats] == ["required", "auto", "auto", "auto"]


def test_a_model_that_had_to_stop_thinking_thinks_again_in_the_next_round() -> None:
    asked = Recorder()
    thought = answer(chunk({"reasoning_content": "Well"}), finish="length")
    events = run_answers(
        {"tools": [DICE], "tool_choice": "required"},
        thought,
        rolls(6),
        text("You rolled 6."),
        dialect=replace(PLAIN, enforces_required=True, no_thinking={"reasoning_effort": "none"}),
        run_tool=roll,
        tools={"dice": Dice()},
        on_ask=asked,
    )
    assert [item["type"] for item in output_of(events)] == ["reasoning", "dice_call", "message"]
    assert ["reasoning_effort" in chat for chat in asked.chats] == [False, True, False]


def test_calls_of_one_answer_run_together_and_are_shown_one_after_another() -> None:
    environment = make_environment(tools={"dice": Dice()})
    request = CreateResponse(model="m", input="Hi", stream=True, store=False, tools=[DICE])
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], environment)
    events = [*exchange.start(), *exchange.receive(rolls(6, 8, 10)), *exchange.finish()]
    while isinstance(step := exchange.step, Check):
        events += exchange.checked(run_check(step.work))
    assert isinstance(step, RunTools)
    assert [call.arguments for call in step.calls] == ['{"sides": 6}', '{"sides": 8}', '{"sides": 10}']
    for asked in reversed(step.calls):
        events += exchange.tool_result(asked.id, roll(asked))
    assert isinstance(exchange.step, Ask)
    events += [*exchange.receive(text("Done.")), *exchange.finish(), *exchange.end()]
    assert [item.get("result") for item in output_of(checked(events, for_sdk=False))] == ["6", "8", "10", None]


def test_a_call_of_the_clients_ends_the_response_after_the_gateways_tools_have_run() -> None:
    both = answer(call("roll", '{"sides": 6}', id="a"), call("f", "{}", id="b", index=1), finish="tool_calls")
    events = run_answers({"tools": [DICE, F]}, both, run_tool=roll, tools={"dice": Dice()})
    assert [(item["type"], item["status"]) for item in output_of(events)] == [
        ("dice_call", "completed"),
        ("function_call", "completed"),
    ]


def test_a_model_that_calls_without_end_is_stopped() -> None:
    asked = Recorder()
    events = run_answers(
        {"tools": [DICE]}, rolls(6), rolls(6, first=1), text("Enough."), run_tool=roll, tools={"dice": Dice()}, most_rounds=2,
        on_ask=asked,
    )  # fmt: skip
    assert ["tools" in chat for chat in asked.chats] == [True, True, False]
    assert events[-1]["type"] == "response.completed"


def test_a_call_that_was_cut_off_is_not_run() -> None:
    def unexpected(call: ToolCall) -> ToolResult:
        raise AssertionError(call)

    cut = answer(call("roll", '{"sides": 6}', id="a"), call("roll", '{"sid', id="b", index=1), finish="length")
    events = run_answers({"tools": [DICE]}, cut, run_tool=unexpected, tools={"dice": Dice()})
    assert events[-1]["type"] == "response.incomplete"
    assert [item["status"] for item in output_of(events)] == ["incomplete", "incomplete"]


# ---- checks ----------------------------------------------------------------------------------------------------------


def make(request: dict[str, Any], **options: Any) -> Exchange:
    converted = msgspec.convert({"model": "m", "input": "Hi", "stream": True, "store": False, **request}, CreateResponse)
    return Exchange(converted, [EngineKnowledge(PLAIN)], make_environment(**options), response_id="resp_1")


def test_definitions_are_compiled_before_the_engine_is_asked_and_only_once() -> None:
    environment = make_environment()
    for expected in (Check, Ask):
        exchange = Exchange(CreateResponse(model="m", input="Hi", tools=[NUMBERS]), [EngineKnowledge(PLAIN)], environment)
        assert isinstance(exchange.step, expected)
        if isinstance(exchange.step, Check):
            assert isinstance(exchange.step.work, DefinitionWork)
            exchange.checked(run_check(exchange.step.work))
            assert isinstance(exchange.step, Ask)


@pytest.mark.parametrize("outcome", [CheckOutcome(complaint="it is odd"), CheckOutcome(unfinished=True)])
def test_a_schema_that_cannot_be_compiled_is_the_clients_error(outcome: CheckOutcome) -> None:
    exchange = make({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}})
    exchange.checked(outcome)
    assert isinstance(exchange.step, Done)
    assert isinstance(exchange.error, InvalidRequest)
    assert exchange.error.param == "text.format.schema"


def test_a_check_that_takes_too_long_is_an_error_where_a_schema_binds_and_the_model_is_not_asked_again() -> None:
    exchange = make({"tools": [STRICT]})
    exchange.checked(CheckOutcome())
    events = [*exchange.start(), *exchange.receive(answer(call("f", '{"n": 1}')))]
    events += [*exchange.checked(CheckOutcome(unfinished=True)), *exchange.finish()]
    assert isinstance(exchange.step, Done)
    response = checked([*events, *exchange.end()])[-1]["response"]
    assert (response["status"], response["output"]) == ("failed", [])
    assert "could not be checked" in response["error"]["message"]


def test_a_check_that_takes_too_long_teaches_nothing_about_the_engine() -> None:
    knowledge = EngineKnowledge(replace(PLAIN, constrains_json=True))
    format = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    request = msgspec.convert({"model": "m", "input": "Hi", "stream": True, "text": {"format": format}}, CreateResponse)
    exchange = Exchange(request, [knowledge], make_environment())
    exchange.checked(CheckOutcome())
    events = [*exchange.start(), *exchange.receive(text("{}")), *exchange.finish()]
    events += exchange.checked(CheckOutcome(unfinished=True))
    assert checked([*events, *exchange.end()])[-1]["type"] == "response.failed"
    assert knowledge.dialect_for("m").constrains_json


def test_a_definition_that_took_too_long_is_tried_again_with_the_next_request() -> None:
    environment = make_environment()
    for _ in range(2):
        exchange = Exchange(CreateResponse(model="m", input="Hi", tools=[NUMBERS]), [EngineKnowledge(PLAIN)], environment)
        assert isinstance(exchange.step, Check)
        exchange.checked(CheckOutcome(unfinished=True))
        assert isinstance(exchange.step, Ask)
        assert any("it takes too long to compile" in notice for notice in exchange.notices)


CALLS = [call("add", '{"input": "1 + 2"}', id="a"), call("f", "{}", id="b", index=1), chunk({"content": "Done."})]
PIECES = answer(*CALLS, finish="tool_calls")


@given(st.lists(st.integers(1, len(PIECES)), max_size=8), st.lists(st.booleans(), min_size=20, max_size=20))
def test_the_events_are_the_same_however_long_a_check_takes(cuts: list[int], waits: list[bool]) -> None:
    """A check may be done at once, after some more pieces, or at the very end."""
    edges = sorted({0, len(PIECES), *cuts})
    exchange, patience = make({"tools": [NUMBERS, F]}), iter(waits)
    exchange.checked(CheckOutcome())
    events = exchange.start()
    for start, end in itertools.pairwise(edges):
        events += exchange.receive(PIECES[start:end])
        while exchange.check is not None and not next(patience, False):
            events += exchange.checked(run_check(exchange.check))
    events += exchange.finish()
    while isinstance(exchange.step, Check):
        events += exchange.checked(run_check(exchange.step.work))
    assert checked([*events, *exchange.end()]) == run_answers({"tools": [NUMBERS, F]}, PIECES)


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_usage_that_the_engine_does_not_report_is_estimated_for_every_answer() -> None:
    exchange = make({"tools": [NUMBERS]})
    exchange.checked(CheckOutcome())
    events = exchange.start()
    for words in ("one", "1 + 2"):
        silent = call("add", msgspec.json.encode({"input": words}).decode()) + chunk(finish="tool_calls") + b"data: [DONE]\n\n"
        events += [*exchange.receive(silent), *exchange.finish()]
        while isinstance(exchange.step, Check):
            events += exchange.checked(run_check(exchange.step.work))
    assert isinstance(exchange.step, Estimate)
    assert [answer.written for answer in exchange.step.answers] == ['add{"input":"one"}', 'add{"input":"1 + 2"}']
    estimate = Usage(3, InputTokensDetails(), 4, OutputTokensDetails(), 7)
    events += [*exchange.estimated([estimate, estimate]), *exchange.end()]
    assert checked(events)[-1]["response"]["usage"]["total_tokens"] == 14


@pytest.mark.parametrize(("error", "status"), [(Cancelled(), "cancelled"), (EngineError("stalled"), "failed")])
@pytest.mark.parametrize("pieces", [[], [chunk({"content": "Hel"})], [call("add", '{"input": "1 + 2"}')]])
def test_it_can_be_aborted_at_any_time(error: ApiError, status: str, pieces: list[bytes]) -> None:
    exchange = make({"tools": [NUMBERS]})
    exchange.checked(CheckOutcome())
    events = exchange.start()
    for piece in pieces:
        events += exchange.receive(piece)
    # If it is aborted once more, its usage is not estimated either.
    events += [*exchange.abort(error), *exchange.abort(error)]
    assert isinstance(exchange.step, Done)
    response = checked([*events, *exchange.end()])[-1]["response"]
    assert response["status"] == status
    assert exchange.heartbeat() == []


def test_the_usage_of_a_cancelled_response_is_that_of_all_its_answers() -> None:
    exchange = make({"tools": [NUMBERS]})
    exchange.checked(CheckOutcome())
    events = exchange.start()
    # The first answer is rejected by its grammar, and reports no usage; the second is cut off.
    events += [*exchange.receive(call("add", '{"input": "one"}') + chunk(finish="tool_calls") + b"data: [DONE]\n\n")]
    events += exchange.finish()
    while isinstance(exchange.step, Check):
        events += exchange.checked(run_check(exchange.step.work))
    assert isinstance(exchange.step, Ask)
    events += [*exchange.receive(chunk({"content": "Hel"})), *exchange.abort(Cancelled())]
    assert isinstance(exchange.step, Estimate)
    assert [answer.written for answer in exchange.step.answers] == ['add{"input": "one"}', "Hel"]
    estimate = Usage(3, InputTokensDetails(), 4, OutputTokensDetails(), 7)
    events += [*exchange.estimated([estimate, estimate]), *exchange.end()]
    response = checked(events)[-1]["response"]
    assert (response["status"], response["usage"]["total_tokens"]) == ("cancelled", 14)


def test_a_cancelled_response_that_has_its_usage_is_not_estimated() -> None:
    exchange = make({})
    events = [*exchange.start(), *exchange.receive(text("Hi").removesuffix(b"data: [DONE]\n\n"))]
    events += exchange.abort(Cancelled())
    assert isinstance(exchange.step, Done)
    assert checked([*events, *exchange.end()])[-1]["response"]["usage"]["total_tokens"] == 17


def test_what_was_not_checked_yet_is_not_shown_when_it_is_aborted() -> None:
    exchange = make({"tools": [STRICT]})
    exchange.checked(CheckOutcome())
    events = [*exchange.start(), *exchange.receive(call("f", '{"n": "x"}'))]
    assert exchange.check is not None
    events += [*exchange.abort(Cancelled()), *exchange.end()]
    assert output_of(checked(events)) == []


def test_a_response_that_could_not_be_stored_is_failed_under_the_same_number() -> None:
    exchange = make({})
    events = [*exchange.start(), *exchange.receive(text("Hi")), *exchange.finish()]
    (terminal,) = exchange.end()
    (replaced,) = exchange.end(StoreUnavailable())
    assert terminal.sequence_number == replaced.sequence_number
    assert checked([*events, replaced])[-1]["type"] == "response.failed"


def test_a_heartbeat_repeats_that_the_response_is_in_progress() -> None:
    exchange = make({})
    events = [*exchange.start(), *exchange.heartbeat(), *exchange.receive(text("Hi")), *exchange.finish(), *exchange.end()]
    assert kinds(checked(events))[:3] == ["created", "in_progress", "in_progress"]
