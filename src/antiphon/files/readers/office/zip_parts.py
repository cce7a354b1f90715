"""The parts of a document that is a ZIP file. What is unpacked is counted: a small file can unpack to any size."""

import posixpath
import zipfile
from io import BytesIO
from typing import BinaryIO, cast

from antiphon.files.readers.source import Source, Unreadable, damaged
from antiphon.files.readers.xml_events import Attributes, attribute, read_xml

# Of all parts that are read.
MOST_UNPACKED = 256 * 1024 * 1024
MOST_PARTS = 20_000
# How documents are packed. The other ways are unpacked in pieces of any size.
PIECEWISE = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))

BOMB = f"it unpacks to more than {MOST_UNPACKED} bytes"
TOO_MANY = f"it has more than {MOST_PARTS} parts"
LOCKED = "it needs a password"


class ZipParts:
    def __init__(self, source: Source, what: str) -> None:
        self._what = what
        self._left = MOST_UNPACKED
        source.file.seek(0)
        self._zip = zipfile.ZipFile(source.file)
        if len(self._zip.filelist) > MOST_PARTS:
            raise Unreadable("invalid_file", TOO_MANY)

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def names(self) -> list[str]:
        return list(self._zip.NameToInfo)

    def open(self, name: str) -> BinaryIO:
        """Raises Unreadable if there is no such part."""
        if name not in self:
            raise damaged(self._what, "a part is missing")
        part = self._zip.NameToInfo[name]
        if part.flag_bits & 1:
            raise Unreadable("invalid_file", LOCKED)
        if part.compress_type not in PIECEWISE:
            raise damaged(self._what, "a part is packed in a way that documents are not")
        return cast(BinaryIO, CountedPart(self, cast(BinaryIO, self._zip.open(name))))

    def open_or_empty(self, name: str) -> BinaryIO:
        return self.open(name) if name in self else BytesIO(b"<empty/>")

    def count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise Unreadable("invalid_file", BOMB)

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """By id, the kind and the name of each part that this one refers to. "" is the whole document."""
        folder, name = posixpath.split(part)
        found: dict[str, tuple[str, str]] = {}

        def start(element: str, attributes: Attributes) -> None:
            target = attribute(attributes, "Target")
            if element == "Relationship" and target and attribute(attributes, "TargetMode") != "External":
                path = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
                kind = (attribute(attributes, "Type") or "").rpartition("/")[2]
                found[attribute(attributes, "Id") or ""] = (kind, path)

        read_xml(self.open_or_empty(posixpath.join(folder, "_rels", f"{name}.rels")), start)
        return found


class CountedPart:
    """A part while it is unpacked."""

    def __init__(self, parts: ZipParts, part: BinaryIO) -> None:
        self._parts = parts
        self._part = part

    def read(self, size: int) -> bytes:
        piece = self._part.read(size)
        self._parts.count(len(piece))
        return piece
