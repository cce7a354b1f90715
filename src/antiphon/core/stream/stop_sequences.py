"""Stop sequences of protocols that report which of them ended an answer: the text is cut here.

An engine that is sent stop sequences ends its answer before them, and most engines do not report which it was, or whether the
answer ended by itself. So the engine gets none of them; the text is searched, and no more of the answer is read.
"""

from collections.abc import Collection, Iterable, Sequence

from antiphon.core.events.deltas import Delta, Finished, TextDelta
from antiphon.core.stream.text_calls import CallFinder


class TextUpToStop:
    """A CallFinder around another one: what that one takes for text ends before the first stop sequence."""

    __slots__ = ("_beginnings", "_finder", "_is_cut", "_sequences", "_waiting", "names")

    def __init__(self, finder: CallFinder | None, sequences: Sequence[str]) -> None:
        self._finder = finder
        self.names: Collection[str] = () if finder is None else finder.names
        self._sequences = sequences
        self._beginnings = frozenset(sequence[0] for sequence in sequences)
        # The end of the text so far, which may be the beginning of a sequence.
        self._waiting = ""
        self._is_cut = False

    @property
    def buffered(self) -> int:
        return 0 if self._finder is None else self._finder.buffered

    def take_if_plain(self, text: str) -> bool:
        is_plain = not self._waiting and not self._is_cut and self._beginnings.isdisjoint(text)
        return is_plain and (self._finder is None or self._finder.take_if_plain(text))

    def receive(self, text: str) -> list[Delta]:
        return self._cut([TextDelta(text)] if self._finder is None else self._finder.receive(text))

    def release(self) -> list[Delta]:
        return [*self._cut(() if self._finder is None else self._finder.release()), *self._rest()]

    def close(self) -> list[Delta]:
        return [*self._cut(() if self._finder is None else self._finder.close()), *self._rest()]

    def _cut(self, deltas: Iterable[Delta]) -> list[Delta]:
        shown: list[Delta] = []
        for delta in deltas:
            if self._is_cut:
                break
            shown += self._search(delta.text) if isinstance(delta, TextDelta) else [*self._rest(), delta]
        return shown

    def _search(self, piece: str) -> list[Delta]:
        text = self._waiting + piece
        found = ((at + len(sequence), at, sequence) for sequence in self._sequences if (at := text.find(sequence)) >= 0)
        # The one that is whole first, so that it does not matter in which pieces the text comes.
        first = min(found, default=None)
        if first is not None:
            _, end, sequence = first
            self._is_cut, self._waiting = True, ""
            return [*_texts(text[:end]), Finished("stop", sequence)]
        end = min(self._may_begin(text, sequence) for sequence in self._sequences)
        self._waiting = text[end:]
        return _texts(text[:end])

    @staticmethod
    def _may_begin(text: str, sequence: str) -> int:
        """Where the text ends, or where its end may be the beginning of the sequence."""
        at = max(0, len(text) - len(sequence) + 1)
        while (at := text.find(sequence[0], at)) >= 0:
            if sequence.startswith(text[at:]):
                return at
            at += 1
        return len(text)

    def _rest(self) -> list[Delta]:
        rest, self._waiting = self._waiting, ""
        return _texts(rest)


def _texts(text: str) -> list[Delta]:
    return [TextDelta(text)] if text else []
