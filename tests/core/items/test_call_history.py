"""Which calls of a response are a loop, and what is reported of those that were left out."""

from support.exchanges import make_environment

from antiphon.core.events.lifecycle import EventOptions
from antiphon.core.items.calls import FORMS, NOTHING_NEW, REPEATED, CallState, LeftOutCalls, RunHistory
from antiphon.core.toolbox.requirements import NO_REQUIREMENTS


def made_call(arguments: str, name: str = "f") -> CallState:
    tools = NO_REQUIREMENTS.tools
    call = CallState("c1", new_id=make_environment().new_id, tools=tools, style=EventOptions(), forms=FORMS)
    call.name = name
    list(call.feed(arguments))
    return call


def history_of(*rounds: list[CallState]) -> RunHistory:
    history = RunHistory()
    for calls in rounds:
        for call in calls:
            history.add(call)
        history.begin_round()
    return history


def test_the_same_call_in_three_rounds_in_a_row_is_a_loop() -> None:
    one, other = made_call('{"a": 1}'), made_call('{"a": 2}')
    assert history_of([one]).repetition(one) is None
    assert history_of([one], [one]).repetition(made_call('{ "a":1 }')) == REPEATED
    assert history_of([one], [one], [other]).repetition(one) is None


def test_rounds_without_a_new_call_are_a_loop() -> None:
    calls = [made_call(f'{{"a": {number}}}') for number in range(4)]
    history = history_of(calls, [calls[0]], [calls[1]])
    assert history.repetition(calls[2]) == NOTHING_NEW
    assert history.repetition(made_call('{"a": 9}')) is None


def test_calls_that_are_made_together_are_no_loop() -> None:
    one = made_call('{"a": 1}')
    history = RunHistory()
    for _ in range(3):
        history.add(one)
    assert history.repetition(one) is None


def test_each_call_that_is_left_out_is_reported_once() -> None:
    left_out = LeftOutCalls()
    assert not left_out.any
    for _ in range(2):
        left_out.add_not_run(made_call("{}"), "why")
        left_out.add_looping(made_call("{}", "g"))
        left_out.add_unchecked(made_call("{}", "h"))
    assert left_out.any
    assert (list(left_out.not_run), list(left_out.looping), list(left_out.unchecked)) == ([("f", "why")], ["g"], ["h"])


def test_an_empty_placeholder_is_not_reported_as_a_dropped_call() -> None:
    left_out = LeftOutCalls()
    left_out.add_dropped(made_call("", ""), "the limit")
    assert (left_out.any, left_out.dropped) == (True, 0)
    left_out.add_dropped(made_call("{}"), "the limit")
    assert (left_out.dropped, left_out.limit) == (1, "the limit")
