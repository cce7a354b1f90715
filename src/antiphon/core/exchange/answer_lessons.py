"""What an answer teaches about its engine and its model. It counts from the next request on: the client may have seen it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.checks.constraints import constraint_ignored, not_constrained
from antiphon.core.exchange.announcements import announces_call
from antiphon.core.exchange.question import Question
from antiphon.core.items.answers import Answers
from antiphon.core.items.calls import CallState
from antiphon.core.items.messages import MessageState
from antiphon.core.stream.chat_chunks import COMPLETED
from antiphon.core.toolbox.prompt_texts import BAD_ANSWER, BAD_CALL, MUST, NOT_RECORDED, RESULT_BEGINS, RESULT_ENDS
from antiphon.errors import UNREADABLE, ApiError, NotConstrained
from antiphon.patterns import late_pattern
from antiphon.wire.chat import ChatMessage

# ---- was an answer without a call meant to be one? -------------------------------------------------------------------
# After such an answer, the model is constrained to the form of calls. It may be JSON with the shape of a call that names no
# tool or does not parse, the result of an earlier call, or one of our own sentences about calls. All of it is seen in one
# pass over a bounded beginning of the answer.

# What follows is not looked at. An answer that was meant to be a call begins early.
LONGEST_READ = 32 * 1024
# A result with fewer characters may well be the answer.
SHORTEST_RESULT = 64
# The members that models give a call: its name, and its arguments.
NAMES = ("name", "function", "function_name", "tool", "tool_name", "action")
ARGUMENTS = ("arguments", "parameters", "args", "params", "tool_input", "action_input")
# Not the arguments of a call, but the schema that describes them: the answer is the definition of a tool.
SCHEMA = frozenset({"type", "properties"})
# What only we write, up to where it depends on the call.
OUR_WORDS = tuple(words.partition("{")[0] for words in (BAD_CALL, BAD_ANSWER, MUST, NOT_RECORDED, RESULT_BEGINS))
# Where a call may begin: the answer itself, a fenced block, a marker.
_BEGINNING = late_pattern(
    r"(?:\A|^[ \t]{0,9}`{3,9}[ \t]{0,9}[\w+-]{0,32}[ \t]{0,9}\r?\n|<tool_call>)\s{0,99}(?=[\[{])", re.MULTILINE
)
# What ends it, unless it is the answer itself.
_END = late_pattern(r"^[ \t]{0,9}`{3,9}|</tool_call>", re.MULTILINE)
_QUOTE = "[\"']"
# The beginning of a call that is not JSON any more.
_HEAD = late_pattern(
    rf"(?:\[\s{{0,99}})?\{{\s{{0,99}}{_QUOTE}(?:{'|'.join(NAMES)}){_QUOTE}\s{{0,99}}:\s{{0,99}}{_QUOTE}[\w.-]{{1,128}}{_QUOTE}"
    rf"\s{{0,99}},\s{{0,99}}{_QUOTE}(?:{'|'.join(ARGUMENTS)}){_QUOTE}\s{{0,99}}:"
)


def is_garbled(answer: str, results: Iterable[str]) -> bool:
    """`answer`: the text of an answer without a call, although tools were offered. `results`: those of earlier calls."""
    text = answer[:LONGEST_READ].strip()
    return text.startswith(OUR_WORDS) or _repeats(text, results) or any(map(_is_call, _candidates(text)))


def messages_to_results(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """The results of calls as the model has seen them: in messages of their own, or in words."""
    for message in messages:
        content = message.content
        if isinstance(content, str) and (message.role == "tool" or content.startswith(RESULT_BEGINS)):
            yield content.removeprefix(RESULT_BEGINS).removesuffix(RESULT_ENDS)


def _repeats(text: str, results: Iterable[str]) -> bool:
    if len(text) < SHORTEST_RESULT:
        # It is too short to begin with any of them.
        return False
    stripped = (result.strip() for result in results)
    return any(len(result) >= SHORTEST_RESULT and text.startswith(result[:LONGEST_READ].rstrip()) for result in stripped)


def _candidates(text: str) -> Iterator[str]:
    """What may be a call, each up to the end of its block. They do not overlap."""
    at = 0
    while (found := _BEGINNING.search(text, at)) is not None:
        end = _END.search(text, found.end())
        at = end.end() if end is not None else len(text)
        yield text[found.end() : end.start() if end is not None else at]


def _is_call(written: str) -> bool:
    try:
        value = msgspec.json.decode(written)
    except UNREADABLE:
        return _HEAD.match(written) is not None
    calls = value if isinstance(value, list) else [value]
    return any(_has_shape(each) for each in calls)


def _has_shape(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    function = value.get("function")
    if isinstance(function, dict):
        # As in Chat Completions.
        return _has_shape(function)
    has_name = any(isinstance(value.get(name), str) and value[name] for name in NAMES)
    return has_name and any(_are_arguments(value.get(name)) for name in ARGUMENTS)


def _are_arguments(value: Any) -> bool:
    return isinstance(value, dict) and not value.keys() >= SCHEMA


# What an engine has shown that made no call although one was required.
NOT_ENFORCED = {"enforces_required": False, "enforces_named": False}


class AnswerLessons(Struct, frozen=True):
    """Of one engine answer, made when it is at its end."""

    _question: Question
    _answers: Answers
    _report: Callable[..., None]

    def learn_of_missing_call(self) -> None:
        """One was required, and the engine did not make sure of it."""
        self._question.learn_of_answer(NOT_ENFORCED)

    def learn_from_answer(self, error: ApiError | None) -> None:
        """`error`: why its response fails."""
        if error is None:
            facts = {"reports_usage": self._answers.usage.current is not None}
            if self._question.conversion.logprobs:
                facts |= self._logprobs_seen()
            self._question.learn_of_answer(facts)
            self._question.learn_of_repetition()
            if self._answers.output.ending is COMPLETED and self._question.conversion.offer.tools:
                self._learn_of_form()
                self._learn_of_announcement()
        elif isinstance(error, NotConstrained) and not self._question.has_stop:
            self._learn_of_schema()

    def _learn_of_schema(self) -> None:
        question = self._question
        of_call = isinstance(self._answers.enforcement.not_constrained, CallState) and question.dialect.constrains_calls
        question.learn_of_answer({"constrains_calls": False} if of_call else not_constrained(question.dialect))

    def _learn_of_form(self) -> None:
        """Of an answer that could be a call or a text: whether the model wrote what is none, or its engine let it."""
        offer = self._question.conversion.offer
        if offer.must_call:
            return
        if offer.say is not None and self._breaks_form():
            self._learn(constraint_ignored(self._question.dialect))
        elif not offer.constrained and not self._question.dialect.garbles_calls and self._is_garbled():
            self._learn({"garbles_calls": True})

    def _learn_of_announcement(self) -> None:
        question = self._question
        if question.dialect.announces_calls or not question.looks_for_announcements:
            return
        words = self._answers.output.last_words
        if words is not None and announces_call(words):
            self._learn({"announces_calls": True})

    def _breaks_form(self) -> bool:
        # The engine's own parser may have left the prefix in the text.
        return self._answers.reader.breaks_form and not self._question.dialect.answer_prefix

    def _is_garbled(self) -> bool:
        states = self._answers.output.round
        if any(isinstance(state, CallState) for state in states):
            return False
        text = "".join(state.written for state in states if isinstance(state, MessageState))
        if self._answers.reader.repeats_prompt and not text.strip():
            # Nothing was left of it but for our own words.
            return True
        return is_garbled(text, messages_to_results(self._question.conversion.chat.messages))

    def _learn(self, facts: Mapping[str, Any]) -> None:
        question = self._question
        self._report("learned", engine=question.engine.knowledge.name, model=question.model, facts=dict(facts), lasting=True)
        question.learn_of_answer(facts)

    def _logprobs_seen(self) -> dict[str, bool]:
        """Whether they come with a text. They were asked for."""
        has_text = any(isinstance(state, MessageState) and state.written for state in self._answers.output.round)
        has_logprobs = self._answers.reader.has_logprobs
        return {"returns_logprobs": has_logprobs} if has_text or has_logprobs else {}
