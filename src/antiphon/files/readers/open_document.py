"""The text of an OpenDocument file: a text, a workbook or a presentation."""

from antiphon.files.readers.flow import MOST_LEVELS, Flow, Markup
from antiphon.files.readers.source import Source, TextParts, Unreadable
from antiphon.files.readers.xml_events import Attributes, attribute, read_xml
from antiphon.files.readers.zip_parts import LOCKED, ZipParts

CONTENT = "content.xml"
MANIFEST = "META-INF/manifest.xml"
MARKUP = Markup(
    paragraphs=frozenset({"p", "h"}),
    rows=frozenset({"table-row"}),
    cells=frozenset({"table-cell"}),
    characters={"tab": "\t", "line-break": "\n"},
    skipped=frozenset({"tracked-changes", "annotation", "note-citation", "binary-data", "page-number"}),
)
MOST_SPACES = 100


class OpenDocumentFlow(Flow):
    def element(self, name: str, attributes: Attributes) -> None:
        if name == "h":
            level = attribute(attributes, "outline-level") or "1"
            self.prefix = "#" * (min(int(level), MOST_LEVELS) if level.isdecimal() else 1) + " "
        elif name == "s":
            # Several spaces in a row.
            count = attribute(attributes, "c") or "1"
            self.write(" " * (min(int(count), MOST_SPACES) if count.isdecimal() else 1))


def read(source: Source, main: str, parts: ZipParts) -> str:
    if _is_encrypted(parts):
        raise Unreadable("invalid_file", LOCKED)
    text = TextParts(source)
    OpenDocumentFlow(MARKUP, text).read(parts.open(main))
    return text.text()


def _is_encrypted(parts: ZipParts) -> bool:
    found = False

    def start(element: str, attributes: Attributes) -> None:
        nonlocal found
        found = found or element == "encryption-data"

    read_xml(parts.open_or_empty(MANIFEST), start)
    return found
