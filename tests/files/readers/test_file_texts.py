"""The text of files of every kind. Whatever a file is, it gives a text or a complaint, in little time and memory."""

import random
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from datetime import date, timedelta

import docx
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import office_files
from support.office_files import MADE, make_docx, make_odt, make_office, make_xlsx, make_zip, saved
from support.operations import count_calls
from support.pdfs import make_pdf, make_scan

from antiphon.core.checks.work import CheckOutcome, DocumentWork, FileWork
from antiphon.files.readers import encodings, file_texts
from antiphon.files.readers.file_texts import read, read_for_model
from antiphon.files.readers.office import zip_parts
from antiphon.files.readers.office.sheets import serial_to_text
from antiphon.files.readers.source import Source, TextParts
from antiphon.gateway.runs.check_process import run_check
from antiphon.installation import how_to_install


def text_of(file: bytes, filename: str = "", content_type: str | None = None) -> str:
    outcome = read(file, filename, content_type)
    assert outcome.complaint is None
    return outcome.text


def problem_of(file: bytes, filename: str = "") -> tuple[str, str]:
    outcome = read(file, filename)
    assert outcome.text == ""
    assert outcome.complaint is not None
    return outcome.code, outcome.complaint


# ---- documents -------------------------------------------------------------------------------------------------------


def test_a_word_document_is_read_in_its_order() -> None:
    assert text_of(make_docx()) == (
        "[header]\nHarbour office\n\n"
        "# Rules of the harbour\n\nShips wait outside.\n\n- Fly the flag\n- Pay the fee\nShip | Fee\nSloop | 12 € inner\n\n"
        "Closed\ton\nSundays & 漢字 👩‍👩‍👧\n"
        "[footer]\nPage of the footer"
    )


def test_text_that_was_deleted_from_a_word_document_is_left_out() -> None:
    assert text_of(office_files.with_moved_text()) == "kept"


def test_a_presentation_is_read_in_the_order_of_its_slides_with_notes() -> None:
    assert text_of(MADE["a.pptx"]()) == (
        "[slide 1]\nFees\nShip | Fee\nSloop | 12\n\n[slide 2]\nTides\nHigh at noon\nLow at six\n[notes]\nMention the moon."
    )


def test_a_workbook_is_read_row_by_row_with_dates_as_dates() -> None:
    first, second = text_of(make_xlsx()).split("\n\n")
    assert first.split("\n") == [
        "[sheet: Fees]",
        "Ship\tFee\t\tDue",
        "Sloop\t12.5\t\t2026-11-16",
        "Brig of oak\t0.3\t\t2026-02-28 13:45:10",
        "TRUE\t1000000000\t\t06:30:00",
        "\t=SUM(B2:B4)",
    ]
    # Its only cell is the last one that a sheet can have.
    assert second.startswith("[sheet: Größen]\n")
    assert second.endswith("\tfar away")
    assert len(second) < 100


def test_a_formula_is_shown_by_the_value_that_it_had() -> None:
    cells = '<c r="A1"><f>1+1</f><v>2</v></c><c r="B1" t="str"><f>"a"</f><v>a</v></c>'
    sheet = f"<worksheet><sheetData><row>{cells}</row></sheetData></worksheet>"
    relations = '<Relationships><Relationship Id="s" Type="x/worksheet" Target="sheet.xml"/></Relationships>'
    workbook = '<workbook xmlns:r="r"><sheets><sheet name="A" r:id="s"/></sheets></workbook>'
    more = {"xl/_rels/book.xml.rels": relations, "xl/sheet.xml": sheet}
    assert text_of(make_office("xl", "book.xml", workbook, **more)) == "[sheet: A]\n2\ta"


@given(st.dates(date(1900, 3, 1), date(9999, 12, 31)), st.integers(0, 86_399))
def test_every_day_of_a_workbook_is_the_right_date(day: date, seconds: int) -> None:
    serial = (day - date(1899, 12, 30)).days
    clock = str(timedelta(seconds=seconds)).zfill(8)
    assert serial_to_text(serial + seconds / 86_400) == (f"{day.isoformat()} {clock}" if seconds else day.isoformat())
    if (early := serial - 1462) >= 0:
        assert serial_to_text(early, is_1904=True) == day.isoformat()


def test_the_days_before_the_leap_day_that_never_was_are_right_too() -> None:
    assert [serial_to_text(day) for day in (1, 59)] == ["1900-01-01", "1900-02-28"]
    assert [serial_to_text(day) for day in (0.25, -1, 1e9, float("nan"))] == ["06:00:00", None, None, None]


def test_an_opendocument_file_is_read() -> None:
    assert text_of(make_odt()) == "## Tides\n\nHigh  at noon\n\nShip | Fee"


def test_a_page_is_read_without_its_scripts() -> None:
    expected = (
        "Tides\n\n## High water\n\nIt comes at noon.\nThen it goes.\n\n- one\n- two\n\n"
        "Ship | Fee\nSloop | 12 €\n\na  b\nc\n\na chart"
    )
    assert text_of(office_files.HTML) == expected
    assert text_of(b"<p>a</p>", "a.html") == "a"
    assert text_of(b"<p>a</p>", content_type="text/html; charset=utf-8") == "a"
    assert text_of(b"<p>a</p>", "a.txt") == "<p>a</p>"


def test_a_page_may_name_its_encoding() -> None:
    page = (
        '<html><head><meta http-equiv="Content-Type" content="text/html; charset=windows-1251"></head><body>Мир</body></html>'
    )
    assert text_of(page.encode("cp1251")) == "Мир"
    assert text_of("<html><meta charset='euc-kr'><p>항구".encode("euc_kr")) == "항구"


def test_a_mail_is_read_and_its_files_are_named() -> None:
    assert text_of(MADE["a.eml"](), "a.eml") == (
        "From: ann@example.com\nTo: bob@example.com\nSubject: Größe der Schiffe\n\nThe sloop is small.\n\n[attached: plan.bin]"
    )


def test_rich_text_is_read() -> None:
    assert text_of(office_files.RTF) == "Größe of ships\n漢字\tend {braces}\n😁"


def test_a_pdf_is_read_page_by_page() -> None:
    assert text_of(make_pdf("Hello", "World"), "anything.txt") == "[page 1]\nHello\n\n[page 2]\nWorld"
    assert read(make_scan(b"\xff\xd8one")).images == ("data:image/jpeg;base64,/9hvbmU=",)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json", "a.md", "a.py", "a.txt", "", "a.unknown", "a.pdf", "a.docx"])
def test_text_is_text_whatever_its_name(name: str) -> None:
    assert text_of(b'{"name",\t"Gr\xc3\xb6\xc3\x9fe"}\r\n# next\r', name) == '{"name",\t"Größe"}\n# next'


def test_the_content_says_what_a_file_is_not_its_name() -> None:
    for name, make in MADE.items():
        if name not in ("a.eml",):
            assert text_of(make(), "wrong.txt") == text_of(make(), name)


def test_the_library_that_makes_large_workbooks_writes_its_texts_otherwise() -> None:
    workbook = openpyxl.Workbook(write_only=True)
    workbook.create_sheet("A").append(["inline", 7])
    assert text_of(saved(workbook)) == "[sheet: A]\ninline\t7"


# ---- encodings -------------------------------------------------------------------------------------------------------

GERMAN = "Die Größe der Schiffe im Hafen wächst. Fünf Segler liegen vor Anker, für 12 Mark.\n"
JAPANESE = "港の船は毎朝出航します。料金は十二円です。日本語の文章を読みます。\n"
RUSSIAN = "Корабли выходят из порта каждое утро. Плата составляет двенадцать рублей.\n"
ENCODED = [
    *(
        (GERMAN, encoding)
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "cp1252")
    ),
    *((JAPANESE, encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be", "shift_jis", "euc_jp", "iso2022_jp")),
    *((RUSSIAN, encoding) for encoding in ("utf-16-le", "utf-16-be", "cp1251", "koi8_r", "cp866")),
    ("港口里的船每天早晨出发。费用是十二元。我们在这里阅读中文文件。\n", "gb18030"),
    ("港口裡的船每天早晨出發。費用是十二元。我們在這裡閱讀中文文件。\n", "big5"),
    ("항구의 배는 매일 아침 출발합니다. 요금은 십이 원입니다.\n", "cp949"),
    ("Los niños comen piñas en la mañana; ¿dónde está el baño?\n", "latin_1"),
    ("Statki wypływają z portu każdego ranka. Opłata wynosi dwanaście złotych.\n", "iso8859_2"),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy. Lodě vyplouvají každé ráno z přístavu.\n", "cp1250"),
    ("Τα πλοία φεύγουν από το λιμάνι κάθε πρωί. Το τέλος είναι δώδεκα ευρώ.\n", "cp1253"),
    ("Gemiler her sabah limandan ayrılıyor. Ücret on iki liradır, şöyle güçlü.\n", "cp1254"),
    ("הספינות יוצאות מהנמל בכל בוקר. התשלום הוא שנים עשר שקלים.\n", "cp1255"),
    ("تغادر السفن الميناء كل صباح. الرسوم اثنا عشر دينارا.\n", "cp1256"),
]


@pytest.mark.parametrize("times", [1, 30, 3000])
@pytest.mark.parametrize(("text", "encoding"), ENCODED)
def test_text_is_read_in_any_encoding(text: str, encoding: str, times: int) -> None:
    assert text_of((text * times).encode(encoding)) == (text * times).strip()


def test_an_encoding_that_is_named_is_believed_if_it_can_be_right() -> None:
    assert text_of("Größe".encode("cp850"), content_type="text/plain; charset=cp850") == "Größe"
    assert text_of("Größe".encode(), content_type='text/plain; charset="frob"') == "Größe"
    assert text_of(b"Gr\xf6\xdfe", content_type="text/plain; charset=utf-8") == "Größe"
    assert text_of(b"5 \x80", content_type="text/plain; charset=iso-8859-1") == "5 €"


def test_without_the_library_western_texts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    assert text_of(GERMAN.encode("cp1252")) == GERMAN.strip()
    assert text_of(JAPANESE.encode("utf-16-le")) == JAPANESE.strip()


def test_a_letter_in_another_encoding_far_into_a_file_is_found() -> None:
    text = "plain line\n" * 100_000 + GERMAN
    assert text_of(text.encode("cp1252")) == text.strip()


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-16-le", "surrogatepass")))
def test_bytes_give_a_clean_text_or_a_complaint(content: bytes) -> None:
    outcome = read(content, "a.txt")
    assert bool(outcome.text) is (outcome.complaint is None)
    assert "\0" not in outcome.text
    outcome.text.encode()


# ---- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "JPEG"),
        (b"ID3\x04\0\0\0\0\0\x23TSSE", "sound"),
        (b"\0\0\0\x20ftypisom\0\0", "video"),
        (b"\x7fELF\x02\x01\x01\0", "program"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "compressed"),
        (b"SQLite format 3\0\x10\0", "database"),
        (make_zip({"a.txt": "hello"}), "archive"),
        (office_files.make_ole(b"WordDocument"), "old format"),
        (bytes(range(256)) * 4, "neither text nor"),
    ],
)
def test_a_file_without_text_is_not_supported(content: bytes, words: str) -> None:
    code, complaint = problem_of(content)
    assert code == "unsupported_file"
    assert words in complaint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no text"),
        (b" \n\n", "no text"),
        (make_pdf(""), "no text"),
        (make_docx()[:2000], "damaged"),
        (make_office("word", "document.xml", "<w:document><w:p>"), "damaged"),
        (make_office("word", "document.xml", ""), "damaged"),
        (make_zip({"_rels/.rels": '<R><Relationship Type="x/officeDocument" Target="word/a.xml"/></R>'}), "damaged"),
        (make_odt(locked=True), "password"),
        (office_files.make_ole("EncryptedPackage".encode("utf-16-le")), "password"),
        (saved(docx.Document()), "no text"),
        (office_files.make_empty_pptx(), "no text"),
        (saved(openpyxl.Workbook()), "no text"),
        (b"%PDF-1.7 and then nothing", "damaged"),
    ],
)
def test_a_file_that_should_have_text_is_invalid(content: bytes, words: str) -> None:
    code, complaint = problem_of(content)
    assert code == "invalid_file"
    assert words in complaint


def test_a_text_that_is_too_long_is_invalid() -> None:
    for content in (b"x" * 1001, b"\xff\xfe" + b"x\0" * 1001, make_pdf("x" * 1001), b"<html>" + b"<p>word</p>" * 300):
        outcome = read(content, longest=1000)
        assert (outcome.text, outcome.code) == ("", "invalid_file")
        assert "more than 1000 characters" in (outcome.complaint or "")
    assert read(b"x" * 1000, longest=1000).text == "x" * 1000


@pytest.mark.parametrize("missing", ["pypdf"])
def test_without_the_library_the_complaint_says_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    code, complaint = problem_of(make_pdf("Hello"))
    assert code == "unsupported_file"
    assert how_to_install("pdf") in complaint


def test_a_text_in_a_request_stays_as_it_is() -> None:
    """It may be what the request is about."""
    for text in ("<html><p>Größe</p>\r\n ", "From: ann\n\nHello\n", ""):
        assert read_for_model(text.encode("utf-16")) == CheckOutcome(text)
    assert read_for_model(GERMAN.encode("cp1252")) == CheckOutcome(GERMAN)
    assert read_for_model(make_docx()) == read(make_docx())
    assert read_for_model(office_files.RTF) == read(office_files.RTF)
    assert read_for_model(b"\0\1\2").code == "unsupported_file"
    assert read_for_model(saved(docx.Document())).code == "invalid_file"


def test_a_document_is_read_in_place_and_a_file_only_where_it_is() -> None:
    assert run_check(DocumentWork(make_docx())).text.startswith("[header]")
    assert run_check(FileWork("/nowhere")).complaint == "there are no uploaded files here"


# ---- what somebody made to do harm -----------------------------------------------------------------------------------


def paragraphs(count: int) -> str:
    return f"<document><body>{'<p><r><t>word</t></r></p>' * count}</body></document>"


def bounded(content: bytes, *, megabytes: int) -> CheckOutcome:
    tracemalloc.start()
    try:
        outcome = read(content)
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()
    return outcome


def test_a_part_that_unpacks_to_any_size_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_parts, "MOST_UNPACKED", 16 * 2**20)
    bomb = make_office("word", "document.xml", b"<document><body>" + b" " * 17 * 2**20)
    assert len(bomb) < 2**16
    outcome = bounded(bomb, megabytes=24)
    assert (outcome.code, outcome.complaint) == ("invalid_file", zip_parts.BOMB)


def test_a_text_that_unpacks_to_any_length_is_given_up() -> None:
    outcome = read(make_office("word", "document.xml", paragraphs(100_000)), longest=1000)
    assert (outcome.code, outcome.text) == ("invalid_file", "")


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_part_that_is_not_unpacked_piece_by_piece_is_refused(packed: int) -> None:
    relation = '<Relationships><Relationship Id="r" Type="x/officeDocument" Target="word/a.xml"/></Relationships>'
    code, complaint = problem_of(make_zip({"_rels/.rels": relation, "word/a.xml": paragraphs(1)}, packed))
    assert code == "invalid_file"
    assert "packed" in complaint


@pytest.mark.parametrize("declared", ['<!ENTITY a "b">', '<!ENTITY a SYSTEM "file:///etc/hostname">', '<!ENTITY % a "b">'])
def test_a_document_with_entities_is_refused(declared: str) -> None:
    body = f"<!DOCTYPE document [{declared}]><document><p><t>&a;</t></p></document>"
    code, complaint = problem_of(make_office("word", "document.xml", body))
    assert code == "invalid_file"
    assert "entities" in complaint


def test_a_document_of_a_declared_type_is_read() -> None:
    """As older programs write them. What the declaration names is not fetched."""
    body = '<!DOCTYPE document PUBLIC "-//X//DTD X//EN" "file:///etc/hostname"><document><p><t>word</t></p></document>'
    assert text_of(make_office("word", "document.xml", body)) == "word"


def test_elements_inside_each_other_without_end_are_read() -> None:
    deep = "<document>" + "<p>" * 20_000 + "<t>deep</t>" + "</p>" * 20_000 + "</document>"
    assert bounded(make_office("word", "document.xml", deep), megabytes=200).text == "deep"
    tables = "<document>" + "<tr><tc>" * 20_000 + "<p><t>deep</t></p>" + "</tc></tr>" * 20_000 + "</document>"
    assert bounded(make_office("word", "document.xml", tables), megabytes=200).text == "deep"
    assert bounded(b"<html>" + b"<div><b>" * 20_000 + b"deep", megabytes=200).text == "deep"
    assert bounded(b"{\\rtf1" + b"{" * 20_000 + b"deep", megabytes=200).text == "deep"


def test_a_zip_file_with_very_many_parts_is_given_up() -> None:
    code, complaint = problem_of(make_zip({f"word/{number}.xml": "<a/>" for number in range(zip_parts.MOST_PARTS + 1)}))
    assert code == "invalid_file"
    assert "parts" in complaint


def test_relations_that_lead_nowhere_or_in_a_circle_are_harmless() -> None:
    relations = "".join(
        f'<Relationship Id="{at}" Type="x/{kind}" Target="{target}"/>'
        for at, (kind, target) in enumerate(
            [("header", "document.xml"), ("footer", "../../../../etc/passwd"), ("header", "/gone.xml")]
        )
    )
    more = {"word/_rels/document.xml.rels": f"<Relationships>{relations}</Relationships>"}
    assert text_of(make_office("word", "document.xml", paragraphs(1), **more)) == "[header]\nword\n\nword"


@pytest.mark.parametrize(
    "content",
    [
        b"<html>" + b"<" * 200_000,
        b"<html>" + b"<!--" * 100_000,
        b"<html>" + b"<a " * 100_000,
        b"<html>" + b"&" * 300_000,
        b"<html>" + b"<script>" * 20_000,
        b"{\\rtf1" + b"\\'" * 200_000,
        b"{\\rtf1" + b"\\" * 300_001,
        b"\x1b$B" + b"a" * 300_000,
        b"a\0" * 300_000,
        b"\xe4" * 300_000,
        b"x" * 300_000 + b"\xe4",
        bytes(random.Random(1).choices(range(0x80, 0x100), k=300_000)),
        bytes(random.Random(1).choices((*range(0x20, 0x7F), 0xE4, 0xFC), k=300_000)),
        make_office("word", "document.xml", b"<document><p " + b"a" * 16 * 2**20),
        make_office("word", "document.xml", b"<document><p " + b" ".join(b'a%d=""' % at for at in range(200_000)) + b"/>"),
    ],
    ids=lambda content: f"{len(content)}",
)
def test_what_looks_like_much_work_is_little(content: bytes) -> None:
    outcome = bounded(content, megabytes=200)
    assert bool(outcome.text) is (outcome.complaint is None)


def test_a_file_that_takes_too_much_memory_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(source: Source) -> CheckOutcome:
        raise MemoryError

    monkeypatch.setitem(file_texts.READERS, "text", starve)
    assert problem_of(b"text") == ("invalid_file", file_texts.TOO_MUCH_MEMORY)


# ---- damage ----------------------------------------------------------------------------------------------------------

ALL_MADE = {**MADE, "a.pdf": lambda: make_pdf("Hello", "World")}


@pytest.mark.parametrize(("name", "make"), ALL_MADE.items())
def test_a_file_that_was_cut_gives_a_text_or_a_complaint(name: str, make: Callable[[], bytes]) -> None:
    whole = make()
    for tenth in range(10):
        outcome = read(whole[: len(whole) * tenth // 10], name)
        assert bool(outcome.text) is (outcome.complaint is None)
        assert bool(outcome.code) is (outcome.complaint is not None)


@pytest.mark.parametrize(("name", "make"), ALL_MADE.items())
def test_a_file_with_wrong_bytes_gives_a_text_or_a_complaint(name: str, make: Callable[[], bytes]) -> None:
    whole = make()
    dice = random.Random(17)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(dice.choice((1, 1, 5, 50))):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        outcome = read(bytes(damaged), name)
        assert bool(outcome.text) is (outcome.complaint is None)
        outcome.text.encode()


@pytest.mark.parametrize("part", ["word/document.xml", "word/_rels/document.xml.rels", "_rels/.rels"])
def test_damage_inside_a_part_gives_a_text_or_a_complaint(part: str) -> None:
    """What is packed again has no wrong checksum, so that the XML itself is read."""
    dice = random.Random(17)
    for _ in range(60):
        outcome = read(office_files.with_damaged_part(make_docx(), part, dice))
        assert bool(outcome.text) is (outcome.complaint is None)


def test_no_text_grows_past_its_bound() -> None:
    parts = TextParts(Source(None, longest=10))  # type: ignore[arg-type]
    parts.add("x" * 8)
    inner = parts.part()
    with pytest.raises(Exception, match="more than 10 characters"):
        inner.add("xxx")
    assert parts.text() == "x" * 8


def test_a_sample_of_a_long_text_is_enough() -> None:
    def calls(times: int) -> int:
        text = RUSSIAN * times
        long = text.encode("cp1251")
        assert encodings.decoded(long) == text
        return count_calls(lambda: encodings.decoded(long))

    assert calls(20_000) <= 1.1 * calls(10_000)


def test_every_kind_has_its_reader() -> None:
    assert set(file_texts.READERS) == {"pdf", "zip", "ole", "rtf", "html", "mail", "flat odf", "text", "text as it is"}
    assert set(file_texts.ZIPPED) == {"docx", "pptx", "xlsx", "odf", "epub"}
