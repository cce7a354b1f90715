"""`context_management`: a history with too many tokens is compacted, and then answered."""

from typing import Any

import msgspec
import pytest
from support.engine import answer, call, chunk, text
from support.exchanges import Event, Recorder, checked, make_environment, run_answers
from support.sync_runs import run_exchange
from support.toy_tool import DICE, Dice, roll

from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Count, Estimate
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.failures import failure_to_error
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.errors import Cancelled, EngineFailure, EngineUnavailable, InvalidRequest
from antiphon.sealing import NO_SEALER, Sealer
from antiphon.wire.responses import CreateResponse, InputTokensDetails, OutputTokensDetails, Usage

MARK = "sealed "
SEALER = Sealer(lambda text: MARK + text, lambda blob: blob.removeprefix(MARK) if blob.startswith(MARK) else None)
MANAGED: dict[str, Any] = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}

LONG = "tea " * 1000
HISTORY = [
    {"role": "developer", "content": "Be kind"},
    {"role": "user", "content": "Tell me about tea"},
    {"role": "assistant", "content": LONG},
]
QUESTION = {"role": "user", "content": "And coffee?"}
ITEMS = [*HISTORY, QUESTION]
USAGE = Usage(10, InputTokensDetails(), 2, OutputTokensDetails(), 12)
SUMMARY = text("They talked about tea.")


def contents(asked: Recorder, number: int) -> list[str]:
    return [str(message["content"]).rpartition("summary of it:\n\n")[2] for message in asked.chats[number]["messages"]]


def run(*answers: Any, input: Any = ITEMS, on_ask: Any = lambda step: None, **fields: Any) -> list[Event]:
    return run_answers({"input": input, **MANAGED, **fields}, *answers, on_ask=on_ask, sealer=SEALER)


def notices(*answers: Any, engines: list[EngineKnowledge] | None = None, sealer: Sealer = SEALER, **fields: Any) -> list[str]:
    """Of a response to these answers, at its end."""
    request = msgspec.convert({"model": "m", "input": ITEMS, "store": False, **MANAGED, **fields}, CreateResponse)
    exchange = Exchange(request, engines or [EngineKnowledge(PLAIN)], make_environment(sealer=sealer))
    script = iter(answers)
    checked(run_exchange(exchange, lambda step: [next(script)]))
    return exchange.notices


def types(events: list[Event]) -> list[str]:
    return [item["type"] for item in events[-1]["response"]["output"]]


# ---- what happens ----------------------------------------------------------------------------------------------------


def test_a_prompt_over_the_threshold_is_compacted_and_then_answered() -> None:
    asked = Recorder()
    events = run(SUMMARY, text("Coffee is a drink."), on_ask=asked, tools=[F])
    assert types(events) == ["compaction", "message"]
    assert [event["type"].removeprefix("response.") for event in events[2:6]] == [
        "output_item.added",
        "compaction.compacting",
        "output_item.done",
        "output_item.added",
    ]
    assert events[-1]["response"]["usage"]["total_tokens"] == 2 * 17
    first, second = asked.chats
    assert "hand-over" in first["messages"][-1]["content"]
    assert LONG in first["messages"][2]["content"]
    assert "tools" not in first
    assert contents(asked, 1) == ["Be kind", "They talked about tea.", "And coffee?"]
    assert second["tools"]


def test_a_prompt_within_the_threshold_is_answered_as_it_is() -> None:
    asked = Recorder()
    events = run(text("Hi"), on_ask=asked, input=[*HISTORY[:2], QUESTION])
    assert types(events) == ["message"]
    assert len(asked.chats) == 1


@pytest.mark.parametrize("whole", [True, False], ids=["all items are sent back", "only those from the compaction on"])
def test_the_next_turn_continues_the_prompt_of_this_answer(whole: bool) -> None:
    asked = Recorder()
    output = run(SUMMARY, text("Coffee is a drink."), on_ask=asked)[-1]["response"]["output"]
    run(text("Hi"), on_ask=asked, input=[*(ITEMS if whole else ()), *output, {"role": "user", "content": "And milk?"}])
    before, after = asked.chats[1]["messages"], asked.chats[2]["messages"]
    assert after[: len(before)] == before
    assert [message["content"] for message in after[len(before) :]] == ["Coffee is a drink.", "And milk?"]


def test_a_turn_in_the_middle_of_its_calls_goes_on_with_the_newest_ones() -> None:
    asked = Recorder()
    steps = [
        item
        for number in range(6)
        for item in (
            {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": f"{number} " * 500},
        )
    ]
    run(SUMMARY, text("Done."), on_ask=asked, input=[QUESTION, *steps], tools=[F])
    assert [message["role"] for message in asked.chats[1]["messages"]] == ["user", "user", "assistant", "tool"]
    assert contents(asked, 1)[1] == "And coffee?"
    assert contents(asked, 1)[3].startswith("5 5")


def test_the_limits_of_the_answer_are_not_those_of_the_summary() -> None:
    asked = Recorder()
    schema = {"type": "json_schema", "name": "s", "schema": {"type": "object"}}
    limits = {"max_output_tokens": 20, "stop": "tea", "top_logprobs": 2, "text": {"format": schema}}
    run(SUMMARY, text("{}"), on_ask=asked, **limits)
    sent = {"max_tokens", "stop", "logprobs", "response_format"}
    assert [sent & chat.keys() for chat in asked.chats] == [set(), sent]


def test_the_thoughts_of_the_summary_are_not_shown() -> None:
    thoughtful = answer(chunk({"reasoning_content": "Hm."}), chunk({"content": "They talked about tea."}))
    assert types(run(thoughtful, text("Hi"))) == ["compaction", "message"]


def test_an_image_in_the_last_message_is_kept() -> None:
    asked = Recorder()
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    question = {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, image]}
    run(SUMMARY, text("Tea."), on_ask=asked, input=[*HISTORY, question])
    assert [part["type"] for part in asked.chats[1]["messages"][-1]["content"]] == ["text", "image_url"]


def test_tools_that_the_gateway_runs_go_on_after_a_compaction() -> None:
    asked = Recorder()
    events = run_answers(
        {"input": ITEMS, "tools": [DICE], **MANAGED},
        SUMMARY,
        answer(call("roll", '{"sides": 6}'), finish="tool_calls"),
        text("Six."),
        run_tool=roll,
        on_ask=asked,
        tools={"dice": Dice()},
        sealer=SEALER,
    )
    assert types(events) == ["compaction", "dice_call", "message"]
    assert [message["role"] for message in asked.chats[2]["messages"]] == ["system", "user", "user", "assistant", "tool"]


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        (answer(), "no summary"),
        (text("They tal", finish="length"), "cut off"),
        ([chunk({"content": "They"}), b'data: {"error": {"code": 500, "message": "out of memory"}}\n\n'], "out of memory"),
        (failure_to_error(EngineFailure(400, "", "no")), "no"),
    ],
    ids=["empty", "cut off", "broken off", "refused"],
)
def test_without_a_summary_the_prompt_is_answered_as_it_is(summary: Any, reason: str) -> None:
    asked = Recorder()
    events = run(summary, text("Coffee is a drink."), on_ask=asked)
    assert (events[-1]["type"], types(events)) == ("response.completed", ["message"])
    assert contents(asked, 1) == ["Be kind", "Tell me about tea", LONG, "And coffee?"]
    if isinstance(summary, bytes):
        assert any("not compacted" in notice and reason in notice for notice in notices(summary, text("Hi")))


def test_an_engine_that_is_away_gives_way_to_the_next_for_the_answer_too() -> None:
    asked = Recorder()
    engines = [EngineKnowledge(PLAIN, [Model(id, 0, "me")]) for id in ("first", "second")]
    away = EngineUnavailable("gone")
    body = {"model": None, "input": ITEMS, **MANAGED}
    events = run_answers(body, away, SUMMARY, text("Hi"), engines=engines, on_ask=asked, sealer=SEALER)
    assert types(events) == ["compaction", "message"]
    assert asked.engines == [0, 1, 1]
    assert events[-1]["response"]["model"] == asked.chats[-1]["model"] == "second"


def test_of_a_response_that_is_cancelled_meanwhile_the_usage_of_the_summary_is_estimated() -> None:
    request = msgspec.convert({"model": "m", "input": ITEMS, "store": False, **MANAGED}, CreateResponse)
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment(sealer=SEALER))
    events = [*exchange.start(), *exchange.counted(2000)]
    assert exchange.compaction is not None
    exchange.compaction.receive(chunk({"reasoning_content": "Hm"}) + chunk({"content": "They tal"}))
    events += exchange.abort(Cancelled())
    assert isinstance(exchange.step, Estimate)
    assert [answer.written for answer in exchange.step.answers] == ["They tal"]
    events += [*exchange.estimated([USAGE]), *exchange.end()]
    last = checked(events)[-1]["response"]
    assert (last["status"], last["usage"]["total_tokens"]) == ("cancelled", 12)


def test_a_lesson_is_learned_from_the_summary() -> None:
    asked = Recorder()
    rejected = failure_to_error(EngineFailure(400, "", "Unrecognized request argument supplied: stream_options"))
    run_answers({"input": ITEMS, **MANAGED}, rejected, SUMMARY, text("Hi"), on_ask=asked, sealer=SEALER)
    assert ["stream_options" in chat for chat in asked.chats] == [True, False, False]


def test_a_prompt_that_is_too_long_for_the_summary_is_truncated_for_it() -> None:
    asked = Recorder()
    overflow = failure_to_error(EngineFailure(400, "", "the request exceeds the available context size"))
    history = [{"role": role, "content": f"{role} {n} {LONG}"} for n in range(4) for role in ("user", "assistant")]
    fields = {"input": [*history, QUESTION], "truncation": "auto"}
    events = run(overflow, SUMMARY, text("Hi"), on_ask=asked, **fields)
    assert types(events) == ["compaction", "message"]
    assert len(asked.chats[1]["messages"]) < len(asked.chats[0]["messages"])
    assert len(contents(asked, 2)) == 2


def test_it_is_compacted_once_even_if_the_prompt_stays_too_long() -> None:
    asked = Recorder()
    run(SUMMARY, text("Hi"), on_ask=asked, input=[*HISTORY, {"role": "user", "content": LONG}])
    assert contents(asked, 1) == ["Be kind", "They talked about tea.", LONG]


def test_where_there_is_too_little_to_compact_nothing_is() -> None:
    one = [{"role": "developer", "content": "Be kind"}, {"role": "user", "content": LONG}]
    assert any("too little" in notice for notice in notices(text("Hi"), input=one))
    assert types(run(text("Hi"), input=one)) == ["message"]


# ---- when it happens -------------------------------------------------------------------------------------------------


def test_without_a_threshold_the_context_window_counts() -> None:
    fields: dict[str, Any] = {"context_management": [{"type": "compaction"}]}
    for window, compacts in ((1000, True), (2000, False)):
        known = [EngineKnowledge(PLAIN, [Model("m", 0, "x", window)])]
        answers = [SUMMARY, text("Hi")] if compacts else [text("Hi")]
        events = run_answers({"input": ITEMS, **fields}, *answers, engines=known, sealer=SEALER)
        assert ("compaction" in types(events)) is compacts
    assert any("context window" in notice for notice in notices(text("Hi"), **fields))


def test_without_a_sealer_it_is_ignored_with_a_notice() -> None:
    assert any("no sealer" in notice for notice in notices(text("Hi"), sealer=NO_SEALER))


def test_a_trigger_compacts_whatever_the_threshold_is() -> None:
    asked = Recorder()
    assert types(run(SUMMARY, on_ask=asked, input=[*ITEMS, {"type": "compaction_trigger"}])) == ["compaction"]
    assert len(asked.chats) == 1


def test_the_caller_counts() -> None:
    request = msgspec.convert({"model": "m", "input": "Hi", **MANAGED}, CreateResponse)
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment(sealer=SEALER))
    assert isinstance(exchange.step, Count)
    assert exchange.step.chat is exchange.chat
    exchange.counted(1000)
    assert isinstance(exchange.step, Ask)


@pytest.mark.parametrize(
    ("entries", "param"),
    [
        ([{"type": "clear"}], "context_management[0].type"),
        ([{}], "context_management[0].type"),
        ([{"type": "compaction", "compact_threshold": 999}], "context_management[0].compact_threshold"),
        ([], "context_management"),
    ],
)
def test_a_wrong_entry_is_a_bad_request_that_names_it(entries: list[Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        begun({"model": "m", "input": "Hi", "context_management": entries})
    assert caught.value.param == param


def begun(body: dict[str, Any]) -> Exchange:
    request, _ = body_to_request(msgspec.json.encode(body))
    return Exchange(request, [EngineKnowledge(PLAIN)], make_environment(sealer=SEALER))
