"""Inputs with very many items: the work grows with their number, not with its square, which would take minutes here."""

import base64
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace
from support.exchanges import make_environment
from support.items import assistant, call_output, developer, function_call, user

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.exchange import response_object
from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, Check, Compact, Count
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import EngineKnowledge
from antiphon.sealing import Sealer
from antiphon.wire.responses import ContextManagement, CreateResponse

Item = dict[str, Any]

MANY = 60_000
# Templates that take no two user messages in a row.
JOINS_USERS = replace(PLAIN, alternates=True)


def each(count: int, *make: Callable[[int], Item]) -> list[Item]:
    """One item after another, again and again."""
    return list(chain.from_iterable((one(at) for one in make) for at in range(count // len(make))))


def same_id(at: int) -> Item:
    return function_call("1", f'{{"a": {at}}}')


# Made by the test that wants one: together they take 200 megabytes.
INPUTS: dict[str, Callable[[], list[Item]]] = {
    "user messages": lambda: each(MANY, lambda at: user(f"m{at}")),
    "user and developer messages": lambda: each(MANY, lambda at: user(f"m{at}"), lambda at: developer(f"d{at}")),
    "assistant messages": lambda: [user("q"), *each(MANY, lambda at: assistant(f"m{at}"))],
    "texts after a call": lambda: [
        user("q"),
        function_call("1"),
        *each(MANY, lambda at: assistant(f"m{at}")),
        call_output("1"),
    ],
    "calls in one turn": lambda: [
        user("q"),
        *each(MANY // 2, lambda at: function_call(str(at))),
        *each(MANY // 2, lambda at: call_output(str(at))),
    ],
    "calls with one id in one turn": lambda: [
        user("q"),
        *each(MANY // 2, same_id),
        *each(MANY // 2, lambda at: call_output("1")),
    ],
    "calls with one id, and then their results": lambda: [
        *each(MANY // 2, lambda at: user("q"), same_id),
        *each(MANY // 4, lambda at: call_output("1")),
    ],
    "more results than calls": lambda: [
        *each(MANY // 2, lambda at: user("q"), same_id, lambda at: call_output("1")),
        *each(MANY // 2, lambda at: call_output("1")),
    ],
    "user messages around a call": lambda: [
        *each(MANY // 2, lambda at: user(f"m{at}")),
        function_call("1"),
        *each(MANY // 2, lambda at: user(f"m{at + 9}")),
        call_output("1"),
    ],
    "user messages between results": lambda: [
        *each(MANY // 3, lambda at: function_call(str(at))),
        *each(MANY // 3 * 2, lambda at: user(f"m{at}"), lambda at: call_output(str(at))),
    ],
    "items of unknown types": lambda: [user("q"), *each(MANY, lambda at: {"type": f"unknown_{at}"})],
    "calls without results": lambda: [user("q"), *each(MANY, lambda at: function_call(str(at)))],
    "references": lambda: [
        *each(MANY // 2, lambda at: user("q") | {"id": f"msg_{at}"}),
        *each(MANY // 2, lambda at: {"type": "item_reference", "id": f"msg_{at}"}),
    ],
}


def begun(dialect: Dialect = PLAIN, **fields: Any) -> Exchange:
    return Exchange(CreateResponse(model="m", **fields), [EngineKnowledge(dialect)], make_environment(sealer=Sealer(str, str)))


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_an_input_with_many_items_is_converted_in_linear_time(make: Callable[[], list[Item]]) -> None:
    assert begun(input=make()).chat.messages


def test_many_user_messages_become_one_in_linear_time() -> None:
    (message,) = begun(JOINS_USERS, input=[user("m" * 200)] * MANY).chat.messages
    assert message.content == "\n".join(["m" * 200] * MANY)


def test_a_prompt_with_many_items_is_measured_in_linear_time() -> None:
    items = each(MANY, lambda at: user(f"m{at}"), lambda at: function_call(str(at)), lambda at: call_output(str(at)))
    exchange = begun(input=items, context_management=[ContextManagement("compaction", 1000)])
    assert isinstance(exchange.step, Count)
    exchange.counted(1_000_000)
    assert isinstance(exchange.step, Compact)


def test_many_documents_are_read_in_linear_time() -> None:
    files = [base64.b64encode(b"%%PDF-%d" % at).decode() for at in range(3000)]
    exchange = begun(input=[user([{"type": "input_file", "file_data": file}]) for file in files])
    for at in range(len(files)):
        assert isinstance(exchange.step, Check)
        exchange.checked(CheckOutcome(f"text {at}"))
    assert isinstance(exchange.step, Ask)
    assert [f"text {at}" in str(message.content) for at, message in enumerate(exchange.chat.messages)] == [True] * len(files)


def test_many_grammars_that_cannot_be_read_take_linear_time() -> None:
    formats = [{"type": "grammar", "syntax": "lark", "definition": f"g{at}"} for at in range(3000)]
    tools = [{"type": "custom", "name": f"f{at}", "format": format} for at, format in enumerate(formats)]
    exchange = begun(input="Hi", tools=tools)
    for _ in tools:
        assert isinstance(exchange.step, Check)
        exchange.checked(CheckOutcome(complaint="it is wrong"))
    assert isinstance(exchange.step, Ask)
    assert "the grammar of tool f0 cannot be read: its calls are not checked: it is wrong" in exchange.notices


def test_a_choice_among_many_tools_takes_linear_time() -> None:
    functions = [{"type": "function", "name": f"f{at}"} for at in range(20_000)]
    tools = [{"type": "namespace", "name": "n", "tools": functions}]
    choice = {"type": "allowed_tools", "tools": [*functions, *([{"type": "namespace", "name": "n"}] * 20_000)]}
    sent = begun(input="Hi", tools=tools, tool_choice=choice).chat.tools
    assert [tool.function.name for tool in sent or ()] == [f"n__f{at}" for at in range(20_000)]


def test_of_very_many_notices_the_first_are_shown_and_the_others_counted() -> None:
    exchange = begun(input=[user("q"), *each(1000, lambda at: {"type": f"unknown_{at}"})])
    assert exchange.notices[0] == "input[1]: unknown_0 was left out"
    assert len(exchange.notices) == response_object.MOST + 1
    assert exchange.notices[-1] == f"and {1000 - response_object.MOST} more notices"
    assert response_object.shortened(map(str, range(response_object.MOST + 1)))[-1] == "and 1 more notice"


def test_a_notice_about_something_very_long_is_cut_off() -> None:
    (notice,) = begun(input=[user("q"), {"type": "x" * 1_000_000}]).notices
    assert notice.startswith("input[1]: xxx")
    assert len(notice) == response_object.LONGEST + 1
