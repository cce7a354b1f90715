"""The title of a summary: a heading in its first line, made bold."""

import re

# A first line that is clearly a heading: Markdown's, and no longer than one.
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
    """`bold_heading` while the text arrives: only a first line that begins like a heading is held back."""

    def __init__(self) -> None:
        self._held = ""
        self.over = False

    def receive(self, text: str) -> str:
        if self.over:
            return text
        self._held += text
        if self._held.startswith("#") and "\n" not in self._held and len(self._held) <= LONGEST_HEADING:
            return ""
        return self.close()

    def close(self) -> str:
        self.over = True
        held, self._held = self._held, ""
        return bold_heading(held)
