"""The position in Markdown text: at the beginning of a line, inside code, after a quotation mark."""

from antiphon.patterns import late_pattern

# A tag directly after one of these is quoted, not used.
QUOTES = "`\"'"


_TOKENS = late_pattern(r"`+|[^`]+")
_TILDES = late_pattern(r"~+|[^~]+")


class MarkdownState:
    """`advance()` over the text, in any pieces. A run of backticks counts once the character after it is known."""

    __slots__ = ("_backticks", "_fence", "_in_info_line", "_inline", "last", "line_start")

    def __init__(self) -> None:
        self.last = ""
        self.line_start = True
        # The length of the run of backticks that the text ends with.
        self._backticks = 0
        # The number of backticks that opened the current fence, or the current inline code.
        self._fence = 0
        self._inline = 0
        # The position is in the line that opened the fence.
        self._in_info_line = False

    @property
    def in_backticks(self) -> bool:
        return self._backticks > 0

    @property
    def in_fence(self) -> bool:
        return self._fence > 0

    @property
    def in_code(self) -> bool:
        return self._fence > 0 or self._inline > 0

    @property
    def quoted(self) -> bool:
        return self.last != "" and self.last in QUOTES

    @property
    def may_open_fence(self) -> bool:
        return self.line_start and not self.in_backticks and not self.in_code

    def advance(self, text: str) -> None:
        for token in _TOKENS.findall(text) if "`" in text else (text,):
            if token[:1] == "`":
                self._backticks += len(token)
            elif token:
                self.end_backticks()
                self._advance_without_backticks(token)
        self.last = text[-1:] or self.last

    def _advance_without_backticks(self, text: str) -> None:
        """Of the lines that have ended nothing counts but that they have."""
        line = text.rfind("\n") + 1
        if line:
            self.line_start = True
            self._inline = 0
            self._in_info_line = False
        if line < len(text) and not text[line:].isspace():
            self.line_start = False

    def end_backticks(self) -> None:
        """Something other than a backtick follows."""
        run, self._backticks = self._backticks, 0
        if not run:
            return
        if self._in_info_line:
            # ```like this``` on one line is inline code.
            self._fence, self._inline, self._in_info_line = 0, self._fence, False
        if self._fence:
            self._fence = 0 if self.line_start and run >= self._fence else self._fence
        elif self.line_start and run >= 3:
            self._fence, self._in_info_line = run, True
        elif self._inline in (0, run):
            self._inline = run - self._inline
        self.line_start = False


class MarkdownWithTildes(MarkdownState):
    """Fences of tildes are code, too."""

    __slots__ = ("_tilde_fence", "_tildes")

    def __init__(self) -> None:
        super().__init__()
        # The length of the run of tildes that the line so far consists of; and of the one that opened the current fence.
        self._tildes = 0
        self._tilde_fence = 0

    @property
    def in_code(self) -> bool:
        return self._tilde_fence > 0 or super().in_code

    def advance(self, text: str) -> None:
        for token in _TILDES.findall(text) if "~" in text else (text,):
            if token[:1] == "~":
                super().end_backticks()
                if self.line_start:
                    self._tildes += len(token)
            elif token:
                self._end_tildes()
                self._advance_other(token)
        self.last = text[-1:] or self.last

    def _advance_other(self, text: str) -> None:
        if self._tilde_fence:
            # Backticks mean nothing there.
            self._advance_without_backticks(text)
        else:
            super().advance(text)

    def end_backticks(self) -> None:
        self._end_tildes()
        super().end_backticks()

    def _end_tildes(self) -> None:
        """Something other than a tilde follows."""
        run, self._tildes = self._tildes, 0
        if not run:
            return
        if self._tilde_fence:
            self._tilde_fence = 0 if run >= self._tilde_fence else self._tilde_fence
        elif run >= 3 and not super().in_code:
            self._tilde_fence = run
        self.line_start = False
