"""The texts of stored files: read from the disk, in processes that are killed when that takes too long."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.office_files import MADE, make_zip
from support.pdfs import make_pdf, make_scan

from antiphon.core.checks.work import CheckOutcome, CheckWork, FileWork
from antiphon.files.file_inputs import TOO_SLOW, FileTexts, UnreadableFile
from antiphon.gateway.runs.checker import Checker
from antiphon.store.files.records import FileRecord


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[Checker]:
    checker = Checker(deadline=30, most_processes=1)
    yield checker
    checker.close()


@pytest.fixture
def texts(checker: Checker) -> FileTexts:
    return FileTexts(checker.run)


def stored(folder: Path, content: bytes) -> Path:
    """Its name says nothing, as that of a stored file."""
    path = folder / "content"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "words"), [("a.docx", "Ships wait"), ("a.pptx", "moon"), ("a.xlsx", "Sloop\t12.5"), ("a.eml", "Ann")]
)
async def test_a_stored_file_is_read_in_another_process(texts: FileTexts, tmp_path: Path, name: str, words: str) -> None:
    assert words.lower() in (await texts.text_of(stored(tmp_path, MADE[name]()), name, None, "ann")).lower()


async def test_the_type_of_a_file_counts_where_its_name_says_nothing(texts: FileTexts, tmp_path: Path) -> None:
    path = stored(tmp_path, b"<p>Gr\xf6\xdfe</p>")
    assert await texts.text_of(path, "page", "text/html; charset=iso-8859-1", "") == "Größe"
    assert await texts.text_of(path, "page", "text/plain", "") == "<p>Größe</p>"


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "unsupported_file", "PNG image"),
        (make_scan(b"\xff\xd8one"), "unsupported_file", "only images"),
        (make_zip({"a": "b"}), "unsupported_file", "archive"),
        (b"%PDF-1.7", "invalid_file", "damaged"),
        (b"", "invalid_file", "no text"),
    ],
)
async def test_a_file_without_text_says_why(texts: FileTexts, tmp_path: Path, content: bytes, code: str, words: str) -> None:
    with pytest.raises(UnreadableFile) as raised:
        await texts.text_of(stored(tmp_path, content), "a", None, "")
    assert raised.value.code == code
    assert raised.value.message.startswith("The file cannot be read: ")
    assert words in raised.value.message


async def test_a_file_that_is_gone_is_an_error_of_the_server(texts: FileTexts, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile) as raised:
        await texts.text_of(tmp_path / "gone", "a.txt", None, "")
    assert (raised.value.code, raised.value.message) == ("server_error", TOO_SLOW)


async def test_a_file_that_takes_too_long_is_given_up_and_the_next_is_read(tmp_path: Path) -> None:
    checker = Checker(deadline=1.0, most_processes=1)
    texts = FileTexts(checker.run)
    try:
        # Each of its letters is a command: it takes minutes.
        endless = stored(tmp_path, make_pdf("a) Tj (b" * 2_000_000))
        with pytest.raises(UnreadableFile) as raised:
            await texts.text_of(endless, "a.pdf", None, "")
        assert raised.value.code == "server_error"
        assert await texts.text_of(stored(tmp_path, b"hello"), "a.txt", None, "") == "hello"
    finally:
        checker.close()


async def test_the_work_names_the_file_and_does_not_contain_it(tmp_path: Path) -> None:
    seen: list[tuple[CheckWork, str, bool]] = []

    async def run(work: CheckWork, owner: str, *, patient: bool) -> CheckOutcome:
        seen.append((work, owner, patient))
        return CheckOutcome("text")

    path = tmp_path / "content"
    texts = FileTexts(run)
    assert await texts.text_of(path, "a.txt", "text/plain", "ann") == "text"
    record = FileRecord(id="file-1", owner="bob", created_at=0, size=1, purpose="user_data", filename="b.txt")
    assert await texts.read_for_model(path, record, patient=False) == CheckOutcome("text")
    assert seen == [
        (FileWork(str(path), "a.txt", "text/plain"), "ann", True),
        (FileWork(str(path), "b.txt", None, is_for_model=True), "bob", False),
    ]
