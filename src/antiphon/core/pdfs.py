"""The text of a PDF, page by page; or, if it was scanned, the images on its pages.

Slow, and the PDF may come from anybody: `run_check()` runs it.
"""

import base64
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from antiphon.core.check_work import CheckOutcome

# Beyond this no engine could read it.
LONGEST_TEXT = 8 * 1024 * 1024
MOST_IMAGES = 100
MOST_IMAGE_BYTES = 32 * 1024 * 1024

NOT_INSTALLED = "this gateway does not read PDF files. Its operator can change that with: pip install pypdf"
ENCRYPTED = "the PDF needs a password"
NO_TEXT = "the PDF has no text, and no JPEG images. Send its pages as images"
TOO_MANY_IMAGES = f"the PDF was scanned, and has more than {MOST_IMAGES} images or {MOST_IMAGE_BYTES} bytes of them"
TOO_LONG = f"the PDF has more than {LONGEST_TEXT} characters"


def read(document: bytes) -> CheckOutcome:
    try:
        import pypdf
    except ImportError:
        return CheckOutcome(complaint=NOT_INSTALLED)
    try:
        reader = pypdf.PdfReader(BytesIO(document))
        if reader.is_encrypted and not reader.decrypt(""):
            return CheckOutcome(complaint=ENCRYPTED)
        texts = [page.extract_text() for page in reader.pages]
        if any(text.strip() for text in texts):
            return _texts_to_outcome(texts)
        return _images_to_outcome(image for page in reader.pages for image in _images(page))
    except Exception as broken:
        # On a damaged file anything may be raised, not only the library's own errors.
        return CheckOutcome(complaint=f"the PDF is damaged ({type(broken).__name__})")


def _texts_to_outcome(pages: list[str]) -> CheckOutcome:
    if sum(map(len, pages)) > LONGEST_TEXT:
        return CheckOutcome(complaint=TOO_LONG)
    text = "\n\n".join(f"[page {number}]\n{page.strip()}" for number, page in enumerate(pages, 1))
    # Fonts may map a character to anything, also to what is no text.
    return CheckOutcome(text.replace("\0", "").encode("utf-8", "replace").decode())


def _images(page: Any) -> Iterator[bytes]:
    """The JPEG files on a page, as most scanners write them. Engines can read these as they are; others would have to be
    drawn first."""
    resources = page.get("/Resources")
    objects = resources.get_object().get("/XObject") if resources is not None else None
    for reference in (objects.get_object() if objects is not None else {}).values():
        image = reference.get_object()
        if image.get("/Subtype") == "/Image" and image.get("/Filter") in ("/DCTDecode", ["/DCTDecode"]):
            yield image.get_data()


def _images_to_outcome(images: Iterator[bytes]) -> CheckOutcome:
    found: list[bytes] = []
    for image in images:
        found.append(image)
        if len(found) > MOST_IMAGES or sum(map(len, found)) > MOST_IMAGE_BYTES:
            return CheckOutcome(complaint=TOO_MANY_IMAGES)
    if not found:
        return CheckOutcome(complaint=NO_TEXT)
    return CheckOutcome(images=tuple(f"data:image/jpeg;base64,{base64.b64encode(image).decode()}" for image in found))
