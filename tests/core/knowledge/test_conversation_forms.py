"""Which conversations keep their tools in words."""

from collections import deque

import msgspec
from support.engine import answer, call, text
from support.exchanges import make_environment
from support.sync_runs import run_exchange
from support.toy_tool import DICE, Dice

from antiphon.core.exchange.exchange import Exchange
from antiphon.core.exchange.steps import Ask, AwaitProbe
from antiphon.core.knowledge.dialects import PLAIN
from antiphon.core.knowledge.knowledge import ConversationForms, EngineKnowledge
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.tools import ToolResult


def test_a_conversation_is_known_by_its_model_and_key() -> None:
    forms = ConversationForms()
    assert not forms.in_words
    forms.begin_in_words("m", "a")
    assert forms.in_words
    assert [forms.is_in_words(*known) for known in (("m", "a"), ("m", "b"), ("n", "a"))] == [True, False, False]
    forms.forget("m", "a")
    forms.forget("m", "a")
    assert not forms.is_in_words("m", "a")


def test_of_too_many_conversations_those_that_were_continued_longest_ago_go() -> None:
    forms = ConversationForms(most=2)
    for key in ("a", "b"):
        forms.begin_in_words("m", key)
    assert forms.is_in_words("m", "a")
    forms.begin_in_words("m", "c")
    assert [forms.is_in_words("m", key) for key in ("a", "b", "c")] == [True, False, True]


def asking(engine: EngineKnowledge, **options: object) -> Exchange:
    request, _ = body_to_request(msgspec.json.encode({"model": "m", "input": "Hi", "tools": [DICE]}))
    return Exchange(request, [engine], make_environment(tools={"dice": Dice()}), **options)  # type: ignore[arg-type]


def has_tools(exchange: Exchange) -> bool:
    assert isinstance(exchange.step, Ask)
    return bool(exchange.step.chat.tools)


def test_what_becomes_known_after_the_first_answer_does_not_change_the_form_of_the_next_one() -> None:
    engine, asked = EngineKnowledge(PLAIN), list[bool]()
    engine.assume(["m"])
    exchange = asking(engine)
    assert exchange.step == AwaitProbe(0, "m")

    def ask(step: Ask) -> list[bytes]:
        asked.append(bool(step.chat.tools))
        engine.learn("m", {"shows_tools": True})
        return [answer(call("roll", '{"sides": 6}', id="a"), finish="tool_calls") if len(asked) == 1 else text("Six.")]

    deque(run_exchange(exchange, ask, lambda call: ToolResult("6")), maxlen=0)
    assert exchange.keeps_words
    assert asked == [False, False], "each prompt has to begin as the one before it"


def test_a_conversation_that_is_in_words_waits_for_no_probe() -> None:
    engine = EngineKnowledge(PLAIN)
    assert has_tools(asking(engine))
    assert not has_tools(asking(engine, in_words=[0]))
    engine.assume(["m"])
    assert not has_tools(asking(engine, in_words=[0]))
