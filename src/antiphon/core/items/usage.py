"""Token usage, summed over every engine answer of a response."""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from msgspec import Struct, structs

from antiphon.wire.chat import ChatRequest
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Usage


class Written(NamedTuple):
    """How many characters a model wrote in one engine answer, and how many of them were thoughts."""

    total: int
    thoughts: int


NOTHING_WRITTEN = Written(0, 0)


class Uncounted(Struct, frozen=True):
    """An engine answer without usage: what was asked, and what the model wrote."""

    engine: int
    chat: ChatRequest
    written: str
    lengths: Written = NOTHING_WRITTEN


class UsageCount(Struct):
    """One engine answer after another: what the engine says is `current`, until `end_reported()` or `end_unreported()`."""

    _counted: Sequence[Usage] = ()
    # The last report of an answer counts.
    current: Usage | None = None
    # The answers for which the engine reported nothing, to be estimated.
    uncounted: Sequence[Uncounted] = ()
    _estimates: Sequence[Usage] = ()

    def end_reported(self, lengths: Written) -> None:
        """The answer is at its end, and the engine has reported its usage."""
        assert self.current is not None
        counted = with_reasoning(self.current, lengths) if lengths.thoughts else self.current
        self._counted = (*self._counted, counted)
        self.current = None

    def end_unreported(self, answer: Uncounted) -> None:
        self.uncounted = (*self.uncounted, answer)

    def add(self, other: "UsageCount") -> None:
        """What was counted elsewhere for the same response, estimated or not."""
        self._counted = (*self._counted, *other._counted, *other._estimates)
        if not other._estimates:
            self.uncounted = (*self.uncounted, *other.uncounted)

    @property
    def last_reported(self) -> Usage | None:
        """What the engine has reported of the last answer. None: it reports nothing."""
        return self._counted[-1] if self._counted and not self.uncounted else None

    def estimate(self, usages: Sequence[Usage]) -> None:
        """Of the answers without a report, in their order."""
        estimated = zip(usages, self.uncounted, strict=False)
        self._estimates = [with_reasoning(usage, answer.lengths) for usage, answer in estimated]

    def total(self) -> Usage | None:
        current = () if self.current is None else (self.current,)
        usages = (*self._counted, *current, *self._estimates)
        return usages[0] if len(usages) == 1 else summed(usages)


def with_reasoning(usage: Usage, written: Written) -> Usage:
    """Most engines do not count the tokens of a thought: its share of the text is its share of the tokens, rounded up."""
    if usage.output_tokens_details.reasoning_tokens or not written.thoughts:
        return usage
    reasoning = -(-usage.output_tokens * written.thoughts // written.total)
    return structs.replace(usage, output_tokens_details=OutputTokensDetails(reasoning_tokens=reasoning))


def summed(usages: Iterable[Usage]) -> Usage | None:
    """None of nothing: usage is complete, or null."""
    found = tuple(usages)
    return reduce(_add, found) if found else None


def _add(one: Usage, other: Usage) -> Usage:
    read, also_read = one.input_tokens_details, other.input_tokens_details
    reasoning = one.output_tokens_details.reasoning_tokens + other.output_tokens_details.reasoning_tokens
    return Usage(
        one.input_tokens + other.input_tokens,
        InputTokensDetails(
            cached_tokens=read.cached_tokens + also_read.cached_tokens,
            cache_write_tokens=read.cache_write_tokens + also_read.cache_write_tokens,
        ),
        one.output_tokens + other.output_tokens,
        OutputTokensDetails(reasoning_tokens=reasoning),
        one.total_tokens + other.total_tokens,
    )
