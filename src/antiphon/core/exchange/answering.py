"""An engine is asked, and its answer is at its end: it is closed, or another one is asked for."""

from antiphon.core.checks.work import CheckOutcome
from antiphon.core.exchange.answer_lessons import AnswerLessons
from antiphon.core.exchange.closing import Closing
from antiphon.core.exchange.response_object import Next, OpenResponse, Phase
from antiphon.core.exchange.steps import Ask, AskReason, Check
from antiphon.core.items.enforcement import Rejection
from antiphon.core.stream.chat_chunks import COMPLETED
from antiphon.core.stream.engine_protocols import PROTOCOLS
from antiphon.core.stream.reasoning_tags import thought_start
from antiphon.core.toolbox.requirements import wants_json
from antiphon.errors import ApiError, ContextLengthExceeded, EngineDisagrees, EngineError, EngineUnavailable, RateLimited

CUT_SHORT = "The engine's stream ended before the answer did."


class Answering(Phase):
    """An engine is asked, or answers."""

    reason: AskReason
    step: Ask | None = None

    def proceed(self) -> Ask:
        opened, request = self.opened, self.opened.request
        conversion = opened.question.conversion
        # What is made in the background may be followed at any time; what ends at a sequence is searched as it comes.
        ends_early = request.beyond is not None and request.beyond.stop_sequences is not None
        is_seen = bool(request.stream or opened.response.background or ends_early)
        start = thought_start(conversion.chat, conversion.dialect, is_seen=is_seen)
        may_cite = request.text is None or not wants_json(request)
        opened.sources.set_documents(conversion.cited)
        opened.answers.enforcement.begin_answer(conversion.requirements)
        protocol, sources = PROTOCOLS[conversion.dialect.protocol], opened.sources if may_cite else None
        opened.answers.reader.begin(start, conversion.finder(), sources, protocol, request.beyond)
        self.step = Ask(conversion.chat, opened.question.engine.number, self.reason)
        return self.step

    def checked(self, outcome: CheckOutcome) -> Ask:
        """The engine is still answering."""
        assert self.step is not None
        self.opened.answers.reader.checked(outcome)
        return self.step


def after_refusal(opened: OpenResponse, error: ApiError) -> AskReason:
    """Why an engine is asked again after one has refused. If none is, raises the error."""
    question = opened.question
    if isinstance(error, EngineUnavailable) and question.engine.has_next:
        return give_way(opened, error)
    if isinstance(error, ContextLengthExceeded) and question.may_truncate:
        question.truncate(error)
        return "truncation"
    if question.learn_from(error):
        return "lesson"
    if is_engines_own(error) and question.engine.has_next:
        return give_way(opened, error)
    raise error


def is_engines_own(error: ApiError) -> bool:
    """The engine failed, or has too much to do: another one may answer the same request."""
    return isinstance(error, EngineError | RateLimited)


def may_give_way(opened: OpenResponse) -> bool:
    """Nothing has come of the answer yet, and there is another engine."""
    return opened.answers.may_ask_again and not opened.answers.output.round and opened.question.engine.has_next


def give_way(opened: OpenResponse, error: ApiError) -> AskReason:
    """The engine has failed before it began to answer: the next one is asked."""
    opened.environment.report("another engine is asked", engine=opened.question.engine.knowledge.name, reason=error.code)
    opened.use_next_engine()
    return "next_engine"


class Answered(Phase):
    """The engine's answer is at its end."""

    # For a check of what the answer ended with.
    has_waited: bool = False

    def proceed(self) -> Next:
        answers = self.opened.answers
        if (work := answers.sequence.check) is not None:
            self.has_waited = True
            return Check(work)
        is_whole = answers.is_whole
        if (reason := self._reason_to_ask_again(is_whole=is_whole)) is not None:
            return reason
        answers.enforcement.stop_rejecting()
        if not is_whole:
            answers.output.fail(EngineDisagrees(CUT_SHORT))
        answers.close()
        return Closing(self.opened)

    def _reason_to_ask_again(self, *, is_whole: bool) -> AskReason | None:
        answers, question = self.opened.answers, self.opened.question
        if answers.reader.template_opens_thought:
            question.learn_of_answer({"opens_thought": True})
        if not is_whole and (reason := self._start_over()) is not None:
            return reason
        is_cut = answers.output.ending is not COMPLETED
        if is_whole and is_cut and answers.thought_took_all_tokens and question.can_stop_thinking:
            # It is asked for again as it was, with as many tokens. That is not yet the second attempt at it.
            self.opened.count_answer()
            answers.sequence.close_unchecked()
            question.stop_thinking()
            return "no_thought"
        output, enforcement = answers.output, answers.enforcement
        if is_whole and output.ending is COMPLETED and enforcement.requires_something:
            enforcement.reject_missing(output.turn, output.written)
        if answers.sequence.error is None and enforcement.rejection is not None:
            return self._repair(enforcement.rejection)
        return None

    def _start_over(self) -> AskReason | None:
        """Where the engine failed: in a form that it accepts, or with the next engine."""
        answers, error = self.opened.answers, self.opened.answers.sequence.error
        if error is not None and answers.may_start_over and self.opened.question.learn_from(error):
            self.opened.count_answer()
            answers.output.start_over()
            return "lesson"
        if not self.has_waited and may_give_way(self.opened) and (error is None or is_engines_own(error)):
            self.opened.count_answer()
            answers.output.start_over()
            return give_way(self.opened, error or EngineDisagrees(CUT_SHORT))
        return None

    def _repair(self, rejection: Rejection) -> AskReason:
        """Shows the model what is wrong with its answer, and continues with what it writes then."""
        opened, answers = self.opened, self.opened.answers
        opened.count_answer()
        # A thought in place of the call says nothing about what the engine makes sure of.
        if rejection.call is None and answers.enforcement.requirements.must_call and answers.output.lone_thought is None:
            AnswerLessons(opened.question, answers, opened.environment.report).learn_of_missing_call()
        opened.question.reject(rejection)
        return "repair"
