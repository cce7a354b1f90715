"""Ways to feed a text to a call finder in pieces, and to merge its deltas."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

from antiphon.core.events.deltas import CallDelta, Delta, ReasoningDelta, TextDelta
from antiphon.core.stream.text_calls import CallFinder, TextCalls

# ("text" | "reasoning", …) or ("call", index, name, arguments).
Merged = list[tuple[object, ...]]


def merge(deltas: list[Delta]) -> Merged:
    merged: Merged = []
    for delta in deltas:
        match delta:
            case CallDelta(index=index, name=None):
                kind, *head, arguments = merged[-1]
                assert kind == "call"
                assert head[0] == index
                merged[-1] = (kind, *head, f"{arguments}{delta.arguments}")
            case CallDelta():
                assert delta.id is None
                merged.append(("call", delta.index, delta.name, delta.arguments))
            case TextDelta() | ReasoningDelta():
                assert delta.text
                kind = "text" if isinstance(delta, TextDelta) else "reasoning"
                if merged and merged[-1][0] == kind:
                    merged[-1] = (kind, f"{merged[-1][1]}{delta.text}")
                else:
                    merged.append((kind, delta.text))
            case _:
                raise AssertionError(f"no finder emits {delta}")
    return merged


def read(finder: CallFinder, pieces: list[str]) -> list[Delta]:
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += [TextDelta(piece)] if finder.take_if_plain(piece) else finder.receive(piece)
    deltas += finder.close()
    assert finder.close() == []
    return deltas


def cut(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def splits(text: str, others: int = 20) -> Iterator[list[str]]:
    """The whole text, its single characters, and some other splits that are the same in every run."""
    yield [text]
    yield list(text)
    chance = random.Random(len(text))
    for _ in range(others):
        yield cut(text, [chance.randrange(len(text) + 1) for _ in range(chance.randrange(1, 9))])


def assert_is_text(text: str, tools: Any) -> None:
    """No call of these tools is found in it, in any split: it is emitted as it came."""
    for pieces in splits(text, others=6):
        assert merge(read(TextCalls(tools), pieces)) == [("text", text)]
