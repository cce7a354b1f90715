"""XML, read piece by piece without a tree: its memory does not grow with its size, nor with its depth."""

from collections.abc import Callable
from typing import BinaryIO
from xml.parsers import expat

from antiphon.files.readers.source import Unreadable

# Older parsers look again at all of a tag that has not ended, with every piece: there must be few.
PIECE = 4 * 1024 * 1024
# How many names of elements are remembered.
MOST_NAMES = 10_000

Attributes = dict[str, str]
Start = Callable[[str, Attributes], None]
End = Callable[[str], None]


class MalformedXml(Exception):
    """It is not well-formed, or declares entities, which no document of an office does."""


def read_xml(file: BinaryIO, start: Start, end: End | None = None, data: Callable[[str], None] | None = None) -> None:
    """Names come without their prefix: the same elements have other namespaces in the strict form of the formats."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.EntityDeclHandler = _refuse
    # A document has few names, many times.
    names = LocalNames()
    parser.StartElementHandler = lambda name, attributes: start(names[name], attributes)
    if end is not None:
        close = end
        parser.EndElementHandler = lambda name: close(names[name])
    if data is not None:
        parser.CharacterDataHandler = data
    try:
        while piece := file.read(PIECE):
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except expat.ExpatError as malformed:
        raise MalformedXml(str(malformed)) from None


class LocalNames(dict[str, str]):
    def __missing__(self, name: str) -> str:
        short = local(name)
        if len(self) < MOST_NAMES:
            self[name] = short
        return short


def local(name: str) -> str:
    return name.rpartition(":")[2]


def attribute(attributes: Attributes, name: str) -> str | None:
    """An attribute by its name without its prefix."""
    return next((value for key, value in attributes.items() if local(key) == name), None)


def _refuse(*declared: object) -> None:
    raise Unreadable("invalid_file", "it declares XML entities, which could grow without bounds")
