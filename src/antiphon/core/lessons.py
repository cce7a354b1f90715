"""What an engine's refusal teaches about it, so that the same request can be asked in a way that it takes. One table."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from antiphon.core.dialect import Dialect
from antiphon.errors import ApiError, EngineUnavailable
from antiphon.wire.chat import ChatRequest


@dataclass(frozen=True, slots=True)
class Lesson:
    words: re.Pattern[str]
    facts: Mapping[str, Any]
    # What the request must have had for the words to mean this.
    about: Callable[[ChatRequest], bool]
    # It holds for every request of that model. Otherwise only for this one.
    lasting: bool = True


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


def _has_tools(chat: ChatRequest) -> bool:
    return chat.tools is not UNSET


def _has_format(chat: ChatRequest) -> bool:
    return chat.response_format is not UNSET


def _always(chat: ChatRequest) -> bool:
    return True


LESSONS: tuple[Lesson, ...] = (
    # vLLM without --enable-auto-tool-choice, LMDeploy without --tool-call-parser.
    Lesson(_words("tool.call.parser", "enable.auto.tool.choice"), {"reads_calls": False}, _has_tools),
    # Ollama, for a model whose template has none; others in their own words.
    Lesson(_words("does not support tools", "tools? (?:use )?(?:is|are) not supported"), {"shows_tools": False}, _has_tools),
    # llama.cpp and LMDeploy, when a model writes a call that they cannot read; here it may be read, and mended.
    Lesson(
        _words("does not match the expected .* format", "could not read its model's tool call"),
        {"reads_calls": False},
        _has_tools,
        lasting=False,
    ),
    # What Gemma's, Mistral's and Llama 2's templates raise.
    Lesson(_words("roles must alternate"), {"takes_users_in_a_row": False}, _always),
    Lesson(_words("system role not supported", "system role is not supported"), {"takes_system_role": False}, _always),
    # A schema that the engine cannot make a grammar of; the next one may fare better.
    Lesson(
        _words("json.?schema", "response.?format", "grammar", "guided", "structured"),
        {"takes_response_format": False, "constrains_json": False},
        _has_format,
        lasting=False,
    ),
)


def lesson_of(error: ApiError, chat: ChatRequest, dialect: Dialect) -> Lesson | None:
    """The first row that fits, and that says something new."""
    if isinstance(error, EngineUnavailable):
        return None
    for lesson in LESSONS:
        news = any(getattr(dialect, name) != value for name, value in lesson.facts.items())
        if news and lesson.about(chat) and lesson.words.search(error.message):
            return lesson
    return None
