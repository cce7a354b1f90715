"""Many engine answers in one response: calls that the gateway runs, those that it does not run, and what the model is told."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from support.engine import answer, call, chunk, text
from support.exchanges import Recorder, make_environment, run_answers
from support.toy_tool import DICE, NATIVE, Dice, KnownDice, known_dice_to_chat, roll

from antiphon.core.checks.work import CheckOutcome, SchemaWork
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Check, RunTools, ToolCall
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model
from antiphon.core.prompt.item_types import ITEM_TYPES
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.errors import EngineError
from antiphon.wire.chat import ChatFunction
from antiphon.wire.responses import CreateResponse

TOOLS = {"dice": KnownDice()}
F = {"type": "function", "name": "f"}
STRICT = {**F, "strict": True, "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
Item = dict[str, Any]


def rolls(*sides: int, first: int = 0) -> bytes:
    calls = (call("roll", f'{{"sides": {n}}}', id=f"c{first + at}", index=at) for at, n in enumerate(sides))
    return answer(*calls, finish="tool_calls")


def run(request: Item, *answers: Any, asked: Recorder | None = None, **options: Any) -> Item:
    events = run_answers(
        {"tools": [DICE], **request}, *answers, **{"run_tool": roll, "tools": TOOLS, "on_ask": asked or Recorder(), **options}
    )
    response: Item = events[-1]["response"]
    return response


def kinds(response: Item) -> list[str]:
    return [item["type"] for item in response["output"]]


def results(chat: Item) -> list[str]:
    return [message["content"] for message in chat["messages"] if message["role"] == "tool"]


@pytest.fixture(autouse=True)
def _converts_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ITEM_TYPES, "mcp_call", structs.replace(ITEM_TYPES["mcp_call"], to_chat=known_dice_to_chat))


# ---- max_tool_calls --------------------------------------------------------------------------------------------------


def test_calls_past_the_limit_are_not_run_and_the_model_is_told_and_goes_on() -> None:
    asked, ran = Recorder(), []

    def counted(call: ToolCall) -> ToolResult:
        ran.append(call.id)
        return roll(call)

    answers = rolls(6, 20), rolls(4, 8, first=2), text("Enough.")
    response = run({"max_tool_calls": 3}, *answers, asked=asked, run_tool=counted)
    assert kinds(response) == [*["mcp_call"] * 3, "message"]
    assert [item.get("output") for item in response["output"]] == ["6", "20", "4", None]
    assert sorted(ran) == ["c0", "c1", "c2"]
    said = results(asked.chats[-1])
    assert said[:3] == ["6", "20", "4"]
    assert said[3].startswith("This call was not carried out: at most 3 such calls")
    assert "tools" in asked.chats[-1], "it may still call, and is told again"
    assert response["antiphon_notices"] == ["a call of roll was not run: max_tool_calls allows 3"]


def test_the_clients_own_calls_do_not_count() -> None:
    both = answer(call("f", "{}", id="a"), call("roll", '{"sides": 6}', id="b", index=1), finish="tool_calls")
    response = run({"tools": [DICE, F], "max_tool_calls": 1}, both)
    assert kinds(response) == ["function_call", "mcp_call"]


# ---- calls that cannot be run ----------------------------------------------------------------------------------------


def test_a_call_of_a_tool_that_is_not_there_is_answered_with_those_that_are() -> None:
    asked = Recorder()
    response = run({"tools": [DICE, F]}, answer(call("toss", "{}", id="a")), rolls(6, first=1), text("Six."), asked=asked)
    assert kinds(response) == ["mcp_call", "message"]
    called, told = asked.chats[1]["messages"][-2:]
    assert called["tool_calls"][0]["function"]["name"] == "toss"
    assert told["tool_call_id"] == "a"
    assert "no tool toss" in told["content"]
    assert "roll, f." in told["content"]
    assert "a call of toss was not run: there is no such tool, or it may not be called" in response["antiphon_notices"]


def test_without_hosted_tools_a_call_of_an_unknown_tool_is_the_clients() -> None:
    response = run({"tools": [F]}, answer(call("toss", "{}")))
    assert [(item["type"], item["name"]) for item in response["output"]] == [("function_call", "toss")]


@pytest.mark.parametrize("arguments", ['{"faces": 6}', '{"sides": "many"}', '"six"', "[6]", "sides 6", '{"sides": 6, "sid'])
def test_arguments_that_do_not_fit_are_answered_and_the_model_goes_on(arguments: str) -> None:
    asked = Recorder()
    response = run({}, answer(call("roll", arguments, id="a")), rolls(6, first=1), text("Six."), asked=asked)
    assert (kinds(response), len(asked.chats)) == (["mcp_call", "message"], 3)
    assert results(asked.chats[1])[0].startswith("This call was not carried out: ")
    assert "a call of roll was not run: its arguments do not fit the tool" in response["antiphon_notices"]


def test_a_tool_without_parameters_is_called_with_nothing() -> None:
    class Coin(KnownDice):
        def define(self, box: Toolbox, tool: Item, where: str, namespace: str | None = None) -> None:
            box.add(NATIVE, ChatFunction(name="", description=None, parameters={"type": "object", "properties": {}}), where)

    seen: list[str] = []

    def toss(call: ToolCall) -> ToolResult:
        seen.append(call.arguments)
        return ToolResult("heads")

    calls = call("roll", "", id="a"), call("roll", '{"n": 1', id="b", index=1)
    response = run({}, answer(*calls), text("Heads."), tools={"dice": Coin()}, run_tool=toss)
    assert seen == ["{}", '{"n": 1}']
    assert kinds(response) == ["mcp_call", "mcp_call", "message"]


def test_arguments_that_nearly_fit_are_repaired() -> None:
    response = run({}, answer(call("roll", '{"sides": "6"}'), call("roll", '{"sides": "8"}', index=1, id="b")), text("Six."))
    assert [item.get("output") for item in response["output"]] == ["6", "8", None]
    assert response["output"][1]["arguments"] == '{"sides":8}'


def test_a_constrained_engine_needs_no_check_of_arguments() -> None:
    request = CreateResponse(model="m", input="Hi", stream=True, store=False, tools=[DICE])
    knowledge = EngineKnowledge(replace(PLAIN, constrains_calls=True))
    exchange = Exchange(request, [knowledge], make_environment(tools=TOOLS))
    exchange.start()
    exchange.receive(rolls(6, 8))
    assert exchange.check is None
    exchange.finish()
    assert isinstance(exchange.step, RunTools)
    assert len(exchange.step.calls) == 2


def test_a_call_that_could_not_be_checked_in_time_is_run() -> None:
    request = CreateResponse(model="m", input="Hi", stream=True, store=False, tools=[DICE])
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment(tools=TOOLS))
    exchange.start()
    exchange.receive(rolls(6))
    exchange.finish()
    assert isinstance(exchange.step, Check)
    assert isinstance(exchange.step.work, SchemaWork)
    exchange.checked(CheckOutcome(unfinished=True))
    assert isinstance(exchange.step, RunTools)
    assert exchange.notices == ["a call of roll was not checked: its check took too long, or failed"]


def test_a_strict_call_of_the_clients_that_stays_wrong_is_answered_and_does_not_fail_the_response() -> None:
    wrong = answer(call("roll", '{"sides": 6}', id="a"), call("f", '{"n": []}', id="b", index=1), finish="tool_calls")
    asked = Recorder()
    response = run({"tools": [DICE, STRICT]}, wrong, text("Six."), asked=asked)
    assert kinds(response) == ["mcp_call", "message"]
    assert results(asked.chats[1])[1].startswith("This call was not carried out: ")


def test_a_required_call_that_was_not_run_is_still_required() -> None:
    asked = Recorder()
    bad = answer(call("roll", "{}", id="a"))
    response = run({"tool_choice": "required"}, bad, rolls(6, first=1), text("Six."), asked=asked)
    assert kinds(response) == ["mcp_call", "message"]
    assert [chat["tool_choice"] for chat in asked.chats] == ["required", "required", "auto"]


# ---- loops -----------------------------------------------------------------------------------------------------------


def test_the_same_call_three_times_in_a_row_ends_in_words() -> None:
    asked = Recorder()
    response = run({}, rolls(6), rolls(6, first=1), rolls(6, first=2), text("Six."), asked=asked)
    assert kinds(response) == ["mcp_call", "mcp_call", "message"]
    assert results(asked.chats[3])[2].startswith("This call was not carried out: you have made it twice before")
    assert ["tools" in chat for chat in asked.chats] == [True, True, True, False]
    assert response["antiphon_notices"] == [
        "the model made the same call again and again: it was asked to answer without tools",
        "a call of roll was not run: it was made in the two answers before, with the same arguments",
    ]


def test_a_small_model_in_a_loop_is_asked_for_the_answer_and_sees_nothing_of_the_third_call() -> None:
    asked = Recorder()
    response = run({}, rolls(6), rolls(6, first=1), rolls(6, first=2), text("Six."), asked=asked, help="full")
    assert kinds(response) == ["mcp_call", "mcp_call", "message"]
    last = asked.chats[3]
    assert "tools" not in last
    assert results(last) == results(asked.chats[2])
    assert last["messages"][-1] == {
        "role": "user",
        "content": "Answer my question now, in a few sentences, with the results that you have.",
    }


def test_calls_in_turn_end_when_nothing_new_was_called_for_three_answers() -> None:
    answers = rolls(6), rolls(8, first=1), rolls(6, first=2), rolls(8, first=3), rolls(6, first=4), text("Done.")
    response = run({}, *answers)
    assert kinds(response) == [*["mcp_call"] * 4, "message"]
    assert response["antiphon_notices"][-1] == (
        "a call of roll was not run: it was made before, with the same arguments, "
        "and so was every call of the two answers before"
    )


def test_another_call_between_equal_ones_is_no_loop() -> None:
    answers = rolls(6), rolls(8, first=1), rolls(6, first=2), rolls(6, first=3), text("Done.")
    assert kinds(run({}, *answers)) == [*["mcp_call"] * 4, "message"]


def test_equal_calls_of_one_answer_are_no_loop() -> None:
    assert kinds(run({}, rolls(6, 6, 6, 6), text("Done."))) == [*["mcp_call"] * 4, "message"]


def test_after_so_many_rounds_the_model_answers_without_tools_and_a_notice_says_so() -> None:
    asked = Recorder()
    response = run({}, rolls(6), rolls(8, first=1), text("Enough."), asked=asked, most_rounds=2)
    assert ["tools" in chat for chat in asked.chats] == [True, True, False]
    assert response["antiphon_notices"] == [
        "the model called tools 2 times in a row (tool_rounds): it was asked to answer without them"
    ]


def test_calls_that_are_never_run_come_to_an_end_too() -> None:
    unknown = [answer(call("toss", "{}", id=f"a{n}")) for n in range(3)]
    response = run({}, *unknown, text("Never mind."), most_rounds=3)
    assert (response["status"], kinds(response)) == ("completed", ["message"])


# ---- results ---------------------------------------------------------------------------------------------------------


def long_result(call: ToolCall) -> ToolResult:
    return ToolResult("x" * 1_000_000)


def test_a_result_is_cut_to_the_room_in_the_context_and_the_item_shows_what_the_model_saw() -> None:
    asked = Recorder()
    small = EngineKnowledge(PLAIN, [Model("m", 1, "us", window=8192)])
    response = run({}, rolls(6), text("Long."), asked=asked, run_tool=long_result, engines=[small])
    (seen,) = results(asked.chats[1])
    # Of the window, 17 tokens are used and a quarter is for the answer; a result may take half of the rest.
    room = (8192 - 17 - 2048) * 3 // 2
    assert (
        seen == "x" * room + f"\n[{1_000_000 - room} characters of this result were left out here: there is no room for more.]"
    )
    assert response["output"][0]["output"] == seen


def test_results_of_one_answer_share_the_room() -> None:
    asked = Recorder()
    small = EngineKnowledge(PLAIN, [Model("m", 1, "us", window=8192)])
    run({"max_output_tokens": 1000}, rolls(6, 8), text("Long."), asked=asked, run_tool=long_result, engines=[small])
    assert [len(seen.partition("\n")[0]) for seen in results(asked.chats[1])] == [(8192 - 17 - 1000) * 3 // 4] * 2


def test_where_the_window_is_not_known_a_result_has_a_fixed_bound() -> None:
    asked = Recorder()
    run({}, rolls(6), text("Long."), asked=asked, run_tool=long_result)
    assert len(results(asked.chats[1])[0].partition("\n")[0]) == 100_000


def test_a_notice_of_a_tool_is_a_notice_of_the_response() -> None:
    response = run({}, rolls(6), text("Six."), run_tool=lambda call: ToolResult("6", notice="the die was loaded"))
    assert response["antiphon_notices"] == ["the die was loaded"]


# ---- what the response says of it ------------------------------------------------------------------------------------


def test_each_round_has_its_own_reasoning_and_usage_is_the_sum() -> None:
    thought = [chunk({"reasoning_content": words}) for words in ("First.", "Again.", "Done.")]
    answers = (
        answer(thought[0], call("roll", '{"sides": 6}', id="a"), finish="tool_calls"),
        answer(thought[1], call("roll", '{"sides": 8}', id="b"), finish="tool_calls"),
        answer(thought[2], chunk({"content": "Both."})),
    )
    response = run({}, *answers)
    assert kinds(response) == ["reasoning", "mcp_call", "reasoning", "mcp_call", "reasoning", "message"]
    assert [item["content"][0]["text"] for item in response["output"] if item["type"] == "reasoning"] == [
        "First.",
        "Again.",
        "Done.",
    ]
    assert response["usage"]["total_tokens"] == 3 * 17


def test_a_response_with_hosted_tools_reports_what_they_were_used_for() -> None:
    class Search(KnownDice):
        def define(self, box: Toolbox, tool: Item, where: str, namespace: str | None = None) -> None:
            for name in ("web_search", "open_page"):
                box.add(ToolIdentity("web_search", name), ChatFunction(name="", description=None, parameters={}), where)

    searched = answer(call("web_search", "{}", id="a"), call("open_page", "{}", id="b", index=1), finish="tool_calls")
    tools = {"web_search": Search()}
    request = {"tools": [{"type": "web_search"}]}
    response = run(request, searched, text("Found."), tools=tools, run_tool=lambda call: ToolResult("found"))
    assert response["tool_usage"]["web_search"] == {"num_requests": 1}
    assert response["tool_usage"]["image_gen"]["total_tokens"] == 0
    assert run({}, text("No."))["tool_usage"]["web_search"] == {"num_requests": 0}
    assert "tool_usage" not in run({"tools": [F]}, text("No."))


def test_a_call_of_a_tool_that_has_an_effect_says_so() -> None:
    class Mail(KnownDice):
        def define(self, box: Toolbox, tool: Item, where: str, namespace: str | None = None) -> None:
            super().define(box, tool, where, namespace)
            box.not_idempotent.add(NATIVE)

    seen: list[bool] = []

    def note(call: ToolCall) -> ToolResult:
        seen.append(call.idempotent)
        return roll(call)

    run({}, rolls(6), text("Six."), run_tool=note)
    run({}, rolls(6), text("Six."), run_tool=note, tools={"dice": Mail()})
    assert seen == [True, False]


# ---- the history of what follows -------------------------------------------------------------------------------------


ROUNDS: dict[str, Sequence[bytes]] = {
    "one call": [rolls(6)],
    "calls of one answer": [rolls(6, 8)],
    "calls of two answers": [rolls(6), rolls(8, first=1)],
    "both": [rolls(6, 8), rolls(4, 10, first=2), rolls(12, first=4)],
    "words before a call": [answer(chunk({"content": "Let me see."}), call("roll", '{"sides": 6}', id="a"))],
    "thoughts before calls": [
        answer(chunk({"reasoning_content": "Hm."}), call("roll", '{"sides": 6}', id="a")),
        answer(chunk({"reasoning_content": "Again."}), call("roll", '{"sides": 8}', id="b")),
    ],
    "words after a call": [answer(call("roll", '{"sides": 6}', id="a"), chunk({"content": "I have rolled."}))],
    "a call without arguments that fit": [rolls(6), answer(call("roll", '{"sides":7 }', id="b"))],
}


@pytest.mark.parametrize("answers", ROUNDS.values(), ids=ROUNDS)
def test_the_next_request_begins_with_the_messages_of_the_last_round(answers: Sequence[bytes]) -> None:
    asked = Recorder()
    first = run({}, *answers, text("Done."), asked=asked)
    user = {"role": "user", "content": "Hi"}
    run({"input": [user, *first["output"], {"role": "user", "content": "More"}]}, text("Yes."), asked=asked)
    *_, last, continued = (chat["messages"] for chat in asked.chats)
    assert continued[: len(last)] == last
    assert [message["role"] for message in continued[len(last) :]] == ["assistant", "user"]


@pytest.mark.parametrize("order", [("f", "roll"), ("roll", "f"), ("roll", "f", "roll", "f")], ids=" ".join)
def test_calls_of_the_gateway_and_of_the_client_in_one_answer_stay_one_message(order: Sequence[str]) -> None:
    arguments = {"f": "{}", "roll": '{"sides": 6}'}
    calls = [call(name, arguments[name], id=f"c{at}", index=at) for at, name in enumerate(order)]
    asked = Recorder()
    first = run({"tools": [DICE, F]}, answer(*calls, finish="tool_calls"), asked=asked)
    assert first["status"] == "completed"
    assert kinds(first) == [{"f": "function_call", "roll": "mcp_call"}[name] for name in order]
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    history = [{"role": "user", "content": "Hi"}, *first["output"], *outputs]
    second = run({"tools": [DICE, F], "input": history}, rolls(8, first=9), text("Yes."), asked=asked)
    called, *told = asked.chats[1]["messages"][1:]
    assert [each["function"]["name"] for each in called["tool_calls"]] == list(order)
    assert [each["tool_call_id"] for each in told] == [each["id"] for each in called["tool_calls"]]
    assert [each["content"] for each in told] == [{"f": "done", "roll": "6"}[name] for name in order]
    run(
        {"tools": [DICE, F], "input": [*history, *second["output"], {"role": "user", "content": "More"}]},
        text("."),
        asked=asked,
    )
    messages = [chat["messages"] for chat in asked.chats]
    for shorter, longer in itertools.pairwise(messages):
        assert longer[: len(shorter)] == shorter


# ---- however the engine's bytes are split ----------------------------------------------------------------------------


TWO_ROUNDS = (
    answer(chunk({"reasoning_content": "Hm."}), call("roll", '{"sides": 6}', id="a"), call("toss", "{}", id="b", index=1)),
    answer(
        chunk({"content": "Two more."}), call("roll", '{"sides": 8}', id="c"), call("roll", '{"sides": "9"}', id="d", index=1)
    ),
    text("Six, ", "eight and nine."),
)


def cut(data: bytes, cuts: Sequence[int]) -> Sequence[bytes]:
    edges = sorted({0, len(data), *(at % (len(data) + 1) for at in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def events_of(split: Callable[[bytes], Any]) -> list[Item]:
    return run_answers({"tools": [DICE]}, *map(split, TWO_ROUNDS), run_tool=roll, tools={"dice": Dice()})


@given(st.lists(st.integers(0, 10_000), max_size=40))
def test_the_events_of_two_rounds_do_not_depend_on_how_the_bytes_are_split(cuts: list[int]) -> None:
    assert events_of(lambda data: cut(data, cuts)) == events_of(lambda data: data)


def test_a_late_result_of_a_response_that_was_aborted_changes_nothing() -> None:
    request = CreateResponse(model="m", input="Hi", stream=True, store=False, tools=[DICE])
    exchange = Exchange(request, [EngineKnowledge(PLAIN)], make_environment(tools=TOOLS))
    exchange.start()
    exchange.receive(rolls(6))
    exchange.finish()
    while isinstance(step := exchange.step, Check):
        exchange.checked(CheckOutcome('{"sides": 6}'))
    assert isinstance(step, RunTools)
    exchange.abort(EngineError("gone"))
    assert exchange.tool_result(step.calls[0].id, ToolResult("6")) == []
    assert not isinstance(exchange.step, Ask)
