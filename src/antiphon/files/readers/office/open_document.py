"""The text of an OpenDocument file: a text, a workbook or a presentation. It is a ZIP file, or one flat XML file."""

from collections.abc import Callable
from typing import BinaryIO

from msgspec.structs import replace

from antiphon.files.readers.flow import MOST_LEVELS, Flow, Markup
from antiphon.files.readers.office.zip_parts import LOCKED, ZipParts
from antiphon.files.readers.source import Source, TextParts, Unreadable, damaged
from antiphon.files.readers.xml_events import Attributes, MalformedXml, attribute, read_xml

CONTENT = "content.xml"
STYLES = "styles.xml"
MANIFEST = "META-INF/manifest.xml"
HIDDEN = frozenset({"tracked-changes", "note-citation", "binary-data", "page-number", "page-count"})
MARKUP = Markup(
    paragraphs=frozenset({"p", "h"}),
    rows=frozenset({"table-row"}),
    cells=frozenset({"table-cell"}),
    characters={"tab": "\t", "line-break": "\n"},
    # Comments come after the text.
    skipped=HIDDEN | {"annotation"},
)
BESIDE = replace(MARKUP, skipped=HIDDEN)
BODY = frozenset({"body"})
HEADERS = frozenset({"header", "header-left", "header-first"})
FOOTERS = frozenset({"footer", "footer-left", "footer-first"})
COMMENTS = frozenset({"annotation"})
MOST_SPACES = 100
# How often a cell is repeated: a row may end with a thousand empty ones.
MOST_REPEATED = 50

Opened = Callable[[], BinaryIO]


class OpenDocumentFlow(Flow):
    """Writes only what is in some elements."""

    def __init__(self, markup: Markup, text: TextParts, elements: frozenset[str]) -> None:
        super().__init__(markup, text)
        self._elements = elements
        self._depth = 0
        # The kind of document, if it is not a text.
        self.body: str | None = None
        self.has_comments = False
        self._slides = 0

    def element(self, name: str, attributes: Attributes) -> None:
        if name == "h":
            level = attribute(attributes, "outline-level") or "1"
            self.prefix = "#" * (min(int(level), MOST_LEVELS) if level.isdecimal() else 1) + " "
        elif name == "s":
            # Several spaces in a row.
            self.write(" " * _count(attribute(attributes, "c"), MOST_SPACES))
        elif name in ("spreadsheet", "presentation"):
            self.body = name
        elif name == "table" and self.body == "spreadsheet":
            self.begin_section(f"[sheet: {attribute(attributes, 'name') or ''}]")
        elif name == "page" and self.body == "presentation":
            self._slides += 1
            self.begin_section(f"[slide {self._slides}]")
        elif name == "notes" and self.body == "presentation":
            self.begin_section("[notes]", is_spaced=False)

    def is_skipped(self, name: str, attributes: Attributes) -> bool:
        self.has_comments = self.has_comments or name in COMMENTS
        return super().is_skipped(name, attributes)

    def times(self, attributes: Attributes) -> int:
        return _count(attribute(attributes, "number-columns-repeated"), MOST_REPEATED)

    def _start(self, name: str, attributes: Attributes) -> None:
        if self._depth or name in self._elements:
            self._depth += 1
            super()._start(name, attributes)

    def _end(self, name: str) -> None:
        if self._depth:
            super()._end(name)
            self._depth -= 1

    def _data(self, text: str) -> None:
        if self._depth:
            super()._data(text)


def read(source: Source, main: str, parts: ZipParts) -> str:
    if _is_encrypted(parts):
        raise Unreadable("invalid_file", LOCKED)
    return _read(source, lambda: parts.open(main), lambda: parts.open_or_empty(STYLES))


def read_flat(source: Source) -> str:
    def opened() -> BinaryIO:
        source.file.seek(0)
        return source.file

    try:
        return _read(source, opened, opened)
    except MalformedXml as broken:
        raise damaged("document", type(broken).__name__) from None


def _read(source: Source, content: Opened, styles: Opened) -> str:
    text = TextParts(source)
    body = text.part()
    flow = OpenDocumentFlow(MARKUP, body, BODY)
    flow.read(content())
    is_text = flow.body is None
    if is_text:
        # Those of workbooks and presentations are the same in most of them: the name of the sheet, the date.
        _write_part("[header]", styles, HEADERS, text)
    text.add(body.text())
    if is_text:
        _write_part("[footer]", styles, FOOTERS, text)
    if flow.has_comments:
        _write_part("[comments]", content, COMMENTS, text)
    return text.text()


def _write_part(title: str, opened: Opened, elements: frozenset[str], text: TextParts) -> None:
    part = text.part()
    OpenDocumentFlow(BESIDE, part, elements).read(opened())
    if written := part.text():
        text.add(f"{title}\n{written}\n")


def _is_encrypted(parts: ZipParts) -> bool:
    found = False

    def start(element: str, attributes: Attributes) -> None:
        nonlocal found
        found = found or element == "encryption-data"

    read_xml(parts.open_or_empty(MANIFEST), start)
    return found


def _count(written: str | None, most: int) -> int:
    return min(int(written), most) if written and written.isdecimal() and len(written) < 10 else 1
