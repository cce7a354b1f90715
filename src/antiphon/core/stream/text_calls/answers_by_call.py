"""Finders around `TextCalls`: of answers in words that are calls of our own function, and of calls that end a thought."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from antiphon.core.checks.constraints import SAY_PARAMETERS, TEXT
from antiphon.core.events.deltas import CallDelta, Delta, TextDelta
from antiphon.core.stream.text_calls.search import TextCalls
from antiphon.partial_json import whole_input

BETWEEN = "\n\n"


class AnswersByCall:
    """A CallFinder for the tools with these names, and for `say`, the calls of which are text."""

    __slots__ = ("_after_answer", "_finder", "_say", "names")

    def __init__(self, names: Mapping[str, Any], say: str) -> None:
        self.names: Collection[str] = names
        self._finder = TextCalls({**names, say: SAY_PARAMETERS})
        self._say = say
        # The last text was that of such a call.
        self._after_answer = False

    @property
    def buffered(self) -> int:
        return self._finder.buffered

    def take_if_plain(self, text: str) -> bool:
        return self._finder.take_if_plain(text)

    def receive(self, text: str) -> list[Delta]:
        return self._as_text(self._finder.receive(text))

    def release(self) -> list[Delta]:
        return self._as_text(self._finder.release())

    def close(self) -> list[Delta]:
        return self._as_text(self._finder.close())

    def _as_text(self, deltas: list[Delta]) -> list[Delta]:
        return [meant for delta in deltas if (meant := self._meant(delta)) is not None]

    def _meant(self, delta: Delta) -> Delta | None:
        """The calls that are found in a text are whole."""
        if not isinstance(delta, CallDelta) or delta.name != self._say:
            self._after_answer = False
            return delta
        text = _text_of(delta.arguments)
        if not text:
            return None
        before, self._after_answer = self._after_answer, True
        return TextDelta(BETWEEN + text if before else text)


def _text_of(arguments: str) -> str:
    text = msgspec.json.decode(arguments).get(TEXT)
    return text if isinstance(text, str) else whole_input(arguments)


# ---- calls at the end of a thought -----------------------------------------------------------------------------------


def calls_ending_thought(thought: str, names: Collection[str]) -> list[CallDelta]:
    """The calls that a model wrote at the end of its thought before it stopped, without an answer: they were meant. Only calls
    with a marker count, and only those that nothing but white space follows: what a model considers, and then goes on from, it
    may have decided against."""
    finder = TextCalls(names, only_marked=True)
    calls: list[CallDelta] = []
    for delta in reversed([*finder.receive(thought), *finder.close()]):
        if isinstance(delta, CallDelta):
            calls.append(delta)
        else:
            break
    return calls[::-1]
