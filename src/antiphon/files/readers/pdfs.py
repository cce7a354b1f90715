"""The text of a PDF, page by page; or, if it was scanned, the images on its pages.

Slow, and the PDF may come from anybody: `run_check()` runs it.
"""

import base64
from collections.abc import Iterator
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

from antiphon.core.checks.work import CheckOutcome
from antiphon.files.readers.source import Problem
from antiphon.installation import missing_extra

MOST_IMAGES = 100
MOST_IMAGE_BYTES = 32 * 1024 * 1024

ENCRYPTED = "the PDF needs a password"
NO_TEXT = "the PDF has no text, and no JPEG images. Send its pages as images"
TOO_MANY_IMAGES = f"the PDF was scanned, and has more than {MOST_IMAGES} images or {MOST_IMAGE_BYTES} bytes of them"
TOO_LONG = "the PDF has more than {longest} characters"
# Fonts have a glyph for these, and some programs write it as a character of its own: nobody searches for that.
LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\0": ""})


class ImageLimits(NamedTuple):
    images: int = MOST_IMAGES
    bytes: int = MOST_IMAGE_BYTES


IMAGE_LIMITS = ImageLimits()


def read(document: bytes | BinaryIO, longest: int, limits: ImageLimits = IMAGE_LIMITS) -> CheckOutcome:
    """`longest`: the longest text that is wanted, in characters. `limits`: of the images of a document without text."""
    try:
        import pypdf
    except ImportError:
        return _complaint(f"this gateway does not read PDF files: {missing_extra('that', 'pdf')}", "unsupported_file")
    try:
        reader = pypdf.PdfReader(BytesIO(document) if isinstance(document, bytes) else document)
        if reader.is_encrypted and not reader.decrypt(""):
            return _complaint(ENCRYPTED)
        texts: list[str] = []
        left = longest
        for page in reader.pages:
            texts.append(page.extract_text())
            left -= len(texts[-1])
            if left < 0:
                return _complaint(TOO_LONG.format(longest=longest))
        if any(text.strip() for text in texts):
            return _texts_to_outcome(texts)
        return _images_to_outcome((image for page in reader.pages for image in _images(page)), limits)
    except MemoryError:
        raise
    except Exception as broken:
        # On a damaged file anything may be raised, not only the library's own errors.
        return _complaint(f"the PDF is damaged ({type(broken).__name__})")


def _complaint(complaint: str, code: Problem = "invalid_file") -> CheckOutcome:
    return CheckOutcome(complaint=complaint, code=code)


def _texts_to_outcome(pages: list[str]) -> CheckOutcome:
    text = "\n\n".join(f"[page {number}]\n{page.strip()}" for number, page in enumerate(pages, 1))
    # Fonts may map a character to anything, also to what is no text.
    return CheckOutcome(text.translate(LIGATURES).encode("utf-8", "replace").decode())


def _images(page: Any) -> Iterator[bytes]:
    """The JPEG files on a page, as most scanners write them. Engines can read these as they are; others would have to be
    drawn first."""
    resources = page.get("/Resources")
    objects = resources.get_object().get("/XObject") if resources is not None else None
    for reference in (objects.get_object() if objects is not None else {}).values():
        image = reference.get_object()
        if image.get("/Subtype") == "/Image" and image.get("/Filter") in ("/DCTDecode", ["/DCTDecode"]):
            yield image.get_data()


def _images_to_outcome(images: Iterator[bytes], limits: ImageLimits) -> CheckOutcome:
    found: list[bytes] = []
    for image in images:
        found.append(image)
        if len(found) > limits.images or sum(map(len, found)) > limits.bytes:
            return _complaint(TOO_MANY_IMAGES)
    if not found:
        return _complaint(NO_TEXT)
    return CheckOutcome(images=tuple(f"data:image/jpeg;base64,{base64.b64encode(image).decode()}" for image in found))
