"""The text of a PDF, page by page. Slow, and the PDF may come from anybody: `run_check()` runs it."""

from io import BytesIO

from antiphon.core.check_work import CheckOutcome

# Beyond this no engine could read it.
LONGEST_TEXT = 8 * 1024 * 1024

NOT_INSTALLED = "this gateway does not read PDF files. Its operator can change that with: pip install 'antiphon[pdf]'"
ENCRYPTED = "the PDF needs a password"
NO_TEXT = "the PDF has no text, it may be scanned. Send its pages as images"
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
        return _pages_to_outcome([page.extract_text() for page in reader.pages])
    except Exception as broken:
        # On a damaged file anything may be raised, not only the library's own errors.
        return CheckOutcome(complaint=f"the PDF is damaged ({type(broken).__name__})")


def _pages_to_outcome(pages: list[str]) -> CheckOutcome:
    if not any(page.strip() for page in pages):
        return CheckOutcome(complaint=NO_TEXT)
    if sum(map(len, pages)) > LONGEST_TEXT:
        return CheckOutcome(complaint=TOO_LONG)
    text = "\n\n".join(f"[page {number}]\n{page.strip()}" for number, page in enumerate(pages, 1))
    # Fonts may map a character to anything, also to what is no text.
    return CheckOutcome(text.replace("\0", "").encode("utf-8", "replace").decode())
