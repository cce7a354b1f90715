"""Paragraphs and tables as text, from the elements of a document's XML. A table says which elements mean what."""

import re
from collections.abc import Mapping
from typing import BinaryIO

from msgspec import Struct

from antiphon.files.readers.source import TextParts
from antiphon.files.readers.xml_events import Attributes, attribute, read_xml

CELL_BORDER = " | "
MOST_LEVELS = 6
_SPACES = re.compile(r"\s+")


class Markup(Struct, frozen=True):
    """The names of elements, without prefixes."""

    paragraphs: frozenset[str]
    rows: frozenset[str]
    cells: frozenset[str]
    # Elements whose characters are text. Empty: all characters in a paragraph are.
    texts: frozenset[str] = frozenset()
    # Elements that stand for characters.
    characters: Mapping[str, str] = {}
    # Paragraphs have a line of space between them. Items of lists and rows have none.
    spaced: bool = True
    # Elements whose content is not shown: deleted text, or the same in another form.
    skipped: frozenset[str] = frozenset()


class Flow:
    """Writes one part of a document. A subclass knows the format's headings and lists."""

    def __init__(self, markup: Markup, text: TextParts) -> None:
        self._markup = markup
        self._text = text
        # The paragraphs that are open: one may have another inside, in a text box.
        self._paragraphs: list[list[str]] = []
        # The rows of tables that are open, and the paragraphs of their last cell: a cell may have a table.
        self._rows: list[list[list[str]]] = []
        self._skipping = 0
        self._in_text = 0
        # What the paragraph begins with, and whether it is a line among others, as in a list.
        self.prefix = ""
        self.is_line = False
        self._was_line: bool | None = None

    def read(self, part: BinaryIO) -> None:
        read_xml(part, self._start, self._end, self._data)

    def element(self, name: str, attributes: Attributes) -> None:
        """For a subclass: an element that may change `prefix` and `is_line`."""

    def is_skipped(self, name: str, attributes: Attributes) -> bool:
        return name in self._markup.skipped

    def write(self, text: str) -> None:
        """Into the paragraph that is open."""
        if self._paragraphs:
            self._paragraphs[-1].append(text)

    def _start(self, name: str, attributes: Attributes) -> None:
        if self._skipping or self.is_skipped(name, attributes):
            self._skipping += 1
        elif name in self._markup.paragraphs:
            self._paragraphs.append([])
            self._begin_line()
            self.element(name, attributes)
        elif name in self._markup.rows:
            self._rows.append([])
        elif name in self._markup.cells and self._rows:
            self._rows[-1].append([])
        elif name in self._markup.texts:
            self._in_text += 1
        elif name in self._markup.characters and not attribute(attributes, "val"):
            self.write(self._markup.characters[name])
        else:
            self.element(name, attributes)

    def _end(self, name: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif name in self._markup.paragraphs:
            self._end_paragraph()
        elif name in self._markup.rows and self._rows:
            self._end_row()
        elif name in self._markup.texts:
            self._in_text -= 1

    def _data(self, text: str) -> None:
        if not self._skipping and (self._in_text or not self._markup.texts):
            self.write(text)

    def _end_paragraph(self) -> None:
        text = "".join(self._paragraphs.pop())
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(text)
        elif text.strip():
            self._write_line(f"{self.prefix}{text}", is_line=self.is_line or not self._markup.spaced)
        self._begin_line()

    def _end_row(self) -> None:
        cells = [_SPACES.sub(" ", " ".join(cell)).strip() for cell in self._rows.pop()]
        line = CELL_BORDER.join(cells)
        if self._rows and self._rows[-1]:
            # A table inside a cell is part of its text.
            self._rows[-1][-1].append(line)
        elif any(cells):
            self._write_line(line, is_line=True)

    def _begin_line(self) -> None:
        self.prefix, self.is_line = "", False

    def _write_line(self, line: str, *, is_line: bool) -> None:
        if self._was_line is not None and not (self._was_line and is_line):
            self._text.add("\n")
        self._text.add(f"{line}\n")
        self._was_line = is_line
