"""Facts about models, as people read them."""

import pytest
from msgspec import structs

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import BY_NAME
from antiphon.core.knowledge.facts import WORDS, Fact
from antiphon.core.knowledge.knowledge import EngineKnowledge, Model

# What a dialect is called, and how an engine is recognized and examined: no facts about its answers.
NOT_SHOWN = set(
    """
    name signs protocol loading_state tokenizer window vision slots parameters vocabulary embedding version
    template_text template grammar_member
    reported_tools reported_parallel_calls reported_reasoning advice health load room
    """.split()
)


def test_every_fact_has_words() -> None:
    fields = {field.name for field in structs.fields(Dialect)}
    assert fields - WORDS.keys() == NOT_SHOWN


@pytest.mark.parametrize("dialect", BY_NAME.values(), ids=BY_NAME)
def test_every_fact_of_a_known_engine_can_be_read(dialect: Dialect) -> None:
    facts = EngineKnowledge(dialect, [Model("m", 0, "x")]).facts_about("m")
    assert all(fact.meaning and "{}" not in fact.meaning for fact in facts)
    assert {fact.source for fact in facts} <= {"dialect"}
    assert bool(facts) == (dialect.name != "plain")


def test_a_fact_without_a_value_has_words_too() -> None:
    fields = {field.name: field for field in structs.fields(Dialect)}
    names = [name for name, words in WORDS.items() if isinstance(words, str) and "None" in str(fields[name].type)]
    assert names
    for name in [*names, "answer_prefix", "efforts", "extra"]:
        assert "None" not in Fact(name, None, "probed").meaning
    assert Fact("call_id_length", 9, "probed").meaning == "ids of calls have exactly 9 characters"


def test_tables_are_written_for_people_and_members_of_a_request_as_they_are_sent() -> None:
    efforts = {"low": "low", "xhigh": "max"}
    assert Fact("efforts", efforts, "dialect").meaning == "these efforts of reasoning are sent: low, xhigh as max"
    sent = {"chat_template_kwargs": {"enable_thinking": False}}
    words = 'thinking is switched off by {"chat_template_kwargs":{"enable_thinking":false}}'
    assert Fact("no_thinking", sent, "dialect").meaning == words


def test_a_fact_says_how_it_is_known() -> None:
    knowledge = EngineKnowledge(BY_NAME["plain"], [Model("m", 0, "x"), Model("n", 0, "x")])
    knowledge.learn("m", {"alternates": True}, "template")
    knowledge.learn("m", {"reads_calls": False, "alternates": True}, "probed")
    knowledge.learn("m", {"reports_usage": False})
    knowledge.assume(["m"])
    found = {fact.name: (fact.value, fact.source, fact.meaning) for fact in knowledge.facts_about("m")}
    assert found == {
        "alternates": (True, "probed", "user and assistant have to alternate"),
        "reads_calls": (False, "probed", "Antiphon finds the calls in an answer"),
        "reports_usage": (False, "learned", "Antiphon estimates usage"),
        "shows_tools": (False, "assumed", "tools are written into the prompt by Antiphon"),
    }
    assert knowledge.facts_about("n") == []


def test_a_fact_that_is_learned_back_to_the_usual_is_still_shown() -> None:
    knowledge = EngineKnowledge(BY_NAME["plain"])
    knowledge.learn("m", {"alternates": True}, "template")
    knowledge.learn("m", {"alternates": False}, "probed")
    (fact,) = knowledge.facts_about("m")
    assert (fact.value, fact.source, fact.meaning) == (False, "probed", "messages may come in any order")
