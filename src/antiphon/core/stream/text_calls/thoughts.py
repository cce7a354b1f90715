"""Calls that a model wrote at the end of its thought before it stopped, without an answer: they were meant."""

from collections.abc import Collection

from antiphon.core.events.deltas import CallDelta
from antiphon.core.stream.text_calls.search import TextCalls


def calls_ending_thought(thought: str, names: Collection[str]) -> list[CallDelta]:
    """Only calls with a marker, and only those that nothing but white space follows: what a model considers, and then
    goes on from, it may have decided against."""
    finder = TextCalls(names, only_marked=True)
    calls: list[CallDelta] = []
    for delta in reversed([*finder.receive(thought), *finder.close()]):
        if isinstance(delta, CallDelta):
            calls.append(delta)
        else:
            break
    return calls[::-1]
