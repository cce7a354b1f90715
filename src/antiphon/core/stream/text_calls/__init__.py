"""Tool calls in the text of an answer, from an engine that does not parse them or that was only constrained to their schema."""

from antiphon.core.stream.text_calls.answers_by_call import AnswersByCall, calls_ending_thought
from antiphon.core.stream.text_calls.constrained_call import ConstrainedCall
from antiphon.core.stream.text_calls.search import CallFinder, TextCalls

__all__ = ["AnswersByCall", "CallFinder", "ConstrainedCall", "TextCalls", "calls_ending_thought"]
