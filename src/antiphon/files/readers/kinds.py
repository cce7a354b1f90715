"""What kind of file it is: by its content where that says so, else by its name and type."""

from antiphon.files.readers import encodings
from antiphon.files.readers.office.epub import CONTAINER
from antiphon.files.readers.office.open_document import CONTENT
from antiphon.files.readers.office.zip_parts import ZipParts
from antiphon.files.readers.source import Source

HEAD = 4096
PDF = b"%PDF-"
# Some PDF files have a few foreign bytes before their own.
PDF_HEAD = 1024
# How documents begin. "ole": those of old office programs, and those with a password of new ones.
MARKS = ((PDF, "pdf"), (b"PK\x03\x04", "zip"), (b"{\\rtf", "rtf"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"))
# The folder of the main part → the kind.
OFFICE = {"word": "docx", "ppt": "pptx", "xl": "xlsx"}
OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
EPUB = b"application/epub+zip"
# How the first part of other documents begins, which says what they are → the kind, and the main part.
TYPED = ((OPEN_DOCUMENT, "odf", CONTENT), (EPUB, "epub", CONTAINER))

HTML_NAMES = (".html", ".htm", ".xhtml", ".xht")
HTML_TYPES = ("text/html", "application/xhtml+xml")
HTML_BEGINNINGS = (b"<!doctype html", b"<html", b"<head", b"<body")
MAIL_NAMES = (".eml",)
MAIL_TYPES = ("message/rfc822",)

# How files begin that have no text, at which byte, and what they are.
BINARY: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"BM", "a bitmap image"),
    (8, b"WAVE", "a sound file"),
    (8, b"AVI ", "a video"),
    (4, b"ftyp", "a video or an image"),
    (0, b"\x1a\x45\xdf\xa3", "a video"),
    (0, b"ID3", "a sound file"),
    (0, b"\xff\xfb", "a sound file"),
    (0, b"OggS", "a sound file"),
    (0, b"fLaC", "a sound file"),
    (0, b"\x1f\x8b", "a compressed file"),
    (0, b"BZh", "a compressed file"),
    (0, b"\xfd7zXZ", "a compressed file"),
    (0, b"\x28\xb5\x2f\xfd", "a compressed file"),
    (0, b"7z\xbc\xaf", "an archive"),
    (0, b"Rar!", "an archive"),
    (257, b"ustar", "an archive"),
    (0, b"\x7fELF", "a program"),
    (0, b"MZ", "a program"),
    (0, b"\xcf\xfa\xed\xfe", "a program"),
    (0, b"\xca\xfe\xba\xbe", "a program"),
    (0, b"\0asm", "a program"),
    (0, b"SQLite format 3", "a database"),
    (0, b"PAR1", "a table in the format Parquet"),
    (0, b"OTTO", "a font"),
    (0, b"wOF", "a font"),
)


def kind_of(source: Source) -> str:
    """The name of a row in `file_texts.READERS`. What nothing is known of may be text."""
    return document_kind(source) or _markup_kind(source) or "text"


def document_kind(source: Source) -> str | None:
    """By its content. None: it may be text, or nothing that is known."""
    head = source.head(HEAD)
    if PDF in head[:PDF_HEAD] and not head.startswith(PDF) and not encodings.is_utf8(head):
        return "pdf"
    return next((kind for mark, kind in MARKS if head.startswith(mark)), None)


def _markup_kind(source: Source) -> str | None:
    """A kind of text."""
    head = source.head(HEAD).lstrip()
    name, start = source.filename.lower(), head[:16].lower()
    if start.startswith(b"<?xml") and b"<office:document" in head:
        return "flat odf"
    if name.endswith(HTML_NAMES) or source.content_type in HTML_TYPES or start.startswith(HTML_BEGINNINGS):
        return "html"
    return "mail" if name.endswith(MAIL_NAMES) or source.content_type in MAIL_TYPES else None


def main_part(parts: ZipParts) -> tuple[str, str] | None:
    """The kind of document that a ZIP file is, and its main part. None: it is only an archive."""
    for relation, name in parts.relations("").values():
        if relation == "officeDocument" and name.partition("/")[0] in OFFICE:
            return OFFICE[name.partition("/")[0]], name
    written = parts.open("mimetype").read(100).strip() if "mimetype" in parts else b""
    return next(((kind, name) for start, kind, name in TYPED if written.startswith(start)), None)


def binary_name(head: bytes) -> str | None:
    return next((what for at, mark, what in BINARY if head.startswith(mark, at)), None)
