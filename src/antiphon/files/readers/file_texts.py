"""The text of a file, whatever kind it is; or why it has none.

Slow, and the file may come from anybody: a process that can be killed does it, with little memory.
"""

import re
from collections.abc import Callable
from io import BytesIO
from typing import BinaryIO
from zipfile import BadZipFile

from antiphon.core.checks.work import CheckOutcome
from antiphon.files.readers import encodings, html, kinds, mail, pdfs, rtf
from antiphon.files.readers.office import epub, open_document, sheets, slides, word
from antiphon.files.readers.office.zip_parts import LOCKED, ZipParts
from antiphon.files.readers.source import Source, Unreadable, damaged
from antiphon.files.readers.xml_events import MalformedXml
from antiphon.patterns import late_pattern

# In characters: five million tokens, as many as OpenAI takes of one file.
LONGEST_TEXT = 20_000_000
# Of a document in a request: beyond this no engine could read it.
LONGEST_IN_REQUEST = 8 * 1024 * 1024

NO_TEXT = "it has no text"
OLD_OFFICE = "it is in an old format of Microsoft Office. Save it as .docx, .xlsx or .pptx"
ARCHIVE = "it is an archive. Send the files in it one by one"
BINARY = "it is {what}, which has no text"
UNKNOWN = "it is neither text nor a document of a kind that is read here"
TOO_MUCH_MEMORY = "reading it takes too much memory"
# How a document with a password is stored in an OLE file.
ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
OLE_SEARCHED = 1024 * 1024

_CHARSET = late_pattern(r"""charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_LINE_ENDS = late_pattern(r"\r\n?")


def read(
    file: BinaryIO | bytes, filename: str = "", content_type: str | None = None, longest: int = LONGEST_TEXT
) -> CheckOutcome:
    """Never raises. The complaint completes "the file cannot be read: …". The images are those of a scanned PDF, which has
    no text."""
    source = make_source(file, filename, content_type, longest)
    return _read(source, kinds.kind_of(source))


def read_for_model(file: BinaryIO | bytes, content_type: str | None = None, longest: int = LONGEST_IN_REQUEST) -> CheckOutcome:
    """A file in a request. A page, a mail and the like stay as they are: they may be what the request is about."""
    source = make_source(file, "", content_type, longest)
    return _read(source, kinds.document_kind(source) or "text as it is")


def _read(source: Source, kind: str) -> CheckOutcome:
    try:
        return READERS[kind](source)
    except Unreadable as problem:
        return CheckOutcome(complaint=problem.message, code=problem.code)
    except MemoryError:
        return CheckOutcome(complaint=TOO_MUCH_MEMORY, code="invalid_file")
    except Exception as broken:
        # On a damaged file anything may be raised, not only what is meant to be.
        return CheckOutcome(complaint=damaged("file", type(broken).__name__).message, code="invalid_file")


def make_source(file: BinaryIO | bytes, filename: str, content_type: str | None, longest: int) -> Source:
    kind, _, parameters = (content_type or "").partition(";")
    charset = _CHARSET.search(parameters)
    opened = BytesIO(file) if isinstance(file, bytes) else file
    return Source(opened, filename, kind.strip().lower(), charset[1] if charset else None, longest)


# ---- readers ---------------------------------------------------------------------------------------------------------


def _whole(text: str) -> CheckOutcome:
    text = _LINE_ENDS.sub("\n", _clean(text)).strip()
    return CheckOutcome(text) if text else CheckOutcome(complaint=NO_TEXT, code="invalid_file")


def _clean(text: str) -> str:
    """Without what no text has: zeros, and halves of characters."""
    text = text.replace("\0", "")
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _reads_text(read: Callable[[Source], str]) -> Callable[[Source], CheckOutcome]:
    return lambda source: _whole(read(source))


def _read_pdf(source: Source) -> CheckOutcome:
    return pdfs.read(source.file, source.longest)


def _read_zip(source: Source) -> CheckOutcome:
    try:
        parts = ZipParts(source, "document")
        found = kinds.main_part(parts)
        if found is None:
            raise Unreadable("unsupported_file", ARCHIVE)
        kind, name = found
        return _whole(ZIPPED[kind](source, name, parts))
    except (BadZipFile, MalformedXml) as broken:
        raise damaged("document", type(broken).__name__) from None


def _read_ole(source: Source) -> CheckOutcome:
    if ENCRYPTED in source.head(OLE_SEARCHED):
        raise Unreadable("invalid_file", LOCKED)
    raise Unreadable("unsupported_file", OLD_OFFICE)


def _decoded(source: Source) -> str:
    text = encodings.read(source)
    if text is None:
        what = kinds.binary_name(source.head(kinds.HEAD))
        raise Unreadable("unsupported_file", BINARY.format(what=what) if what else UNKNOWN)
    return text


READERS: dict[str, Callable[[Source], CheckOutcome]] = {
    "pdf": _read_pdf,
    "zip": _read_zip,
    "ole": _read_ole,
    "rtf": _reads_text(rtf.read),
    "html": _reads_text(html.read),
    "mail": _reads_text(mail.read),
    "flat odf": _reads_text(open_document.read_flat),
    "text": _reads_text(_decoded),
    "text as it is": lambda source: CheckOutcome(_clean(_decoded(source))),
}
# What a ZIP file may be.
ZIPPED: dict[str, Callable[[Source, str, ZipParts], str]] = {
    "docx": word.read,
    "pptx": slides.read,
    "xlsx": sheets.read,
    "odf": open_document.read,
    "epub": epub.read,
}
