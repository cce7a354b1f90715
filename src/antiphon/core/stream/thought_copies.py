"""A thought that arrives twice, in two places of one stream: is the second a copy of the first?

The pieces of both come in any order and however they are split, so either may be ahead of the other. White space around them
does not count. Every character is compared once.
"""

from collections import deque


class _Trimmed:
    """A text in pieces, without the white space around it: that counts once something follows it."""

    __slots__ = ("_begun", "_space")

    def __init__(self) -> None:
        self._begun = False
        self._space: list[str] = []

    def add(self, piece: str) -> str:
        """What has been added to the text."""
        text = piece.rstrip()
        if not text:
            self._space += [piece] if self._begun else []
            return ""
        space, self._space = self._space, [piece[len(text) :]]
        if self._begun:
            return "".join((*space, text))
        self._begun = True
        return text.lstrip()


class ThoughtCopy:
    """`first` and `second` take the pieces of the two. Those of the second are withheld as long as it may be a copy."""

    __slots__ = ("_ahead", "_at", "_first", "_second", "_space", "_withheld", "differs", "is_blank", "second_is_longer")

    def __init__(self, thought: str, *, withheld: str = "") -> None:
        """`thought`: what has come of the first. `withheld`: what precedes the second, and is no part of it."""
        self._first = _Trimmed()
        self._second = _Trimmed()
        # What one has more than the other, and the place in the first of these pieces up to which it was compared.
        self._ahead: deque[str] = deque()
        self._at = 0
        self._withheld = [withheld]
        self._space: list[str] = []
        self.second_is_longer = False
        self.is_blank = True
        self.differs = False
        self.first(thought)

    @property
    def is_whole(self) -> bool:
        """The second has all that the first has, and no more."""
        return not self.differs and not self._ahead

    @property
    def withheld(self) -> str:
        return "".join((*self._withheld, *self._space))

    @property
    def space(self) -> str:
        """What follows the second, and belongs to the text after it."""
        return "".join(self._space)

    @property
    def surplus(self) -> str:
        """What the second has more than the first."""
        return "".join(self._ahead)[self._at :] if self.second_is_longer and not self.differs else ""

    def first(self, piece: str) -> None:
        self._compare(self._first.add(piece), second=False)

    def second(self, piece: str) -> None:
        self._withheld.append(piece)
        text = self._second.add(piece)
        self.is_blank = self.is_blank and not text
        self._compare(text, second=True)

    def withhold(self, text: str) -> None:
        """It ends the second, and is no part of it."""
        self._withheld.append(text)

    def follow(self, space: str) -> None:
        """White space that follows the second."""
        self._space.append(space)

    def _compare(self, text: str, *, second: bool) -> None:
        at = 0
        while at < len(text) and self._ahead and self.second_is_longer is not second:
            other = self._ahead[0]
            size = min(len(other) - self._at, len(text) - at)
            if other[self._at : self._at + size] != text[at : at + size]:
                self.differs = True
                return
            at += size
            self._at += size
            if self._at == len(other):
                self._ahead.popleft()
                self._at = 0
        if at < len(text):
            self.second_is_longer = second
            self._ahead.append(text[at:])
        elif not self._ahead:
            self.second_is_longer = False
