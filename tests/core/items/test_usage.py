"""Token usage: summed over the answers of a response, with the share of the thoughts where the engine does not count it."""

import pytest

from antiphon.core.items.usage import UsageCount, Written, summed, with_reasoning
from antiphon.wire.responses import InputTokensDetails, OutputTokensDetails, Usage


def usage(read: int, written: int, *, cached: int = 0, reasoning: int = 0) -> Usage:
    details = InputTokensDetails(cached_tokens=cached), OutputTokensDetails(reasoning_tokens=reasoning)
    return Usage(read, details[0], written, details[1], read + written)


@pytest.mark.parametrize(
    ("tokens", "written", "reasoning"),
    [
        (100, Written(total=1000, thoughts=250), 25),
        # Rounded up: a thought is never free.
        (10, Written(total=1000, thoughts=1), 1),
        (7, Written(total=3, thoughts=1), 3),
        (10, Written(total=10, thoughts=10), 10),
        (10, Written(total=10, thoughts=0), 0),
        (10, Written(total=0, thoughts=0), 0),
    ],
)
def test_the_share_of_a_thought_in_the_text_is_its_share_of_the_tokens(tokens: int, written: Written, reasoning: int) -> None:
    assert with_reasoning(usage(5, tokens), written).output_tokens_details.reasoning_tokens == reasoning


def test_what_the_engine_counts_itself_counts() -> None:
    counted = usage(5, 100, reasoning=3)
    assert with_reasoning(counted, Written(10, 9)) is counted


def test_usages_are_summed_member_by_member() -> None:
    assert summed([usage(1, 2, cached=1), usage(10, 20, cached=5, reasoning=7)]) == usage(11, 22, cached=6, reasoning=7)
    assert summed([]) is None


def test_the_last_report_of_an_answer_counts() -> None:
    count = UsageCount()
    count.current = usage(1, 1)
    count.current = usage(3, 4)
    count.end_reported(Written(0, 0))
    count.current = usage(5, 6)
    assert count.total() == usage(8, 10)
