"""The title of a reasoning summary: a heading in its first line, made bold."""

import re

# A first line that is clearly a Markdown heading is not longer than this.
LONGEST_HEADING = 120
_HEADING = re.compile(r"#{1,6} +(?P<title>[^\n]*\S)[ #]*")


def bold_heading(text: str) -> str:
    """Codex shows the bold first line of a summary as its title."""
    line, rest = text[: _line_end(text)], text[_line_end(text) :]
    heading = _HEADING.fullmatch(line) if len(line) <= LONGEST_HEADING else None
    return f"**{heading['title'].strip('*')}**{rest}" if heading else text


def _line_end(text: str) -> int:
    end = text.find("\n")
    return len(text) if end < 0 else end


class Heading:
    """`bold_heading` while the text arrives: only a first line that begins like a heading is buffered."""

    def __init__(self) -> None:
        self._buffer = ""
        self.over = False

    def receive(self, text: str) -> str:
        if self.over:
            return text
        self._buffer += text
        if self._buffer.startswith("#") and "\n" not in self._buffer and len(self._buffer) <= LONGEST_HEADING:
            return ""
        return self.close()

    def close(self) -> str:
        self.over = True
        buffered, self._buffer = self._buffer, ""
        return bold_heading(buffered)
