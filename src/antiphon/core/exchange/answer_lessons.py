"""What an answer teaches about its engine and its model. It counts from the next request on: the client may have seen it."""

from collections.abc import Callable, Mapping
from typing import Any

from antiphon.core.checks.constraints import not_constrained, not_held
from antiphon.core.exchange.garbled_calls import is_garbled, messages_to_results
from antiphon.core.exchange.question import Question
from antiphon.core.items.answer_reader import AnswerReader
from antiphon.core.items.calls import CallState
from antiphon.core.items.enforcement import Enforcement
from antiphon.core.items.messages import MessageState
from antiphon.core.items.output import Output
from antiphon.core.items.usage import UsageCount
from antiphon.core.stream.finish_reasons import COMPLETED
from antiphon.errors import ApiError, NotConstrained

# What an engine has shown that made no call although one was required.
NOT_ENFORCED = {"enforces_required": False, "enforces_named": False}


class AnswerLessons:
    """Of one engine answer, made when it is at its end."""

    __slots__ = ("_answer", "_enforcement", "_output", "_question", "_report", "_usage")

    def __init__(
        self,
        question: Question,
        enforcement: Enforcement,
        output: Output,
        answer: AnswerReader,
        usage: UsageCount,
        report: Callable[..., None],
    ) -> None:
        self._question = question
        self._enforcement = enforcement
        self._output = output
        self._answer = answer
        self._usage = usage
        self._report = report

    def learn_of_missing_call(self) -> None:
        """One was required, and the engine did not make sure of it."""
        self._question.learn_of_answer(NOT_ENFORCED)

    def learn_from_answer(self, error: ApiError | None) -> None:
        """`error`: why its response fails."""
        if error is None:
            shown = {"reports_usage": self._usage.current is not None}
            if self._question.conversion.logprobs:
                shown |= self._logprobs_seen()
            self._question.learn_of_answer(shown)
            self._question.learn_of_repetition()
            if self._output.ending is COMPLETED:
                self._learn_of_form()
        elif isinstance(error, NotConstrained) and not self._question.has_stop:
            self._learn_of_schema()

    def _learn_of_schema(self) -> None:
        question = self._question
        of_call = isinstance(self._enforcement.not_constrained, CallState) and question.dialect.constrains_calls
        question.learn_of_answer({"constrains_calls": False} if of_call else not_constrained(question.dialect))

    def _learn_of_form(self) -> None:
        """Of an answer that could be a call or a text: whether the model wrote what is none, or its engine let it."""
        offer = self._question.conversion.offer
        if offer.must_call or not offer.tools:
            return
        if offer.say is not None and self._breaks_form():
            self._learn(not_held(self._question.dialect))
        elif not offer.constrained and not self._question.dialect.garbles_calls and self._is_garbled():
            self._learn({"garbles_calls": True})

    def _breaks_form(self) -> bool:
        # The engine's own parser may have left the prefix in the text.
        return self._answer.breaks_form and not self._question.dialect.answer_prefix

    def _is_garbled(self) -> bool:
        states = self._output.round
        if any(isinstance(state, CallState) for state in states):
            return False
        text = "".join(state.written for state in states if isinstance(state, MessageState))
        return is_garbled(text, messages_to_results(self._question.conversion.chat.messages))

    def _learn(self, facts: Mapping[str, Any]) -> None:
        question = self._question
        self._report("learned", engine=question.knowledge.name, model=question.model, facts=dict(facts), lasting=True)
        question.learn_of_answer(facts)

    def _logprobs_seen(self) -> dict[str, bool]:
        """Whether they come with a text. They were asked for."""
        has_text = any(isinstance(state, MessageState) and state.written for state in self._output.round)
        return {"returns_logprobs": self._answer.has_logprobs} if has_text or self._answer.has_logprobs else {}
