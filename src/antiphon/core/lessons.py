"""What an engine's failure teaches about it, so that the same request can be sent in a form that it accepts. One table.

A lesson matches the engine's own words or the kind of its failure, never a message of ours.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from antiphon.core.dialect import Dialect
from antiphon.core.failures import PARSE_ERROR
from antiphon.core.template_demands import DEMANDS
from antiphon.errors import ApiError, EngineFailure, EngineUnavailable
from antiphon.wire.chat import ChatRequest


@dataclass(frozen=True, slots=True)
class Lesson:
    words: re.Pattern[str]
    # Facts of the dialect.
    facts: Mapping[str, Any]
    # What the request must have had for the words to mean this.
    about: Callable[[ChatRequest], bool]
    # True for every request of that model. Otherwise only for this request.
    lasting: bool = True
    kinds: frozenset[str] = frozenset()

    def matches(self, failure: EngineFailure) -> bool:
        return failure.kind in self.kinds or self.words.search(failure.message) is not None


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


def _has_stream_options(chat: ChatRequest) -> bool:
    return chat.stream_options is not UNSET


def _has_tools(chat: ChatRequest) -> bool:
    return chat.tools is not UNSET


def _has_format(chat: ChatRequest) -> bool:
    return chat.response_format is not UNSET


def _has_strict_tools(chat: ChatRequest) -> bool:
    return chat.tools is not UNSET and any(tool.function.strict for tool in chat.tools)


def _always(chat: ChatRequest) -> bool:
    return True


LESSONS: tuple[Lesson, ...] = (
    # Servers older than the field. Without it they report no usage in a stream.
    Lesson(_words("stream_options"), {"takes_stream_options": False, "reports_usage": False}, _has_stream_options),
    # vLLM without --enable-auto-tool-choice, LMDeploy without --tool-call-parser.
    Lesson(_words("tool.call.parser", "enable.auto.tool.choice"), {"reads_calls": False}, _has_tools),
    # Ollama, for a model whose template has none; others in their own words.
    Lesson(_words("does not support tools", "tools? (?:use )?(?:is|are) not supported"), {"shows_tools": False}, _has_tools),
    # llama.cpp and LMDeploy, when a model writes a call that they cannot parse. We may be able to parse or repair it.
    Lesson(
        _words("does not match the expected .* format"),
        {"reads_calls": False},
        _has_tools,
        lasting=False,
        kinds=frozenset({PARSE_ERROR}),
    ),
    # What chat templates raise.
    *(Lesson(demand.words, demand.facts, _always) for demand in DEMANDS),
    # A schema that the engine cannot compile; another one may work.
    Lesson(
        _words("json.?schema", "response.?format", "grammar", "guided", "structured"),
        {"takes_response_format": False, "constrains_json": False},
        _has_format,
        lasting=False,
    ),
    # The same for the parameters of a function.
    Lesson(
        _words("json.?schema", "grammar", "guided", "structur"), {"constrains_calls": False}, _has_strict_tools, lasting=False
    ),
)


def lesson_of(error: ApiError, chat: ChatRequest, dialect: Dialect) -> Lesson | None:
    """The first row that matches and teaches something new."""
    if error.failure is None or isinstance(error, EngineUnavailable):
        return None
    for lesson in LESSONS:
        news = any(getattr(dialect, name) != value for name, value in lesson.facts.items())
        if news and lesson.about(chat) and lesson.matches(error.failure):
            return lesson
    return None
