"""The text of an electronic book: its chapters in their order, each a page of HTML."""

import posixpath
import re
from urllib.parse import unquote

from antiphon.files.readers import encodings
from antiphon.files.readers.html import MARKUP, html_to_text
from antiphon.files.readers.office.zip_parts import LOCKED, ZipParts
from antiphon.files.readers.source import Source, TextParts, Unreadable, damaged
from antiphon.files.readers.xml_events import Attributes, attribute, read_xml
from antiphon.patterns import late_pattern

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})

_BODY = late_pattern("<body", re.IGNORECASE)


def read(source: Source, main: str, parts: ZipParts) -> str:
    chapters = _chapters(parts, _package(parts, main))
    if _encrypted(parts).intersection(chapters):
        raise Unreadable("invalid_file", LOCKED)
    text = TextParts(source)
    for chapter in chapters:
        if chapter in parts and (written := _page(source, parts, chapter)):
            text.add(f"{written}\n\n")
    return text.text()


def _page(source: Source, parts: ZipParts, name: str) -> str:
    markup = encodings.decoded(parts.open(name).read(source.longest * MARKUP))
    # What is before it is no text of the book: often a title that a program made up.
    body = _BODY.search(markup or "")
    return html_to_text(markup[body.start() :], source).strip() if markup is not None and body is not None else ""


def _package(parts: ZipParts, container: str) -> str:
    """The part that lists all others."""
    found: list[str] = []

    def start(element: str, attributes: Attributes) -> None:
        if element == "rootfile" and (path := attribute(attributes, "full-path")):
            found.append(path)

    read_xml(parts.open(container), start)
    if not found:
        raise damaged("book", "it lists no contents")
    return found[0]


def _chapters(parts: ZipParts, package: str) -> list[str]:
    folder = posixpath.dirname(package)
    names: dict[str, str] = {}
    order: list[str] = []

    def start(element: str, attributes: Attributes) -> None:
        if element == "item" and attributes.get("media-type") in PAGES:
            path = posixpath.join(folder, unquote(attributes.get("href", "")))
            names[attributes.get("id", "")] = posixpath.normpath(path)
        elif element == "itemref":
            order.append(attributes.get("idref", ""))

    read_xml(parts.open(package), start)
    return [names[id] for id in dict.fromkeys(order) if id in names]


def _encrypted(parts: ZipParts) -> set[str]:
    """The parts that cannot be read. Often these are only fonts."""
    found: set[str] = set()

    def start(element: str, attributes: Attributes) -> None:
        if element == "CipherReference":
            found.add(unquote(attribute(attributes, "URI") or ""))

    read_xml(parts.open_or_empty(ENCRYPTION), start)
    return found
