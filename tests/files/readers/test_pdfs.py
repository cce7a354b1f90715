"""PDF files as text: the library reads them, and whatever it does, there is a text or a complaint."""

import sys
from io import BytesIO

import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pdfs import make_pdf, make_scan

from antiphon.core.checks.work import CheckOutcome, DocumentWork
from antiphon.core.prompt.documents import KnownDocuments
from antiphon.files.readers import pdfs
from antiphon.files.readers.pdfs import ImageLimits
from antiphon.gateway.runs.check_process import run_check
from antiphon.installation import missing_extra

DOCUMENT = make_pdf("Hello", "World")
LONGEST = 1000


def read(document: bytes) -> CheckOutcome:
    return pdfs.read(document, LONGEST)


def protected(password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=BytesIO(DOCUMENT))
    writer.encrypt(password, owner_password="owner")
    written = BytesIO()
    writer.write(written)
    return written.getvalue()


def test_the_text_of_a_pdf_is_read_page_by_page() -> None:
    assert run_check(DocumentWork(DOCUMENT)) == CheckOutcome("[page 1]\nHello\n\n[page 2]\nWorld")


def test_a_page_without_text_keeps_its_number() -> None:
    assert read(make_pdf("Hello", "", "World")).text == "[page 1]\nHello\n\n[page 2]\n\n\n[page 3]\nWorld"


def test_only_a_password_that_is_needed_is_in_the_way() -> None:
    assert read(protected("")).text.startswith("[page 1]\nHello")
    assert read(protected("secret")).complaint == pdfs.ENCRYPTED


@pytest.mark.parametrize(
    ("document", "complaint", "code"),
    [
        (make_pdf("", ""), pdfs.NO_TEXT, "invalid_file"),
        (make_pdf(), pdfs.NO_TEXT, "invalid_file"),
        (b"%PDF-1.7", "the PDF is damaged (PdfStreamError)", "invalid_file"),
    ],
)
def test_a_pdf_that_gives_no_text_has_a_complaint(document: bytes, complaint: str, code: str) -> None:
    assert read(document) == CheckOutcome(complaint=complaint, code=code)


def test_the_images_of_a_scanned_pdf_are_taken_as_they_are() -> None:
    outcome = read(make_scan(b"\xff\xd8one", b"\xff\xd8two"))
    assert outcome == CheckOutcome(images=("data:image/jpeg;base64,/9hvbmU=", "data:image/jpeg;base64,/9h0d28="))
    assert read(make_scan(b"\xff\xd8one", filter="[/DCTDecode]")).images == outcome.images[:1]
    assert read(make_scan(b"\0", filter="/CCITTFaxDecode")).complaint == pdfs.NO_TEXT


def test_more_images_than_an_engine_could_see_are_refused() -> None:
    scan = make_scan(b"\xff\xd8one", b"\xff\xd8two")
    assert pdfs.read(scan, 1000, ImageLimits(bytes=9)).complaint == pdfs.TOO_MANY_IMAGES
    assert len(pdfs.read(scan, 1000, ImageLimits(bytes=10)).images) == 2
    assert pdfs.read(scan, 1000, ImageLimits(images=1)).complaint == pdfs.TOO_MANY_IMAGES


def test_a_text_that_is_longer_than_wanted_is_refused() -> None:
    assert pdfs.read(DOCUMENT, 9).complaint == pdfs.TOO_LONG.format(longest=9)
    assert pdfs.read(BytesIO(DOCUMENT), 10).complaint is None


def test_without_the_library_the_complaint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    complaint = read(DOCUMENT).complaint
    assert complaint is not None
    assert complaint.endswith(missing_extra("that", "pdf"))


@given(st.lists(st.tuples(st.integers(0, len(DOCUMENT) - 1), st.integers(0, 255)), max_size=20), st.integers(0, len(DOCUMENT)))
def test_a_damaged_pdf_gives_a_text_or_a_complaint(changes: list[tuple[int, int]], end: int) -> None:
    damaged = bytearray(DOCUMENT)
    for at, value in changes:
        damaged[at] = value
    outcome = read(bytes(damaged[:end]))
    assert bool(outcome.text) is (outcome.complaint is None)


def test_documents_are_remembered_up_to_a_limit() -> None:
    known = KnownDocuments(most_characters=4000)
    for name in (b"a", b"b", b"c", b"c"):
        known.add(name, CheckOutcome("x" * 600))
    assert [known.get(name) is not None for name in (b"a", b"b", b"c")] == [False, True, True]
    known.add(b"d", CheckOutcome("x" * 9000))
    assert all(known.get(name) is None for name in (b"a", b"b", b"c", b"d"))
