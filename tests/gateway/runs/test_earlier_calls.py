"""Calls of an earlier attempt: each stands against one call of its tool, and against every equal one."""

from antiphon.core.exchange.steps import ToolCall
from antiphon.gateway.runs.tool_calls import EarlierCalls


def mail(to: str, id: str = "a", name: str = "mail") -> ToolCall:
    return ToolCall(id, "mcp", name, "box", f'{{"to": "{to}"}}', idempotent=False)


def test_nothing_stands_against_the_calls_of_a_first_attempt() -> None:
    assert EarlierCalls().refusal_of(mail("ada")) is None


def test_an_equal_call_is_never_made_however_it_is_written() -> None:
    earlier = EarlierCalls([mail("ada")])
    for _ in range(2):
        refusal = earlier.refusal_of(ToolCall("b", "mcp", "mail", "box", '{"to":"ada"}', idempotent=False))
        assert refusal is not None
        assert refusal.failed
        assert refusal.notice


def test_each_earlier_call_stands_against_one_other_call_of_its_tool() -> None:
    earlier = EarlierCalls([mail("ada"), mail("bob", "b")])
    refused = [earlier.refusal_of(mail(to)) is not None for to in ("ada.", "bob.", "eve")]
    assert refused == [True, True, False]


def test_a_call_that_was_noted_twice_counts_once() -> None:
    earlier = EarlierCalls([mail("ada"), mail("ada")])
    refused = [earlier.refusal_of(mail(to)) is not None for to in ("ada.", "bob")]
    assert refused == [True, False]


def test_calls_of_other_tools_are_free() -> None:
    assert EarlierCalls([mail("ada")]).refusal_of(mail("ada", name="post")) is None
