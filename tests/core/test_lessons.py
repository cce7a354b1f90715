"""What an engine's failure teaches, and that it teaches it once."""

from dataclasses import fields, replace

import pytest

from antiphon.core.dialect import Dialect
from antiphon.core.lessons import LESSONS, lesson_of
from antiphon.dialects import PLAIN
from antiphon.errors import ApiError, EngineFailure, EngineUnavailable, InvalidRequest
from antiphon.wire.chat import ChatFunction, ChatRequest, ChatTool


def failed(words: str, kind: type[ApiError] = InvalidRequest) -> ApiError:
    return kind("The engine refused the request.", failure=EngineFailure(400, "", words))


ASKED = ChatRequest(model="m", messages=[], tools=[ChatTool(ChatFunction("f"))], response_format={"type": "json_object"})


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: "+".join(lesson.facts))
def test_a_lesson_is_about_facts_that_there_are(lesson: object) -> None:
    known = {field.name for field in fields(Dialect)}
    assert {name for each in LESSONS for name in each.facts} <= known


def test_what_is_known_is_not_learned_again() -> None:
    error = failed("this model does not support tools")
    lesson = lesson_of(error, ASKED, PLAIN)
    assert lesson is not None
    assert lesson_of(error, ASKED, replace(PLAIN, **lesson.facts)) is None


def test_words_about_something_that_was_not_sent_teach_nothing() -> None:
    plain = ChatRequest(model="m", messages=[])
    for words in ("this model does not support tools", "the grammar of your message is bad"):
        assert lesson_of(failed(words), ASKED, PLAIN) is not None
        assert lesson_of(failed(words), plain, PLAIN) is None


def test_an_engine_that_is_not_there_teaches_nothing() -> None:
    assert lesson_of(failed("does not support tools", EngineUnavailable), ASKED, PLAIN) is None


def test_our_own_words_teach_nothing() -> None:
    assert lesson_of(InvalidRequest("this model does not support tools"), ASKED, PLAIN) is None
