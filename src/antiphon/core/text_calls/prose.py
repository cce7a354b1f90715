"""Where ordinary text stands: at the beginning of a line, inside code, behind a quote."""

import re

from antiphon.core.think_tags import QUOTES

_TOKENS = re.compile(r"`+|\n|[^`\n]+")


class Prose:
    """`advance()` over the text, in any pieces. A run of backticks counts once the character behind it is known."""

    __slots__ = ("_fence", "_info", "_inline", "_run", "last", "line_start")

    def __init__(self) -> None:
        self.last = ""
        self.line_start = True
        self._run = 0
        # How many backticks opened the fence, or the inline code, that is open.
        self._fence = 0
        self._inline = 0
        # In the line that opened the fence.
        self._info = False

    @property
    def settled(self) -> bool:
        return not self._run

    @property
    def in_code(self) -> bool:
        return self._fence > 0 or self._inline > 0

    @property
    def quoted(self) -> bool:
        return self.last != "" and self.last in QUOTES

    @property
    def may_open_fence(self) -> bool:
        return self.line_start and self.settled and not self.in_code

    def advance(self, text: str) -> None:
        for token in _TOKENS.findall(text):
            if token[0] == "`":
                self._run += len(token)
                continue
            self.settle()
            if token == "\n":
                self.line_start = True
                self._inline = 0
                self._info = False
            elif not token.isspace():
                self.line_start = False
        self.last = text[-1:] or self.last

    def settle(self) -> None:
        """Something other than a backtick follows."""
        run, self._run = self._run, 0
        if not run:
            return
        if self._info:
            # ```like this``` in one line is inline code.
            self._fence, self._inline, self._info = 0, self._fence, False
        if self._fence:
            self._fence = 0 if self.line_start and run >= self._fence else self._fence
        elif self.line_start and run >= 3:
            self._fence, self._info = run, True
        elif self._inline in (0, run):
            self._inline = run - self._inline
        self.line_start = False
