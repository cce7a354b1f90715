"""Answers without the sentences that Antiphon has put into the prompt: a small model repeats them, and they are no answer.

A sentence of an answer is recognised while it arrives: text is buffered only as long as it may still become one of them,
whatever white space is in it.
"""

import re
from collections.abc import Collection

from antiphon.core.events.deltas import Delta, TextDelta
from antiphon.core.stream.text_calls import CallFinder, TextCalls
from antiphon.core.toolbox.prompt_texts import PROMPT_SENTENCES
from antiphon.patterns import Pattern, late_pattern

# A sentence longer than this is no longer compared.
LONGEST = 600
# With fewer letters of its own, a sentence may be anybody's.
SHORTEST = 16
_FIELD = late_pattern(r"(\{\w+\})")
_FIELDS = {
    "{name}": r"[\w.-]{1,64}",
    "{names}": r"[\w.,: -]{1,400}?",
    "{count}": r"\d{1,6}",
    "{number}": r"\d{1,6}",
    "{path}": r"[^\n]{1,400}?",
}
_ANYTHING = rf"[\s\S]{{1,{LONGEST}}}?"
# What models put around a sentence that they repeat. The white space before a sentence is a part of it.
_BEFORE, _AFTER, _AT_END = r"[\s\"'`*]*", r"[\"'`*]*(?=\s)", r"[\"'`*]*(?=\s|\Z)"
# Where the next sentence begins, and what may become that.
_BOUNDARY = Pattern(r"[.!?:][\"'`*)\]]*(?=\s)|(?=\n)")
_MAY_END = late_pattern(r"[.!?:][\"'`*)\]]*\Z")


class WithoutRepeatedPrompts:
    """A CallFinder around another one. What repeats no sentence of the prompt goes on to that one."""

    __slots__ = ("_at_start", "_patterns", "_text", "finder", "names", "repeats_prompt")

    def __init__(self, finder: CallFinder | None, complaint: str = "") -> None:
        """`complaint`: what was wrong with the answer before; the prompt says it."""
        if isinstance(finder, WithoutRepeatedPrompts):
            # This one knows the same sentences, and the complaint.
            finder = finder.finder
        self.finder: CallFinder = finder if finder is not None else TextCalls(())
        self.names: Collection[str] = self.finder.names
        self._patterns = _sentences(complaint)
        # What is buffered, and whether it is at the beginning of a sentence.
        self._text = ""
        self._at_start = True
        # A sentence of the prompt was left out.
        self.repeats_prompt = False

    @property
    def buffered(self) -> int:
        return self.finder.buffered + len(self._text)

    def take_if_plain(self, text: str) -> bool:
        is_inside = not self._at_start and not self._text and _MAY_END.search(text) is None and _BOUNDARY.search(text) is None
        return is_inside and self.finder.take_if_plain(text)

    def receive(self, text: str) -> list[Delta]:
        return self._read(self.finder.receive(text))

    def release(self) -> list[Delta]:
        return [*self._read(self.finder.release()), *self._end()]

    def close(self) -> list[Delta]:
        return [*self._read(self.finder.close()), *self._end()]

    def _read(self, deltas: list[Delta]) -> list[Delta]:
        passed: list[Delta] = []
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._text += delta.text
                passed += self._decided()
            else:
                passed += [*self._end(), delta]
        return passed

    def _end(self) -> list[Delta]:
        """What is buffered is whole."""
        if self.repeats_prompt and self._text.isspace():
            self._text = ""
        shown = self._decided(is_whole=True)
        self._at_start = True
        return shown

    def _decided(self, *, is_whole: bool = False) -> list[Delta]:
        shown = ""
        while self._text:
            if self._at_start:
                if (end := self._own_sentence(is_whole=is_whole)) is None:
                    break
                self.repeats_prompt |= end > 0
                self._text = self._text[end:]
                self._at_start = end > 0
                continue
            # A line break at the beginning is that of a sentence which is none of ours.
            boundary = _BOUNDARY.search(self._text, int(self._text[0] == "\n"))
            end = boundary.end() if boundary is not None else self._safe(is_whole=is_whole)
            if not end:
                break
            self._at_start = boundary is not None
            shown, self._text = shown + self._text[:end], self._text[end:]
        return [TextDelta(shown)] if shown else []

    def _own_sentence(self, *, is_whole: bool) -> int | None:
        """The length of a sentence of the prompt here; 0: there is none. None: more of the text is needed."""
        own, own_at_end = self._patterns
        found = own_at_end.match(self._text) if is_whole else own.match(self._text, partial=True)
        if found is None or (found.partial and len(self._text) > LONGEST):
            return 0
        return None if found.partial else found.end()

    def _safe(self, *, is_whole: bool) -> int:
        """How much of the text has no end of a sentence in it."""
        may_end = None if is_whole else _MAY_END.search(self._text)
        return len(self._text) if may_end is None else may_end.start()


def _sentences(complaint: str) -> tuple[Pattern, Pattern]:
    """As the beginning of a text that goes on, and of one that is whole."""
    each_own = [each for sentence in PROMPT_SENTENCES for each in re.split(r"(?<=\.) ", sentence)]
    known = [_template(each) for each in each_own if len(_FIELD.sub("", each)) >= SHORTEST]
    said = [rf"{_literal(complaint)}\.?"] if 0 < len(complaint) <= LONGEST else []
    own = f"(?i){_BEFORE}(?:{'|'.join([*known, *said])})"
    return Pattern(own + _AFTER), Pattern(own + _AT_END)


def _template(sentence: str) -> str:
    """A sentence with anything in its fields."""
    parts = _FIELD.split(sentence)
    return "".join(_FIELDS.get(part, _ANYTHING) if at % 2 else _literal(part) for at, part in enumerate(parts))


def _literal(text: str) -> str:
    return r"\s+".join(map(re.escape, text.split(" "))) if text.strip() else r"\s*"
