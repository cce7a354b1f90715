"""What an engine's failure teaches about it, so that the same request can be sent in a form that it accepts: one table.

A lesson matches the engine's own words or the kind of its failure, never a message of ours.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from antiphon.core.checks.constraints import is_constrained
from antiphon.core.knowledge.dialect import Dialect, without_effort
from antiphon.core.knowledge.failures import PARSE_ERROR, UNPARSED
from antiphon.core.knowledge.template_demands import DEMANDS
from antiphon.errors import ApiError, EngineFailure, EngineUnavailable
from antiphon.patterns import late_pattern
from antiphon.wire.chat import ChatRequest

Facts = Mapping[str, Any]


class Lesson(Struct, frozen=True):
    words: re.Pattern[str]
    # Facts of the dialect. They may depend on what was sent; none, if it teaches nothing there.
    facts: Facts | Callable[[ChatRequest, Dialect], Facts]
    # What the request must have had for the words to mean this.
    about: Callable[[ChatRequest], bool]
    # True for every request of that model. Otherwise only for this request.
    lasting: bool = True
    # True for every request, too, once a few requests in a row have taught it.
    repeats: bool = False
    kinds: frozenset[str] = frozenset()

    def matches(self, failure: EngineFailure) -> bool:
        return failure.kind in self.kinds or self.words.search(failure.message) is not None

    def facts_of(self, chat: ChatRequest, dialect: Dialect) -> Facts:
        return self.facts(chat, dialect) if callable(self.facts) else self.facts


class Learned(NamedTuple):
    """What one failure has taught."""

    facts: Facts
    lasting: bool
    repeats: bool = False


def _words(*alternatives: str) -> re.Pattern[str]:
    return late_pattern("|".join(alternatives), re.IGNORECASE)


UNMARKED = _words(UNPARSED.pattern, "failed to initialize samplers")
UNPARSED_KINDS = frozenset({PARSE_ERROR})
CONSTRAINTS = _words("json.?schema", "response.?format", "grammar", "guided", "structured")


def _has_stream_options(chat: ChatRequest) -> bool:
    return chat.stream_options is not UNSET


def _has_tools(chat: ChatRequest) -> bool:
    return chat.tools is not UNSET


def _has_format_and_tools(chat: ChatRequest) -> bool:
    return chat.response_format is not UNSET and chat.tools is not UNSET


def _has_strict_tools(chat: ChatRequest) -> bool:
    return chat.tools is not UNSET and any(tool.function.strict for tool in chat.tools)


def _ends_without_user(chat: ChatRequest) -> bool:
    return bool(chat.messages) and chat.messages[-1].role in ("tool", "system")


def _has_effort(chat: ChatRequest) -> bool:
    return chat.reasoning_effort is not UNSET


def _has_template_arguments(chat: ChatRequest) -> bool:
    return chat.chat_template_kwargs is not UNSET


def _always(chat: ChatRequest) -> bool:
    return True


def _ended_by_user(chat: ChatRequest, dialect: Dialect) -> Facts:
    """A parser that wants something of the answer wants nothing of the prompt."""
    return {} if dialect.answer_prefix else {"answers_results": False, "begins_with_user": True}


def _switched_off(chat: ChatRequest, dialect: Dialect) -> Facts:
    """The engine's parser, where there is a way to do that. One that wants a beginning wants it all the same."""
    return {"parses_answers": False} if dialect.unparsed_extra and not dialect.answer_prefix else {}


def _prefixed(chat: ChatRequest, dialect: Dialect) -> Facts:
    """Has the engine spell out what its parser wants, where that is known."""
    return {"spells_prefix": True, "constraint_member": "grammar"} if dialect.answer_prefix else {}


def _other_effort(chat: ChatRequest, dialect: Dialect) -> Facts:
    """The effort that was sent is not one of this model's: the nearest other takes its place."""
    refused = str(chat.reasoning_effort)
    others: Facts = {name: value for name, value in dialect.no_thinking.items() if value != refused}
    return {"efforts": without_effort(dialect.efforts, refused), "no_thinking": others}


LESSONS: tuple[Lesson, ...] = (
    # Servers older than the field. Without it they report no usage in a stream.
    Lesson(_words("stream_options"), {"takes_stream_options": False, "reports_usage": False}, _has_stream_options),
    # vLLM without --enable-auto-tool-choice, LMDeploy without --tool-call-parser.
    Lesson(_words("tool.call.parser", "enable.auto.tool.choice"), {"reads_calls": False}, _has_tools),
    # Ollama, for a model whose template has none; others in their own words.
    Lesson(_words("does not support tools", "tools? (?:use )?(?:is|are) not supported"), {"shows_tools": False}, _has_tools),
    # llama.cpp with the templates of DeepSeek V3.2 and V4: it parses by the schema, and constrains by nothing.
    Lesson(UNPARSED, {"constrains_json_with_tools": False}, _has_format_and_tools, lasting=False),
    # llama.cpp and LMDeploy, when a model writes a call that they cannot parse. We may be able to parse or repair it.
    Lesson(UNPARSED, {"reads_calls": False}, _has_tools, lasting=False, repeats=True, kinds=UNPARSED_KINDS),
    # llama.cpp, when its parser wants more of a text than that, as with Command R7B. What it would have separated is in the
    # text then. It fails at the end of an answer, so a model that never writes what it wants costs an answer each time.
    Lesson(UNPARSED, _switched_off, _always, lasting=False, repeats=True),
    # The same where it cannot be switched off: gpt-oss, Functionary 3.2.
    Lesson(UNPARSED, _prefixed, _always, lasting=False),
    # llama.cpp: its parsers of DeepSeek V3.2 and GigaChat3 want a prompt to end with the mark of the assistant. The template of
    # the first writes none after a result, and neither does so after a system message. Only if nothing else has helped: it
    # changes all of the prompt, which is cached no more. Probes know it before the first request.
    Lesson(UNMARKED, _ended_by_user, _ends_without_user, lasting=False, repeats=True),
    # What chat templates raise.
    *(Lesson(demand.words, demand.facts, _always) for demand in DEMANDS),
    # Templates and engines that have efforts of their own, as Tencent's Hy3 has.
    Lesson(_words(r"reasoning.?effort"), _other_effort, _has_effort),
    Lesson(_words("chat_template_kwargs", "enable_thinking"), {"no_thinking": {}}, _has_template_arguments),
    # llama.cpp makes one grammar of both, and cannot always read it.
    Lesson(CONSTRAINTS, {"constrains_json_with_tools": False}, _has_format_and_tools, lasting=False),
    # A schema that the engine cannot compile; another one may work.
    Lesson(
        CONSTRAINTS,
        {"takes_response_format": False, "constrains_json": False, "constraint_member": "response_format"},
        is_constrained,
        lasting=False,
    ),
    # The same for the parameters of a function.
    Lesson(
        _words("json.?schema", "grammar", "guided", "structur"), {"constrains_calls": False}, _has_strict_tools, lasting=False
    ),
)


def lesson_of(error: ApiError, chat: ChatRequest, dialect: Dialect) -> Learned | None:
    """The first row that matches and teaches something new."""
    if error.failure is None or isinstance(error, EngineUnavailable):
        return None
    for lesson in LESSONS:
        if lesson.about(chat) and lesson.matches(error.failure):
            facts = lesson.facts_of(chat, dialect)
            if any(getattr(dialect, name) != value for name, value in facts.items()):
                return Learned(facts, lesson.lasting, lesson.repeats)
    return None
