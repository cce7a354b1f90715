"""What an engine's failure teaches, and that it teaches it once."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import fields, replace

from antiphon.core.exchange.lessons import LESSONS, Learned, Lesson, lesson_of
from antiphon.core.exchange.question import MOST_LESSONS
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import KNOWN, LLAMACPP, PLAIN, VLLM
from antiphon.errors import ApiError, EngineFailure, EngineUnavailable, InvalidRequest
from antiphon.wire.chat import ChatFunction, ChatMessage, ChatRequest, ChatTool


def failed(words: str, kind: type[ApiError] = InvalidRequest) -> ApiError:
    return kind("The engine refused the request.", failure=EngineFailure(400, "", words))


TOOL = ChatTool(ChatFunction("f"))
ASKED = ChatRequest(model="m", messages=[], tools=[TOOL], response_format={"type": "json_object"})
# What real engines have said, and what was sent.
UNPARSED = "The model produced output that does not match the expected peg-native format"
HY3 = (
    "Unable to generate parser for this template. Automatic parser generation failed: ... {%- else %} "
    "{{- raise_exception('reasoning_effort error : ' + reasoning... "
)
GRAMMAR = "Failed to initialize samplers: failed to parse grammar"


def chat(**fields: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=[], **fields)


def taught(words: str, sent: ChatRequest, dialect: Dialect) -> Iterator[Learned]:
    """Every lesson of an engine that goes on saying this about such a request."""
    while (learned := lesson_of(failed(words), sent, dialect)) is not None:
        yield learned
        dialect = replace(dialect, **learned.facts)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.words.pattern[:40])
def test_a_lesson_is_about_facts_that_there_are(lesson: Lesson) -> None:
    sent = chat(tools=[TOOL], response_format={}, reasoning_effort="low", chat_template_kwargs={}, grammar="")
    facts = {**lesson.facts_of(sent, LLAMACPP), **lesson.facts_of(sent, replace(LLAMACPP, answer_prefix="x"))}
    assert facts
    assert facts.keys() <= {field.name for field in fields(Dialect)}


def test_a_parser_that_wants_a_beginning_of_the_answer_wants_nothing_of_the_prompt() -> None:
    ended = ChatRequest(model="m", messages=[ChatMessage(role="tool", content="1", tool_call_id="a")])
    prefixed = replace(LLAMACPP, answer_prefix="x")
    assert [[*learned.facts] for learned in taught(UNPARSED, ended, LLAMACPP)] == [
        ["parses_answers"],
        ["answers_results", "begins_with_user"],
    ]
    assert all("answers_results" not in learned.facts for learned in taught(UNPARSED, ended, prefixed))


def test_a_parser_that_wants_a_beginning_is_not_switched_off() -> None:
    found = [learned.facts for learned in taught(UNPARSED, chat(), replace(LLAMACPP, answer_prefix="x"))]
    assert found == [{"spells_prefix": True, "constraint_member": "grammar"}]
    assert [learned.facts for learned in taught(UNPARSED, chat(), LLAMACPP)] == [{"parses_answers": False}]


def test_what_is_known_is_not_learned_again() -> None:
    error = failed("this model does not support tools")
    learned = lesson_of(error, ASKED, PLAIN)
    assert learned is not None
    assert lesson_of(error, ASKED, replace(PLAIN, **learned.facts)) is None


@pytest.mark.parametrize("dialect", [PLAIN, *KNOWN], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("words", [UNPARSED, HY3, GRAMMAR, "everything is wrong: tools, reasoning_effort, json schema"])
def test_an_engine_that_goes_on_refusing_is_not_asked_without_end(words: str, dialect: Dialect) -> None:
    strict = ChatTool(ChatFunction("f", strict=True))
    sent = chat(tools=[strict], response_format={}, reasoning_effort="low", chat_template_kwargs={}, grammar="")
    assert len(list(taught(words, sent, replace(dialect, answer_prefix="x")))) <= MOST_LESSONS


def test_what_an_engine_cannot_parse_is_asked_for_in_one_way_after_another() -> None:
    """The cheapest first: without a schema beside the tools, calls found here, all of it found here."""
    gpt_oss = replace(LLAMACPP, answer_prefix="<|channel|>final<|message|>")
    lessons = list(taught(UNPARSED, ASKED, gpt_oss))
    assert [dict(lesson.facts) for lesson in lessons] == [
        {"constrains_json_with_tools": False},
        {"reads_calls": False},
        {"spells_prefix": True, "constraint_member": "grammar"},
    ]
    # It depends on what the model wrote this time.
    assert not any(lesson.lasting for lesson in lessons)
    # Without tools, and with an engine whose parser cannot be switched off.
    assert list(taught(UNPARSED, chat(), PLAIN)) == []


def test_an_effort_that_is_refused_makes_way_for_the_nearest() -> None:
    first, *_ = taught(HY3, chat(reasoning_effort="medium"), LLAMACPP)
    assert first.lasting
    assert first.facts["efforts"] == {**LLAMACPP.efforts, "medium": "low"}
    assert "reasoning_effort" in first.facts["no_thinking"]


def test_the_effort_that_switches_thinking_off_may_be_refused() -> None:
    (first,) = taught(HY3, chat(reasoning_effort="none", chat_template_kwargs={}), VLLM)
    assert first.facts["efforts"]["none"] == "low"
    assert first.facts["no_thinking"].keys() == {"chat_template_kwargs"}


def test_a_grammar_that_was_made_of_a_schema_and_tools_is_not_the_schemas_fault() -> None:
    lessons = list(taught(GRAMMAR, ASKED, LLAMACPP))
    assert dict(lessons[0].facts) == {"constrains_json_with_tools": False}
    assert lessons[1].facts["constrains_json"] is False
    assert [
        dict(lesson.facts) for lesson in taught(GRAMMAR, chat(grammar="x"), replace(LLAMACPP, constraint_member="grammar"))
    ] == [{"takes_response_format": False, "constrains_json": False, "constraint_member": "response_format"}]


def test_words_about_something_that_was_not_sent_teach_nothing() -> None:
    plain = ChatRequest(model="m", messages=[])
    for words in ("this model does not support tools", "the grammar of your message is bad"):
        assert lesson_of(failed(words), ASKED, PLAIN) is not None
        assert lesson_of(failed(words), plain, PLAIN) is None


def test_an_engine_that_is_not_there_teaches_nothing() -> None:
    assert lesson_of(failed("does not support tools", EngineUnavailable), ASKED, PLAIN) is None


def test_our_own_words_teach_nothing() -> None:
    assert lesson_of(InvalidRequest("this model does not support tools"), ASKED, PLAIN) is None
