"""Answers that only repeat a sentence that Antiphon has put into the prompt: small models do that when they are asked again.

Such an answer is an answer without text. It is recognised while it arrives: text is buffered only as long as it may still
become one of these sentences, whatever white space is in it.
"""

import re
from collections.abc import Collection

from antiphon.core.events.deltas import Delta, TextDelta
from antiphon.core.stream.text_calls import CallFinder, TextCalls
from antiphon.core.toolbox.prompt_texts import PROMPT_SENTENCES
from antiphon.patterns import Pattern

# A text longer than this is no longer compared.
LONGEST = 600
_FIELD = re.compile(r"(\{\w+\})")
# What models put around a sentence that they repeat.
_AROUND = r"[\s\"'`*.]*"


class WithoutRepeatedPrompts:
    """A CallFinder around another one. What repeats no sentence of the prompt goes on to that one."""

    __slots__ = ("_deciding", "_finder", "_pattern", "_rest", "names", "repeats_prompt")

    def __init__(self, finder: CallFinder | None, complaint: str) -> None:
        """`complaint`: what was wrong with the answer before; the prompt says it."""
        self._finder: CallFinder = finder if finder is not None else TextCalls(())
        self.names: Collection[str] = self._finder.names
        self._pattern = _sentences(complaint)
        self._deciding = True
        self._rest: list[Delta] = []
        # An answer, or a part of it, was nothing but a sentence of the prompt.
        self.repeats_prompt = False

    @property
    def buffered(self) -> int:
        return self._finder.buffered

    def take_if_plain(self, text: str) -> bool:
        return not self._deciding and self._finder.take_if_plain(text)

    def receive(self, text: str) -> list[Delta]:
        return self._buffered(self._finder.receive(text))

    def release(self) -> list[Delta]:
        return self._end(self._finder.release())

    def close(self) -> list[Delta]:
        return self._end(self._finder.close())

    def _buffered(self, deltas: list[Delta]) -> list[Delta]:
        if not self._deciding:
            return deltas
        self._rest += deltas
        text = self._text()
        if text is not None and len(text) <= LONGEST and self._pattern.compiled.fullmatch(text, partial=True) is not None:
            return []
        return self._pass_on()

    def _end(self, deltas: list[Delta]) -> list[Delta]:
        """What was buffered is whole: a sentence of the prompt, or text after all."""
        rest = self._buffered(deltas)
        text = self._text()
        if text and text.strip() and self._pattern.compiled.fullmatch(text) is not None:
            self.repeats_prompt = True
            self._rest = []
        rest += self._pass_on()
        self._deciding = True
        return rest

    def _text(self) -> str | None:
        """What is buffered; None: there is a call in it."""
        texts = [delta.text for delta in self._rest if isinstance(delta, TextDelta)]
        return "".join(texts) if len(texts) == len(self._rest) else None

    def _pass_on(self) -> list[Delta]:
        rest, self._rest, self._deciding = self._rest, [], False
        return rest


def _sentences(complaint: str) -> Pattern:
    sentences = [*map(_template, PROMPT_SENTENCES), *([_literal(complaint)] if len(complaint) <= LONGEST else [])]
    return Pattern(f"(?i){_AROUND}(?:{'|'.join(sentences)}){_AROUND}")


def _template(sentence: str) -> str:
    """A sentence with anything in its fields."""
    parts = _FIELD.split(sentence)
    return "".join(rf"[\s\S]{{1,{LONGEST}}}?" if at % 2 else _literal(part) for at, part in enumerate(parts))


def _literal(text: str) -> str:
    return r"\s+".join(map(re.escape, text.split(" "))) if text.strip() else r"\s*"
