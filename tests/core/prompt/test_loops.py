"""Loops: which calls are one, what the model is told about them, and which tools it may call then."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.codex_tools import APPLY_PATCH, EXEC_COMMAND
from support.demands import complaint
from support.engine import answer, call, objection, text
from support.exchanges import Recorder, run_answers
from support.items import assistant, call_output, function_call, user
from support.operations import assert_linear, count_calls
from support.toy_tool import DICE, Dice, roll

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME, LLAMACPP, PLAIN
from antiphon.core.knowledge.help import FULL_HELP, NO_HELP, Help
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.prompt.loops import ENDED_AT, MOST_TURNS, find_loops, offer_without
from antiphon.core.prompt.results import Result, result_of
from antiphon.core.prompt.turns import AssistantTurn, Call, UserTurn
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.choice import Offer
from antiphon.wire.chat import ChatFunction, ChatTool

Item = dict[str, Any]
HELP = Help(stops_loops=True, reason="the model is small")
TOOLS = [{"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}} for name in ("f", "g")]
FAILURE = "write_stdin failed: Unknown process id 7"
UNUSABLE = "No usable execution environment is available. Wait for an environment to become available before using this tool."


def converted(
    items: list[Item], *, help: Help = HELP, dialect: Dialect = PLAIN, tools: list[Item] = TOOLS, **fields: Any
) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": items, "tools": tools, **fields}))
    return request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m", help=help))


def body(items: list[Item], **options: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(converted(items, **options).chat))


def step(number: int, output: Any, *, name: str = "f", arguments: str = '{"a": 1}') -> list[Item]:
    return [function_call(f"c{number}", name, arguments), call_output(f"c{number}", output)]


def steps(*outputs: Any, **options: Any) -> list[Item]:
    return [item for at, output in enumerate(outputs) for item in step(at, output, **options)]


def results(items: list[Item], **options: Any) -> list[str]:
    return [message["content"] for message in body(items, **options)["messages"] if message["role"] == "tool"]


def noted(items: list[Item], **options: Any) -> list[bool]:
    """Of each result: whether it ends with a note."""
    return ["Do not make it again" in each for each in results(items, **options)]


CODEX = (
    "Chunk ID: {id}\nWall time: {time} seconds\nProcess exited with code {code}\nOriginal token count: 1\nOutput:\n{output}\n"
)


# ---- what is a loop --------------------------------------------------------------------------------------------------


def test_the_third_failure_of_the_same_call_says_what_to_do_instead() -> None:
    third = results([user("Hi"), *steps(FAILURE, FAILURE, FAILURE)])[-1]
    assert third == (
        f"{FAILURE}\nThis call has failed 3 times with the same arguments. Do not make it again. "
        "Use another tool or other arguments, or tell the user what is wrong."
    )


def test_the_results_before_the_third_stay_as_they_are() -> None:
    assert results([user("Hi"), *steps(FAILURE, FAILURE, FAILURE)])[:2] == [FAILURE, FAILURE]


def test_a_note_follows_the_last_line_of_the_output() -> None:
    failed = CODEX.format(id="2f", time=0.1, code=1, output="no")
    assert results([user("Hi"), *steps(failed, failed, failed)])[-1].startswith(f"{failed}This call has failed")


def failed_tests(at: int, failed: str) -> str:
    return CODEX.format(id=at, time=at, code=1, output=f"{failed} failed in {at} s")


def test_running_tests_again_after_a_change_is_no_loop_as_long_as_something_else_fails() -> None:
    items = [user("Hi")]
    for at, failed in enumerate(["test_a", "test_b", "test_c", "test_d"]):
        items += [*step(at, failed_tests(at, failed)), *step(10 + at, "saved", name="g", arguments=f'{{"b": {at}}}')]
    assert not any(noted(items))


def test_the_same_failure_after_every_change_is_a_loop() -> None:
    items = [user("Hi")]
    for at in range(3):
        items += [*step(at, failed_tests(at, "test_a")), *step(10 + at, "saved", name="g", arguments=f'{{"b": {at}}}')]
    assert noted(items) == [False, False, False, False, True, False]


def test_a_call_that_fails_again_and_again_in_a_row_counts_whatever_it_says() -> None:
    outputs = [CODEX.format(id=at, time=at, code=1, output=f"test {'abc'[at]} failed") for at in range(3)]
    assert noted([user("Hi"), *steps(*outputs)]) == [False, False, True]


def test_words_of_failure_count_only_if_they_are_the_same_but_for_numbers() -> None:
    assert noted([user("Hi"), *steps("error: a (1 ms)", "error: a (25 ms)", "error: a (3 ms)")]) == [False, False, True]
    assert noted([user("Hi"), *steps("error: a", "error: b", "error: a")]) == [False, False, False]


def test_other_calls_and_texts_may_be_between() -> None:
    items = [user("Hi")]
    for at in range(3):
        items += [assistant("Hm."), *step(at, FAILURE), *step(10 + at, "fine", name="g", arguments=f'{{"b": {at}}}')]
    assert noted(items) == [False, False, False, False, True, False]


def test_a_success_begins_anew() -> None:
    assert not any(noted([user("Hi"), *steps(FAILURE, FAILURE, "done", FAILURE, FAILURE)]))


def test_other_arguments_are_another_call_and_the_same_written_otherwise_are_not() -> None:
    same = ['{"a":1,"b":2}', '{"b": 2, "a": 1}', '{ "a": 1, "b": 2 }']
    items = [item for at, arguments in enumerate(same) for item in step(at, FAILURE, arguments=arguments)]
    assert noted([user("Hi"), *items]) == [False, False, True]
    items = [item for at in range(4) for item in step(at, FAILURE, arguments=f'{{"a": {at}}}')]
    assert not any(noted([user("Hi"), *items]))


def test_another_tool_with_the_same_arguments_is_another_call() -> None:
    items = [*step(0, FAILURE), *step(1, FAILURE, name="g"), *step(2, FAILURE), *step(3, FAILURE, name="g")]
    assert not any(noted([user("Hi"), *items]))


def test_a_user_ends_every_loop() -> None:
    items = [user("Hi"), *steps(FAILURE, FAILURE), user("I have started it. Try again."), *step(5, FAILURE)]
    assert not any(noted(items))


def test_an_empty_user_message_ends_none() -> None:
    items = [user("Hi")]
    for at in range(3):
        items += [*step(at, FAILURE), user("")]
    assert noted(items) == [False, False, True]


def test_calls_that_are_made_together_count_once() -> None:
    calls = [function_call(f"c{at}") for at in range(4)]
    outputs = [call_output(f"c{at}", FAILURE) for at in range(4)]
    items = [user("Hi"), *calls, *outputs]
    assert not any(noted(items))
    assert not converted(items).requirements.withheld


def test_a_call_without_an_output_does_not_count() -> None:
    assert not any(noted([user("Hi"), *steps(FAILURE, FAILURE), function_call("c9", "f", '{"a": 1}')]))


def test_the_same_result_three_times_in_a_row_is_a_loop_too() -> None:
    outputs = [CODEX.format(id=f"{at}f", time=at / 10, code=0, output="a.py") for at in range(3)]
    shown = results([user("Hi"), *steps(*outputs)])
    assert "Do not make it again" not in shown[1]
    assert shown[2].endswith(
        "This call was made 3 times with the same arguments, and the result was the same each time. Do not make it again: "
        "you have its result. Go on with the next step, or tell the user what you have found."
    )


def test_the_same_result_after_something_else_was_done_is_no_loop() -> None:
    items = [user("Hi")]
    for at in range(4):
        items += [*step(at, "12 passed"), *step(10 + at, "saved", name="g", arguments=f'{{"b": {at}}}')]
    assert not any(noted(items))


def test_another_result_of_the_same_call_is_no_loop() -> None:
    assert not any(noted([user("Hi"), *steps("1 %", "2 %", "3 %", "4 %")]))


def test_waiting_for_something_that_runs_is_no_loop() -> None:
    running = "Chunk ID: 1\nWall time: 5 seconds\nProcess running with session ID 7\nOutput:\n"
    assert not any(noted([user("Hi"), *steps(*[running] * 6)]))


def test_the_same_image_three_times_is_a_loop() -> None:
    def image(data: str) -> list[Item]:
        return [{"type": "input_image", "image_url": f"data:image/png;base64,{data}"}]

    assert noted([user("Hi"), *steps(image("aaaa"), image("aaaa"), image("aaaa"))]) == [False, False, True]
    assert not any(noted([user("Hi"), *steps(image("aaaa"), image("bbbb"), image("aaaa"))]))


def test_a_notice_names_the_call() -> None:
    notices = converted([user("Hi"), *steps(FAILURE, FAILURE, FAILURE)]).notices
    assert "call c2 of f ends a loop: a note in its result asks the model to do something else" in notices


# ---- without that tool -----------------------------------------------------------------------------------------------

FOUR = [user("Hi"), *steps(FAILURE, FAILURE, FAILURE, FAILURE)]


def test_the_fourth_time_the_tool_may_not_be_called_and_stays_in_the_prompt() -> None:
    conversion = converted(FOUR)
    assert conversion.requirements.only == frozenset("g")
    assert conversion.requirements.withheld == {"f": "the same call of it has failed 4 times"}
    assert body(FOUR)["tools"] == body(FOUR, help=NO_HELP)["tools"]
    assert body(FOUR)["tool_choice"] == "auto"
    assert "f may not be called in this answer: the same call of it has failed 4 times" in conversion.notices


def test_a_tool_that_gives_the_same_result_for_the_fourth_time_may_not_be_called_either() -> None:
    conversion = converted([user("Hi"), *steps(*["a.py"] * 4)])
    assert conversion.requirements.withheld == {"f": "the same call of it has given the same result 4 times"}


@pytest.mark.parametrize(
    "items",
    [
        FOUR[:-2],
        [*FOUR, user("Try again.")],
        [*FOUR, *step(9, "done", name="g")],
        [*FOUR, *step(9, "done", arguments='{"a": 2}')],
        [*FOUR, *step(9, "done")],
    ],
    ids=["three times", "a user's message", "another tool", "other arguments", "success"],
)
def test_a_tool_may_be_called_unless_its_loop_is_at_the_end(items: list[Item]) -> None:
    conversion = converted(items)
    assert conversion.requirements.only is None
    assert not conversion.requirements.withheld


def test_fewer_failures_are_progress() -> None:
    items: list[Item] = []
    for number in range(4):
        items += step(number, f"{5 - number} of 9 tests failed")
        items += step(10 + number, "done", name="g", arguments=f'{{"n": {number}}}')
    assert noted(items) == [False] * 8


def test_without_another_tool_there_is_none() -> None:
    sent = body(FOUR, tools=TOOLS[:1])
    assert "tools" not in sent
    assert "tool_choice" not in sent
    assert list(converted(FOUR, tools=TOOLS[:1]).requirements.withheld) == ["f"]


def test_a_choice_among_some_tools_loses_the_tool() -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": name} for name in ("f", "g")]}
    assert converted(FOUR, tool_choice=allowed).requirements.only == frozenset("g")


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
def test_a_call_that_is_required_is_one_of_another_tool(dialect: Dialect) -> None:
    conversion = converted(FOUR, dialect=dialect, tool_choice="required")
    assert conversion.requirements.only == frozenset("g")
    assert conversion.requirements.must_call
    if dialect.enforces_required:
        assert conversion.chat.tools
        assert [tool.function.name for tool in conversion.chat.tools] == ["g"]


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
@pytest.mark.parametrize(
    "choice",
    [
        {"type": "function", "name": "f"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
    ],
    ids=["named", "allowed"],
)
def test_a_client_that_requires_the_tool_itself_gets_it(choice: Item, dialect: Dialect) -> None:
    conversion = converted(FOUR, dialect=dialect, tool_choice=choice)
    assert conversion.requirements.only == frozenset("f")
    assert not conversion.requirements.withheld
    assert noted(FOUR, dialect=dialect, tool_choice=choice) == [False, False, True, True]


def test_the_choice_none_stays_none() -> None:
    conversion = converted(FOUR, tool_choice="none")
    assert not conversion.requirements.withheld
    assert not conversion.requirements.may_call


def test_a_constrained_offer_keeps_its_tools() -> None:
    tools = [ChatTool(ChatFunction(name)) for name in ("f", "g")]
    offer = offer_without(Offer(tools, "auto", ("f", "g"), must_call=True, constrained=True), {"f": "why"})
    assert (offer.tools, offer.only) == (tools, ("g",))


# ---- tools that the gateway runs ---------------------------------------------------------------------------------------


def test_a_loop_within_one_response_ends_too() -> None:
    asked = Recorder()
    rolls = answer(call("roll", '{"sides": 6}'), finish="tool_calls")
    request = {"model": "tiny-1.5b", "tools": [DICE, TOOLS[0]]}
    run_answers(request, *[rolls] * 3, text("Six."), on_ask=asked, run_tool=roll, tools={"dice": Dice()})
    before: list[Any] = []
    for chat in asked.chats:
        assert chat["messages"][: len(before)] == before
        before = chat["messages"]
    shown = [message["content"] for message in before if message["role"] == "tool"]
    assert shown == ["6", "6"]
    assert before[-1]["content"] == "Answer my question now, in a few sentences, with the results that you have."


def test_a_gateways_tool_is_not_run_a_third_time() -> None:
    rolls = answer(call("roll", '{"sides": 6}'), finish="tool_calls")
    request = {"model": "tiny-1.5b", "tools": [DICE, TOOLS[0]]}
    events = run_answers(request, *[rolls] * 3, text("Six."), run_tool=roll, tools={"dice": Dice()})
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["dice_call"] * 2 + ["message"]


# ---- dead ends -------------------------------------------------------------------------------------------------------


def attempts(*outputs: Any, names: str = "f", first: int = 0) -> list[Item]:
    """Calls that are all different, in a turn each."""
    return [
        item
        for at, output in enumerate(outputs, first)
        for item in step(at, output, name=names[at % len(names)], arguments=f'{{"a": {at}}}')
    ]


def told_of_dead_end(items: list[Item], **options: Any) -> list[bool]:
    return ["have failed with this same output" in each for each in results(items, **options)]


@pytest.mark.parametrize(("help", "output"), [(HELP, "error: no"), (HELP, UNUSABLE), (NO_HELP, UNUSABLE)])
def test_a_tool_all_of_whose_calls_fail_with_one_output_may_not_be_called(help: Help, output: str) -> None:
    four, five = ([user("Hi"), *attempts(*[output] * count)] for count in (4, 5))
    assert not converted(four, help=help).requirements.withheld
    assert told_of_dead_end(five, help=help) == [False] * 4 + [True]
    conversion = converted(five, help=help)
    assert conversion.requirements.withheld == {"f": "all calls of the last 5 turns have failed with the same output"}
    assert conversion.requirements.only == frozenset("g")
    reason = "f may not be called in this answer: all calls of the last 5 turns have failed with the same output"
    assert reason in conversion.notices


@pytest.mark.parametrize("help", [HELP, NO_HELP])
def test_a_model_that_moves_on_to_the_next_tool_soon_has_none(help: Help) -> None:
    items = [user("Hi"), *attempts(*[UNUSABLE] * 5), *attempts(UNUSABLE, names="g", first=5)]
    assert list(converted(items, help=help).requirements.withheld) == ["f", "g"]
    assert "tools" not in body(items, help=help)
    # It ends with an answer: from then on, all may be called.
    assert not converted([*items, assistant("I cannot.")], help=help).requirements.withheld
    assert not converted([*items, user("Try again.")], help=help).requirements.withheld


def test_the_same_failure_of_another_file_is_the_same_failure() -> None:
    files = [f'{{"path": "file{at}"}}' for at in range(5)]
    items = [item for at in range(5) for item in step(at, f"Failed to read /home/file{at}: No such file", arguments=files[at])]
    assert list(converted([user("Hi"), *items]).requirements.withheld) == ["f"]


def test_a_failure_of_another_tool_does_not_bring_a_tool_back_and_a_success_does() -> None:
    five = [user("Hi"), *attempts(*[UNUSABLE] * 5)]
    assert list(converted([*five, *step(9, "error: other", name="g")]).requirements.withheld) == ["f"]
    assert not converted([*five, *step(9, "done", name="g")]).requirements.withheld


def test_without_help_only_tools_that_cannot_be_used_are_withheld() -> None:
    """Five files that are not found may well be followed by one that is."""
    items = [user("Hi"), *attempts(*["error: file not found"] * 9)]
    assert not converted(items, help=NO_HELP).requirements.withheld
    assert told_of_dead_end(items, help=NO_HELP) == [False] * 9


def test_commands_that_find_nothing_are_no_dead_end() -> None:
    quiet = CODEX.format(id="2f", time=0.1, code=1, output="")
    assert not converted([user("Hi"), *attempts(*[quiet] * (ENDED_AT - 1))]).requirements.withheld


@pytest.mark.parametrize("help", [HELP, NO_HELP])
@pytest.mark.parametrize("tool_choice", ["required", {"type": "function", "name": "f"}])
def test_a_call_that_the_client_requires_is_made_in_a_dead_end_too(help: Help, tool_choice: Any) -> None:
    items = [user("Hi"), *attempts(*[UNUSABLE] * 6)]
    assert not converted(items, help=help, tools=TOOLS[:1], tool_choice=tool_choice).requirements.withheld


@given(
    st.sampled_from([UNUSABLE, "error: no"]),
    st.sampled_from(["done", "", "error: other", UNUSABLE + " Or not.", CODEX.format(id=1, time=1, code=0, output="x")]),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([HELP, NO_HELP]),
)
def test_one_result_that_differs_or_succeeds_leaves_a_conversation_alone(
    failure: str, other: str, before: int, after: int, beside: bool, help: Help
) -> None:
    first, rest = attempts(*[failure] * before), attempts(*[failure] * after, first=before + 1)
    between = [function_call("other", "f", '{"b": 1}'), call_output("other", other)]
    if beside:
        # In one turn with a call that fails.
        between = [between[0], function_call("fails", "f", '{"c": 1}'), between[1], call_output("fails", failure)]
    # Nothing but failures comes to an end, whatever they say.
    assume(result_of(other) is Result.SUCCEEDED or before + after + 1 < ENDED_AT)
    items = [user("Hi"), *first, *between, *rest]
    conversion = converted(items, help=help)
    assert not conversion.requirements.withheld
    assert not any(told_of_dead_end(items, help=help))
    assert converted(items, help=NO_HELP).chat == conversion.chat


# ---- a call that has just succeeded ------------------------------------------------------------------------------------


def made(items: list[Item], **options: Any) -> list[str]:
    """The tools of which a call is not made again at once."""
    made: Any = converted(items, **options).requirements.made
    return sorted(name for name, _ in made)


def test_a_call_that_has_succeeded_is_not_made_again_at_once() -> None:
    once = [user("Hi"), *steps("done")]
    assert made(once) == ["f"]
    required = converted(once).requirements
    assert required.is_made("f", '{ "a": 1 }')
    assert not required.is_made("f", '{"a": 2}')
    assert not required.is_made("g", '{"a": 1}')
    assert made(once, help=NO_HELP) == []


@pytest.mark.parametrize(
    "items",
    [
        steps(FAILURE),
        [*steps("done"), user("Again, please.")],
        steps("Process running with session ID 7\nOutput:\n"),
        steps("1 %", "2 %"),
        [*step(0, "1 %"), *step(1, "error: x", name="g"), *step(2, "2 %")],
        [function_call("c0", "f", '{"a": 1}')],
    ],
    ids=["a failure", "a user's message", "it still runs", "another result", "another result later", "no result"],
)
def test_a_call_may_be_made_again(items: list[Item]) -> None:
    assert made([user("Hi"), *items]) == []


def test_what_asks_for_a_status_may_be_called_again_until_the_status_stays_the_same() -> None:
    tools = [{**TOOLS[0], "name": "order_status"}, TOOLS[1]]
    assert made([user("Hi"), *step(0, "sent", name="order_status")], tools=tools) == []
    assert made([user("Hi"), *steps("sent", "sent", name="order_status")], tools=tools) == ["order_status"]


def test_a_tool_that_a_setting_names_may_always_be_called_again() -> None:
    request, _ = body_to_request(msgspec.json.encode({"input": [user("Hi"), *steps("done", "done")], "tools": TOOLS}))
    inputs = ChatInputs(request, request_to_items(request), PLAIN, "m", help=HELP, polls=("f*",))
    assert not request_to_chat(inputs).requirements.made


def act(number: int, output: str, name: str = "send_message") -> list[Item]:
    return step(number, output, name=name, arguments='{"to": "Ann"}')


def tools_named(*named: tuple[str, str]) -> list[Item]:
    return [{**TOOLS[0], "name": name, "description": description} for name, description in named]


ACTS = tools_named(
    ("send_message", "Send a message."), ("get_time", "The time."), ("soil", "Measures the soil."), ("run_tests", "Runs tests.")
)
SENT = [user("Hi"), *act(0, "sent")]


def test_what_may_have_changed_something_is_made_once_whatever_was_called_since() -> None:
    others = [*step(1, "ten", name="get_time"), *step(2, "error: no", name="g"), *step(3, "wet", name="soil")]
    assert made([*SENT, *others], tools=ACTS) == ["send_message", "soil"], "the last one was made at once"
    assert made([*SENT, *others, *step(4, "11", name="get_time", arguments='{"a": 2}')], tools=ACTS) == [
        "get_time",
        "send_message",
    ]
    required = converted([*SENT, *others], tools=ACTS).requirements
    assert required.is_made("send_message", '{ "to":"Ann" }')
    assert not required.is_made("send_message", '{"to": "Bob"}')
    assert not required.is_made("get_time", '{"a": 1}')
    assert made([*SENT, *others], tools=ACTS, help=NO_HELP) == []


@pytest.mark.parametrize(
    "items",
    [
        [*SENT, *step(1, "ten", name="get_time"), user("Once more, please."), *step(2, "11", name="get_time")],
        [user("Hi"), *act(0, "error: no network"), *step(2, "11", name="get_time")],
        [
            user("Hi"),
            *act(0, "sent to 1"),
            *step(1, "ten", name="get_time"),
            *act(2, "sent to 2"),
            *step(3, "ten", name="get_time"),
        ],
        [user("Hi"), *act(0, "3 passed", "run_tests"), *step(1, "11", name="get_time")],
        [user("Hi"), *act(0, "3 passed", "next_page"), *step(1, "11", name="get_time")],
    ],
    ids=["a user's message", "it failed", "its results differ", "programs run again", "it polls"],
)
def test_what_may_have_changed_something_may_be_made_again(items: list[Item]) -> None:
    assert made(items, tools=[*ACTS, {**TOOLS[0], "name": "next_page"}]) == ["get_time"]


@pytest.mark.parametrize(
    "result",
    [
        "Ada is not registered yet.",
        "Please log in first.",
        "The card was declined: insufficient funds.",
        "You can't do that on Sundays.",
        '{"sent": false}',
    ],
)
def test_a_call_whose_result_says_no_may_be_made_again_when_the_cause_is_gone(result: str) -> None:
    assert made([user("Hi"), *act(0, result)], tools=ACTS) == ["send_message"], "not at once"
    assert made([user("Hi"), *act(0, result), *step(1, "ten", name="get_time")], tools=ACTS) == ["get_time"]
    long = f"{result} It was sent all the same. {'Here is what was sent. ' * 10}"
    assert made([user("Hi"), *act(0, long), *step(1, "ten", name="get_time")], tools=ACTS) == ["get_time", "send_message"]


@pytest.mark.parametrize("name", ["enroll_student", "run_payroll", "create_poll", "update_status", "add_to_watchlist"])
def test_a_tool_that_does_something_does_not_poll_whatever_letters_its_name_has(name: str) -> None:
    tools = [*ACTS, {**TOOLS[0], "name": name}]
    assert made([user("Hi"), *act(0, "ok", name)], tools=tools) == [name]
    assert made([user("Hi"), *act(0, "ok", name), *step(1, "ten", name="get_time")], tools=tools) == sorted([name, "get_time"])


@pytest.mark.parametrize("name", ["browser_click", "scroll_down", "mcp__game__undo", "nextPage", "orderStatus"])
def test_what_acts_on_a_screen_or_asks_how_something_is_may_be_called_again_at_once(name: str) -> None:
    assert made([user("Hi"), *act(0, "ok", name)], tools=[*ACTS, {**TOOLS[0], "name": name}]) == []


@pytest.mark.parametrize(
    "added",
    [
        "<system-reminder>\nUse the list of tasks.\n</system-reminder>\n",
        "\n<system-reminder>One.</system-reminder> <system-reminder>Two.</system-reminder>",
        "",
    ],
)
def test_what_a_client_adds_by_itself_is_no_message_of_the_user(added: str) -> None:
    again = [*step(1, "ten", name="get_time"), user(added)]
    assert made([*SENT, user(added), *again], tools=ACTS) == ["get_time", "send_message"]
    assert made([*SENT, *step(1, "ten", name="get_time"), {"role": "developer", "content": "Be brief."}], tools=ACTS) == [
        "get_time",
        "send_message",
    ]


@pytest.mark.parametrize(
    "said",
    ["<system-reminder>One.</system-reminder> Again, please.", "<system-reminder>", "Hm. <system-reminder></system-reminder>"],
)
def test_what_the_user_says_beside_it_is(said: str) -> None:
    assert made([*SENT, user(said)], tools=ACTS) == []


def test_an_answer_in_words_between_does_not_allow_a_call_a_second_time() -> None:
    assert made([*SENT, assistant("I sent it."), *step(1, "ten", name="get_time")], tools=ACTS) == ["get_time", "send_message"]
    assert made([*SENT, assistant("I sent it.")], tools=ACTS) == ["send_message"]


def test_a_pattern_of_the_operator_allows_it() -> None:
    sent = msgspec.json.encode({"input": [*SENT, *step(1, "ten", name="get_time")], "tools": ACTS})
    request, _ = body_to_request(sent)
    inputs = ChatInputs(request, request_to_items(request), PLAIN, "m", help=HELP, polls=("send_*",))
    requirements = request_to_chat(inputs).requirements
    assert not requirements.is_made("send_message", '{"to": "Ann"}')
    assert requirements.is_made("get_time", '{"a": 1}')


def test_what_an_easy_function_writes_may_be_written_again() -> None:
    """A file is as it is, however often that is written; and a command is run again after a change."""
    write = {"path": "a.txt", "content": "x"}
    patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"
    called = {"type": "custom_tool_call", "call_id": "c0", "name": "apply_patch", "input": patch}
    output = {"type": "custom_tool_call_output", "call_id": "c0", "output": "Success."}
    items = [user("Hi"), called, output, *step(1, "1", name="exec_command", arguments='{"cmd": "cat a.txt"}')]
    required = converted(items, tools=[APPLY_PATCH, EXEC_COMMAND], help=FULL_HELP).requirements
    assert not required.is_made("write_file", json.dumps(write))
    assert required.is_made("read_file", '{"path": "a.txt"}'), "that was just done"


def test_a_second_message_is_not_sent_when_another_call_was_made_between() -> None:
    asked = Recorder()
    again = answer(call("send_message", '{"to": "Ann"}'), finish="tool_calls")
    items = [*SENT, *step(1, "ten", name="get_time")]
    request = {"model": "tiny-1.5b", "tools": ACTS, "input": items}
    events = run_answers(request, again, text("It was sent at ten."), on_ask=asked)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]
    assert asked.chats[1]["messages"][-1]["content"].startswith("send_message has done this already.")


def test_such_a_call_is_asked_for_again_unseen_and_once() -> None:
    asked = Recorder()
    again = answer(call("f", '{"a": 1}'), finish="tool_calls")
    items = [user("Hi"), *steps("done")]
    events = run_answers({"model": "tiny-1.5b", "tools": TOOLS, "input": items}, again, text("It is done."), on_ask=asked)
    first, second = (chat["messages"] for chat in asked.chats)
    words = "f has done this already. Do the next step if one is left, and otherwise answer me in words."
    assert second == [*first, {"role": "user", "content": words}]
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]
    events = run_answers({"model": "tiny-1.5b", "tools": TOOLS, "input": items}, again, again)
    assert events[-1]["response"]["output"] == []
    assert events[-1]["response"]["status"] == "completed"


@pytest.mark.parametrize(("names", "left"), [("fg", ["g", "say"]), ("f", ["say"])])
def test_asked_again_a_constrained_answer_is_another_call_or_words(names: str, left: list[str]) -> None:
    asked = Recorder()
    parameters = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tools = [{"type": "function", "name": name, "parameters": parameters} for name in names]
    again, said = text('[{"name": "f", "arguments": {"a": 1}}]'), text('{"name": "say", "arguments": {"text": "It is done."}}')
    request = {"model": "tiny-1.5b", "tools": tools, "input": [user("Hi"), *steps("done")]}
    events = run_answers(request, again, said, on_ask=asked, help="full", dialect=LLAMACPP)
    assert [item["content"][0]["text"] for item in events[-1]["response"]["output"]] == ["It is done."]
    assert [name for name in ("g", "say", "f") if f'\\"{name}\\"' in asked.chats[1]["grammar"]] == left


# ---- nothing goes on without end ---------------------------------------------------------------------------------------


def test_when_everything_fails_the_model_has_to_say_so() -> None:
    failures = [f"error: {word}" for word in "abcdefgh"]
    seven, eight = ([user("Hi"), *attempts(*failures[:count], names="fg")] for count in (ENDED_AT - 1, ENDED_AT))
    assert not converted(seven).requirements.withheld
    conversion = converted(eight)
    assert sorted(conversion.requirements.withheld) == ["f", "g"]
    assert results(eight)[-1] == (
        f"{failures[-1]}\nCall no more tools now, because everything has failed in the last 8 turns. Answer in your own words: "
        "say what you have tried, what was done, and what went wrong."
    )
    assert results(eight)[:-1] == results(seven)
    assert not converted([*eight, user("Try again.")]).requirements.withheld
    assert not converted(eight, help=NO_HELP).requirements.withheld


def test_where_tools_are_in_words_the_prompt_stays_as_it_was_when_none_may_be_called() -> None:
    in_words = replace(PLAIN, shows_tools=False)
    earlier, at_end = ([user("Hi"), *steps(*[FAILURE] * count)] for count in (ENDED_AT - 1, ENDED_AT))
    before, after = (body(items, dialect=in_words)["messages"] for items in (earlier, at_end))
    assert after[: len(before)] == before
    assert converted(at_end, dialect=in_words).offer.only == ()


def test_a_constrained_answer_at_the_end_can_only_be_one_in_words_and_the_prompt_stays_as_it_was() -> None:
    failures = [f"error: {word}" for word in "abcdefgh"]
    items = [user("Hi"), *attempts(*failures, names="fg")]
    before, sent = body(items[:-2], help=FULL_HELP, dialect=LLAMACPP), body(items, help=FULL_HELP, dialect=LLAMACPP)
    assert sent["tools"] == before["tools"]
    assert sent["messages"][: len(before["messages"])] == before["messages"]
    schema = sent["response_format"]["json_schema"]["schema"]
    assert schema["items"]["properties"]["name"] == {"const": "say"}


def test_a_failure_that_comes_back_between_other_successes_ends_too() -> None:
    items = [user("Hi")]
    for at in range(ENDED_AT):
        items += [*step(at, "error: no"), *step(10 + at, f"saved {at}", name="g", arguments=f'{{"b": {at}}}')]
    assert sorted(converted(items[:-2]).requirements.withheld) == ["f", "g"]


def test_turns_without_end_come_to_an_end() -> None:
    items = [user("Hi"), *attempts(*(f"fine {at}" for at in range(MOST_TURNS)))]
    assert converted(items).requirements.withheld
    assert not converted(items[:-2]).requirements.withheld


def test_the_same_failing_file_by_another_path_is_the_same_call() -> None:
    paths = ["notes.txt", "/home/me/notes.txt", "./notes.txt"]
    items = [user("Hi")]
    for at, path in enumerate(paths):
        items += step(at, f"cat: {path}: No such file or directory", arguments=json.dumps({"path": path}))
    assert noted(items) == [False, False, True]


def test_a_failure_that_its_item_reports_is_one() -> None:
    outputs = [{**call_output(f"c{at}", "The printer is on."), "status": "incomplete"} for at in range(3)]
    items = [user("Hi"), *(item for at in range(3) for item in (function_call(f"c{at}", "f", '{"a": 1}'), outputs[at]))]
    assert results(items)[-1].startswith("The printer is on.\nThis call has failed 3 times")
    assert made(items) == []


def test_a_sentence_of_ours_in_the_prompt_is_no_part_of_an_answer() -> None:
    items = [user("Hi"), *steps(FAILURE, FAILURE, FAILURE)]
    said = text("There is no process 7. Do not make it", " again. I give up.")
    response = run_answers({"model": "tiny-1.5b", "tools": TOOLS, "input": items}, said)[-1]["response"]
    assert response["output"][0]["content"][0]["text"] == "There is no process 7. I give up."
    assert any("repeated what it was told" in notice for notice in response["antiphon_notices"])


# ---- without help ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
def test_without_help_nothing_changes(dialect: Dialect) -> None:
    assert results(FOUR, help=NO_HELP) == [FAILURE] * 4
    assert converted(FOUR, help=NO_HELP).requirements.only is None
    calm = FOUR[:5]
    assert body(calm, dialect=dialect) == body(calm, dialect=dialect, help=NO_HELP)


# ---- what holds of every history -------------------------------------------------------------------------------------

demanding_dialects = st.builds(
    lambda dialect, facts: replace(dialect, **facts),
    st.sampled_from(list(BY_NAME.values())),
    st.fixed_dictionaries(
        {},
        optional={
            "alternates": st.booleans(),
            "takes_parallel_calls": st.booleans(),
            "answers_results": st.booleans(),
            "shows_tools": st.booleans(),
        },
    ),
)


@st.composite
def looping_conversation(draw: st.DrawFn) -> list[list[Item]]:
    """Few calls, again and again, with few results."""
    failed = CODEX.format(id=1, time=1, code=1, output="x")
    outputs = st.sampled_from([FAILURE, UNUSABLE, UNUSABLE, UNUSABLE, "error: a", "done", "", failed])
    turns: list[list[Item]] = [[user("Hi")]]
    for number in range(draw(st.integers(1, 14))):
        names = draw(st.lists(st.sampled_from("ffffg"), min_size=1, max_size=2))
        calls = [function_call(f"c{number}_{at}", name) for at, name in enumerate(names)]
        turn = [*calls, *(call_output(call["call_id"], draw(outputs)) for call in calls)]
        turns.append([*turn, *draw(st.sampled_from([[], [], [], [user("Go on.")]]))])
    return turns


@given(looping_conversation(), demanding_dialects, st.sampled_from([HELP, FULL_HELP, NO_HELP]))
def test_each_turns_messages_are_a_prefix_of_the_next_ones(turns: list[list[Item]], dialect: Dialect, help: Help) -> None:
    before: list[Any] = []
    for count in range(1, len(turns) + 1):
        sent = body([item for turn in turns[:count] for item in turn], dialect=dialect, help=help)
        assert objection(sent, own_fields={**dialect.extra, **dialect.constrained_extra}) is None
        after = sent["messages"]
        assert complaint(after, dialect) is None
        assert after[: len(before)] == before
        before = after


@given(looping_conversation())
def test_notes_depend_on_nothing_that_comes_later(turns: list[list[Item]]) -> None:
    whole = results([item for turn in turns for item in turn])
    for count in range(1, len(turns)):
        some = results([item for turn in turns[:count] for item in turn])
        assert whole[: len(some)] == some


def test_the_work_grows_with_the_number_of_calls_and_not_with_its_square() -> None:
    def turns(count: int) -> list[AssistantTurn | UserTurn]:
        outputs = (FAILURE, "done", "error: x\n" * 100)
        return [
            AssistantTurn(calls=[Call(str(at), "f", f'{{"a": {at % 7}}}', texts=[outputs[at % 3]], answered=True)])
            for at in range(count)
        ]

    def work_of(count: int) -> Callable[[], object]:
        many = turns(count)
        return lambda: [find_loops(many, helped=helped) for helped in (True, False)]

    assert_linear(work_of, 1_000, count_calls)


# ---- other names for the same call -----------------------------------------------------------------------------------

EASY = Help(easier_tools=True, stops_loops=True, reason="the model is small")


def looped(name: str, arguments: Item, tool: str = "function_call") -> list[Item]:
    """The same failing call of a tool of Codex, four times."""
    items: list[Item] = []
    for number in range(4):
        member = {"input": arguments["input"]} if tool == "custom_tool_call" else {"arguments": json.dumps(arguments)}
        items.append({"type": tool, "call_id": f"c{number}", "name": name, **member})
        items.append({"type": f"{tool}_output", "call_id": f"c{number}", "output": "failed: no such file"})
    return items


def test_a_withheld_call_is_withheld_under_every_name() -> None:
    required = converted(looped("exec_command", {"cmd": "cat x"}), help=EASY, tools=[EXEC_COMMAND, APPLY_PATCH]).requirements
    assert required.reason_against("read_file", '{"path": "x"}') is not None
    assert required.reason_against("shell", '{"command": "cat x"}') is not None
    assert required.reason_against("shell", '{"command": "ls"}') is None


def test_a_patch_that_no_function_expresses_is_withheld_too() -> None:
    patch = "*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch\n"
    items = looped("apply_patch", {"input": patch}, "custom_tool_call")
    required = converted(items, help=EASY, tools=[EXEC_COMMAND, APPLY_PATCH]).requirements
    assert required.reason_against("apply_patch", json.dumps({"input": patch})) is not None
    assert required.reason_against("write_file", '{"path": "a", "content": ""}') is None


# ---- what is looked at only if there may be something ----------------------------------------------------------------

OUTPUTS = st.sampled_from(["no usable environment", "unsupported call", "done", "error: x", "tool f is disabled " + "x" * 900])
TURNS = st.lists(
    st.one_of(
        st.builds(lambda text: UserTurn([{"type": "text", "text": text}]), st.sampled_from(["", "go on"])),
        st.lists(st.lists(OUTPUTS, max_size=2), min_size=1, max_size=2).map(
            lambda calls: AssistantTurn(
                calls=[Call(f"c{at}", "f", "{}", texts=texts, answered=bool(texts)) for at, texts in enumerate(calls)]
            )
        ),
    ),
    max_size=14,
)


@given(TURNS, st.lists(st.just("no usable environment"), min_size=3, max_size=7))
def test_without_help_the_same_is_found_whether_or_not_there_may_be_a_dead_end(
    turns: list[AssistantTurn | UserTurn], more: list[str]
) -> None:
    turns += [AssistantTurn(calls=[Call("c", "f", "{}", texts=[output], answered=True)]) for output in more]
    found = find_loops(turns, helped=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("antiphon.core.prompt.loops._may_be_dead_end", lambda turns: True)
        expected = find_loops(turns, helped=False)
    assert (list(found.notes), dict(found.withheld)) == (list(expected.notes), dict(expected.withheld))
