"""How many notices a response shows, and how much of each: every event with the response object has them."""

from collections.abc import Iterable, Iterator

from antiphon.core.exchange.question import Question
from antiphon.core.items.answers import Answers
from antiphon.core.items.call_history import LeftOutCalls
from antiphon.core.knowledge.sampling import is_capped
from antiphon.core.stream.chat_chunks import OUT_OF_TOKENS
from antiphon.errors import counted
from antiphon.wire.responses import CreateResponse

# ---- What has become of the answers: what was left out of them, and what their engine has not done -------------------

NO_LOGPROBS = "logprobs were left out: this engine returns none"
ESTIMATED = "usage is estimated: the engine reports none"
TRUNCATED = "truncation auto: the oldest turns of the input were left out"
DROPPED_CALLS = "tool calls of the model were left out: {count} beyond {limit}"
CAPPED = "the answer was cut off: this model writes {most} tokens at most unless max_output_tokens is set"
LOOPING = "a call of {name} was left out: the model is in a loop, and was asked not to make it"
AFTER_REJECTED = "calls of the model were left out: {count} after a call that was wrong, for which it was asked again"
UNCHECKED = "a call of {name} was not checked: its check took too long, or failed"
PARROTED = "the model only repeated what it was told about its answer: this was left out"
BEFORE_JSON = "what precedes the JSON in the model's answer was left out: the answer was to be JSON from its beginning on"
NOT_RUN = "a call of {name} was not run: {why}"
CALLS_IN_THOUGHTS = "the model made a tool call inside its reasoning, and nothing else: it was taken for a call"


def answer_notices(request: CreateResponse, question: Question, answers: Answers) -> list[str]:
    notices: list[str] = []
    reader = answers.reader
    if question.conversation.dropped:
        notices.append(TRUNCATED)
    if (left_out := answers.enforcement.left_out).any:
        notices += _calls_left_out(left_out)
    if reader.repeats_prompt:
        notices.append(PARROTED)
    # The prefix is what our own constraint has made the model write.
    if reader.left_out and reader.left_out not in question.dialect.answer_prefix:
        notices.append(BEFORE_JSON)
    if reader.calls_in_thoughts:
        notices.append(CALLS_IN_THOUGHTS)
    conversion = question.conversion
    if answers.output.ending.incomplete == OUT_OF_TOKENS and is_capped(request, conversion.sampling):
        notices.append(CAPPED.format(most=conversion.sampling.most_tokens))
    # As it is known by now: an answer may have shown it.
    dialect = question.engine.knowledge.dialect_for(conversion.chat.model)
    if conversion.logprobs and not dialect.returns_logprobs:
        notices.append(NO_LOGPROBS)
    if not dialect.reports_usage:
        notices.append(ESTIMATED)
    return notices


def _calls_left_out(calls: LeftOutCalls) -> Iterator[str]:
    if dropped := calls.dropped:
        yield DROPPED_CALLS.format(count=dropped, limit=calls.limit)
    for name, why in calls.not_run:
        yield NOT_RUN.format(name=name, why=why)
    for name in calls.looping:
        yield LOOPING.format(name=name)
    if after := calls.after_rejected:
        yield AFTER_REJECTED.format(count=after)
    for name in calls.unchecked:
        yield UNCHECKED.format(name=name)


# An input of many items may give as many notices, and a notice may quote what the client sent.
MOST = 100
LONGEST = 1000
MORE = "and {more}"


def shortened(given: Iterable[str]) -> list[str]:
    """Each once. Those that are too many are counted, and what is too long is cut off."""
    notices = list(dict.fromkeys(given))
    shown = [each if len(each) <= LONGEST else f"{each[:LONGEST]}…" for each in notices[:MOST]]
    more = len(notices) - MOST
    return [*shown, MORE.format(more=counted(more, "more notice"))] if more > 0 else shown
