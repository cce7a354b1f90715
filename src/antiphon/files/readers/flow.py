"""Paragraphs and tables as text, from the elements of a document's XML. A table says which elements mean what."""

import re
from collections.abc import Mapping
from typing import BinaryIO

from msgspec import Struct

from antiphon.files.readers.source import TextParts
from antiphon.files.readers.xml_events import Attributes, attribute, read_xml
from antiphon.patterns import late_pattern

CELL_BORDER = " | "
MOST_LEVELS = 6
_SPACES = late_pattern(r"\s+")
# Programs describe a picture by the name of its file where nobody wrote a description.
_FILENAME = late_pattern(r"[^\n]{1,200}\.(?:png|jpe?g|gif|bmp|tiff?|emf|wmf|svg|webp)", re.IGNORECASE)


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


class Cell:
    __slots__ = ("paragraphs", "times")

    def __init__(self, times: int) -> None:
        self.paragraphs: list[str] = []
        # How many cells in a row are like it.
        self.times = times

    def text(self) -> str:
        return one_line(" ".join(self.paragraphs))


class Flow:
    """Writes one part of a document. A subclass knows the format's headings and lists."""

    def __init__(self, markup: Markup, text: TextParts) -> None:
        self._markup = markup
        self._text = text
        # The paragraphs that are open: one may have another inside, in a text box.
        self._paragraphs: list[list[str]] = []
        # The rows of tables that are open: a cell may have a table.
        self._rows: list[list[Cell]] = []
        self._skipping = 0
        self._in_text = 0
        # What the paragraph begins with, and whether it is a line among others, as in a list.
        self.prefix = ""
        self.is_line = False
        self._was_line: bool | None = None
        # What is written above the next line, if there is one; and whether a line of space comes before it.
        self._title: tuple[str, bool] | None = None

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

    def line(self, text: str) -> None:
        """A line of its own, or a part of the cell that is open."""
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].paragraphs.append(text)
        else:
            self._write_line(text, is_line=True)

    def begin_section(self, title: str, *, is_spaced: bool = True) -> None:
        """The title is written with the first line of the section."""
        if not self._rows:
            self._title = title, is_spaced

    def times(self, attributes: Attributes) -> int:
        """For a subclass: how many cells in a row this cell stands for."""
        return 1

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
            self._rows[-1].append(Cell(self.times(attributes)))
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
            self._rows[-1][-1].paragraphs.append(text)
        elif text.strip():
            self._write_line(f"{self.prefix}{text}", is_line=self.is_line or not self._markup.spaced)
        self._begin_line()

    def _end_row(self) -> None:
        row = self._rows.pop()
        while row and row[-1].times > 1 and not row[-1].text():
            # The empty rest of a row.
            row.pop()
        cells = [text for cell in row for text in [cell.text()] * cell.times]
        if self._rows and self._rows[-1]:
            # A table inside a cell is part of its text.
            self._rows[-1][-1].paragraphs.append(CELL_BORDER.join(cells))
        elif any(cells):
            self._write_line(CELL_BORDER.join(cells), is_line=True)

    def _begin_line(self) -> None:
        self.prefix, self.is_line = "", False

    def _write_line(self, line: str, *, is_line: bool) -> None:
        title, is_spaced = self._title or ("", not (self._was_line and is_line))
        if self._was_line is not None and is_spaced:
            self._text.add("\n")
        if title:
            self._text.add(f"{title}\n")
            self._title = None
        self._text.add(f"{line}\n")
        self._was_line = is_line


def one_line(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def described(attributes: Attributes) -> str:
    """What somebody wrote for those who do not see a picture. "": nothing."""
    description = one_line(attribute(attributes, "descr") or "")
    return f"[picture: {description}]" if description and not _FILENAME.fullmatch(description) else ""
