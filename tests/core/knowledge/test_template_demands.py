"""What the text of a chat template, and the words in which it rejects a request, say about its demands."""

from typing import Any

import pytest
from msgspec.structs import fields
from support import demanding_templates as t

from antiphon.core.exchange.lessons import lesson_of
from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.template_demands import DEMANDS, REMEDIES, facts_in_text, words_in_text
from antiphon.errors import EngineFailure, InvalidRequest
from antiphon.wire.chat import ChatRequest

# Template → what its text alone says.
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "takes all": (t.TAKES_ALL, {}),
    "strict turns": (t.STRICT_TURNS, {"alternates": True, "begins_with_user": True, "shows_tools": False}),
    "alternates": (t.ALTERNATES, {"alternates": True, "begins_with_user": True}),
    "needs a user": (t.NEEDS_USER, {"begins_with_user": True}),
    "needs a user for tools": (t.NEEDS_USER_FOR_TOOLS, {"begins_with_user": True}),
    "checks ids": (t.CHECKS_IDS, {"call_id_length": 9}),
    "one call": (t.ONE_CALL, {"takes_parallel_calls": False}),
    "thought or text": (t.THOUGHT_OR_TEXT, {"shows_text_with_calls": False}),
    "no thoughts": (t.NO_THOUGHTS, {"reasoning_member": None, "shows_reasoning": True}),
    "cuts thoughts": (t.CUTS_THOUGHTS, {"reasoning_member": None, "shows_reasoning": False}),
    "no tools": (t.NO_TOOLS, {"shows_tools": False}),
    "no calls": (t.NO_CALLS, {"shows_tools": False}),
    # What is in a comment, or printed as it is, is not done.
    "comment": ("{# roles must alternate; tools #}" + t.TAKES_ALL, {}),
    "tags named tools": (t.NO_TOOLS + "<tools>{{- '<tools>' -}}", {"shows_tools": False}),
    "no system role": (
        "{%- for message in messages -%}{%- if message.role == 'user' -%}{{ message.content }}{%- endif -%}{%- endfor -%}",
        {"takes_system_role": False, "shows_tools": False, "reasoning_member": None, "shows_reasoning": True},
    ),
}
# What real engines answer, with the words of a template at the end or in the middle.
REJECTIONS: dict[str, dict[str, Any]] = {
    "------------\nWhile executing CallExpression at line 54\nError: Jinja Exception: "
    "Tool call IDs should be alphanumeric strings with length 9!": {"call_id_length": 9},
    "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.": {"call_id_length": 9},
    "Jinja Exception: This model only supports single tool-calls at once!": {"takes_parallel_calls": False},
    "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...": {
        "alternates": True,
        "begins_with_user": True,
    },
    "jinja2.exceptions.TemplateError: System role not supported": {"takes_system_role": False},
    "Jinja Exception: No user query found in messages.": {"begins_with_user": True},
    "Cannot put tools in the first user message when there's no first user message!": {"begins_with_user": True},
    "Cannot pass both content and thinking in an assistant message with tool calls! Put it in one or the other.": {
        "shows_text_with_calls": False
    },
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_a_template_shows_its_demands(name: str) -> None:
    template, facts = TEXTS[name]
    assert facts_in_text(template) == facts


def test_the_words_that_make_a_demand_are_quoted() -> None:
    assert words_in_text(t.CHECKS_IDS + t.NEEDS_USER) == ["No user query found", "alphanumeric strings with length 9"]
    assert words_in_text(t.TAKES_ALL) == []


@pytest.mark.parametrize("words", REJECTIONS)
def test_a_rejection_in_the_words_of_a_template_teaches_its_demand_for_good(words: str) -> None:
    chat = ChatRequest(model="m", messages=[])
    error = InvalidRequest("rejected", failure=EngineFailure(400, "", words))
    lesson = lesson_of(error, chat, Dialect(name="plain"))
    assert lesson is not None
    assert lesson.facts == REJECTIONS[words]
    assert lesson.lasting
    assert lesson_of(error, chat, Dialect(name="plain", **REJECTIONS[words])) is None, "it teaches nothing new"


def test_every_demand_has_a_remedy_and_facts_of_the_dialect() -> None:
    names = {field.name for field in fields(Dialect)}
    for demand in DEMANDS:
        assert demand.capability in REMEDIES
        assert demand.facts.keys() <= names
