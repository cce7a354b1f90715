"""What documents have beside their paragraphs: charts, diagrams, descriptions of pictures, headers, comments; and mails and
books as programs really write them."""

from email.message import EmailMessage
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from support.office_files import make_office, make_zip, saved
from support.pdfs import make_pdf

from antiphon.files.readers.file_texts import read, read_for_model


def text_of(file: bytes, filename: str = "") -> str:
    outcome = read(file, filename)
    assert outcome.complaint is None
    return outcome.text


def problem_of(file: bytes) -> str:
    outcome = read(file)
    assert outcome.text == ""
    return outcome.complaint or ""


# ---- charts, diagrams and pictures -----------------------------------------------------------------------------------


def test_a_chart_on_a_slide_is_read_as_a_table() -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Ships"
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
    data.categories = ["sloops", "brigs"]
    data.add_series("2025", (4.3, 2))
    data.add_series("2026", (0.1 + 0.2, None))
    place = (Inches(1), Inches(1), Inches(4), Inches(3))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Ships in the harbour"
    slide.notes_slide.notes_text_frame.text = "Mention the brigs."
    assert text_of(saved(presentation)) == (
        "[slide 1]\nShips\n[chart]\nShips in the harbour\n"
        " | 2025 | 2026\nsloops | 4.3 | 0.3\nbrigs | 2 | \n[notes]\nMention the brigs."
    )


def with_relation(kind: str, part: str, body: str = "<document><p><t>word</t></p></document>") -> bytes:
    """A Word document that refers to a part."""
    relations = f'<Relationships><Relationship Id="r" Type="x/{kind}" Target="part.xml"/></Relationships>'
    return make_office("word", "document.xml", body, **{"word/_rels/document.xml.rels": relations, "word/part.xml": part})


def test_the_days_of_a_chart_are_dates() -> None:
    days = "<cat><numRef><numCache><formatCode>m/d/yy</formatCode><pt idx='0'><v>37261</v></pt></numCache></numRef></cat>"
    values = "<val><numRef><numCache><formatCode>General</formatCode><pt idx='0'><v>32</v></pt></numCache></numRef></val>"
    chart = f"<chart><ser>{days}{values}</ser></chart>"
    assert text_of(with_relation("chart", chart)) == "word\n[chart]\n2002-01-05 | 32"


@pytest.mark.parametrize(
    "chart",
    [
        "<chart/>",
        "<chart><ser><val><pt idx='x'/></val></ser></chart>",
        "<chart><pt idx='1'><v>1</v></pt><ser><tx/></ser></chart>",
        "<chart><val><pt idx='99999999999999'><v>1</v></pt></val></chart>",
    ],
)
def test_a_chart_without_numbers_adds_nothing(chart: str) -> None:
    assert text_of(with_relation("chart", chart)) == "word"


def test_a_chart_is_bounded_like_any_text() -> None:
    points = "".join(f"<pt idx='{at}'><v>{at}</v></pt>" for at in range(10_000))
    chart = with_relation("chart", f"<chart><ser><val>{points}</val></ser></chart>")
    assert "more than 1000 characters" in (read(chart, longest=1000).complaint or "")


def test_few_numbers_in_many_series_make_no_large_table() -> None:
    series = "".join(f"<ser><val><pt idx='{at}'><v>1</v></pt></val></ser>" for at in range(1000))
    assert "more than 100000 characters" in (
        read(with_relation("chart", f"<chart>{series}</chart>"), longest=100_000).complaint or ""
    )
    assert problem_of(with_relation("chart", f"<chart>{'<ser/>' * 1001}</chart>")) == "a chart has more than 1000 series"


def test_the_texts_of_a_diagram_are_read() -> None:
    points = "".join(f"<pt><t><p><r><t>{word}</t></r></p></t></pt>" for word in ("Plan", "Build"))
    assert text_of(with_relation("diagramData", f"<dataModel>{points}</dataModel>")) == "word\nPlan\nBuild"


def test_what_a_picture_shows_is_read_but_not_the_name_of_its_file() -> None:
    pictures = (
        "<drawing><docPr descr='A sloop\n at anchor'/></drawing><drawing><docPr descr='a b.PNG'/></drawing><docPr descr=' '/>"
    )
    body = f"<document><p><t>See </t>{pictures}</p></document>"
    assert text_of(make_office("word", "document.xml", body)) == "See [picture: A sloop at anchor]"


def test_what_a_picture_on_a_slide_shows_is_a_line() -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Ships"
    box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1))
    box._element.nvSpPr.cNvPr.set("descr", "A brig")
    assert text_of(saved(presentation)) == "[slide 1]\nShips\n[picture: A brig]"


# ---- OpenDocument ----------------------------------------------------------------------------------------------------

NAMES = 'xmlns:office="o" xmlns:text="t" xmlns:table="b" xmlns:style="s" xmlns:draw="d" xmlns:presentation="p"'


def make_odf(kind: str, body: str, styles: str = "") -> bytes:
    return make_zip(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {NAMES}><office:body>{body}</office:body></office:document-content>",
            "styles.xml": f"<office:document-styles {NAMES}>{styles}</office:document-styles>",
        }
    )


STYLES = (
    "<style:master-page><style:header><text:p>Harbour<text:tab/>office</text:p></style:header>"
    "<style:footer><text:p>Page <text:page-number>1</text:page-number> of the rules</text:p></style:footer></style:master-page>"
)
COMMENTED = (
    "<office:text><text:p>Ships wait"
    "<office:annotation><dc>Ann</dc><text:p>Where?</text:p></office:annotation> outside.</text:p>"
    "</office:text>"
)


def test_a_text_has_its_header_footer_and_comments() -> None:
    expected = "[header]\nHarbour\toffice\n\nShips wait outside.\n[footer]\nPage  of the rules\n\n[comments]\nWhere?"
    assert text_of(make_odf("text", COMMENTED, STYLES)) == expected


def test_a_flat_file_is_read_like_one_in_parts() -> None:
    flat = (
        f'<?xml version="1.0"?><office:document {NAMES}><office:master-styles>{STYLES}</office:master-styles>'
        f"<office:body>{COMMENTED}</office:body></office:document>"
    ).encode()
    assert text_of(flat, "a.fodt") == text_of(make_odf("text", COMMENTED, STYLES))
    assert "damaged" in problem_of(flat[:-20])
    # In a request it may be what the request is about.
    assert read_for_model(flat).text == flat.decode()


def test_a_sheet_has_its_name_and_repeated_cells() -> None:
    cell = "<table:table-cell{}>{}</table:table-cell>"
    rows = "<table:table-row>" + "".join(
        (
            cell.format("", "<text:p>Ship</text:p>"),
            cell.format(' table:number-columns-repeated="2"', ""),
            cell.format(' table:number-columns-repeated="2"', "<text:p>12</text:p>"),
            cell.format(' table:number-columns-repeated="1019"', ""),
        )
    )
    sheet = '<table:table table:name="{}">{}</table:table>'
    many = (
        f"<table:table-row>{cell.format(' table:number-columns-repeated=' + chr(34) + '99999' + chr(34), '<text:p>x</text:p>')}"
    )
    sheets = (
        sheet.format("Fees", f"{rows}</table:table-row>")
        + sheet.format("Empty", "")
        + sheet.format("Last", f"{many}</table:table-row>")
    )
    text = text_of(make_odf("spreadsheet", f"<office:spreadsheet>{sheets}</office:spreadsheet>", STYLES))
    first, last = text.split("\n\n")
    assert first == "[sheet: Fees]\nShip |  |  | 12 | 12"
    assert last == "[sheet: Last]\n" + " | ".join(["x"] * 50)


def test_a_presentation_has_its_slides_and_notes() -> None:
    page = "<draw:page><text:p>{}</text:p><presentation:notes><text:p>{}</text:p></presentation:notes></draw:page>"
    body = f"<office:presentation>{page.format('Tides', 'The moon.')}{page.format('Fees', '')}</office:presentation>"
    assert text_of(make_odf("presentation", body)) == "[slide 1]\nTides\n[notes]\nThe moon.\n\n[slide 2]\nFees"


# ---- books -----------------------------------------------------------------------------------------------------------


def make_epub(**more: str) -> bytes:
    items = "".join(
        f'<item id="{id}" href="{href}" media-type="{kind}"/>'
        for id, href, kind in (
            ("b", "two%20b.xhtml", "application/xhtml+xml"),
            ("a", "one.xhtml", "application/xhtml+xml"),
            ("css", "s.css", "text/css"),
            ("gone", "gone.xhtml", "text/html"),
        )
    )
    spine = "".join(f'<itemref idref="{id}"/>' for id in ("a", "b", "css", "gone", "unknown"))
    page = "<html><head><title>ch001.xhtml</title></head><body>{}</body></html>"
    return make_zip(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            "OEBPS/book.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
            "OEBPS/one.xhtml": page.format("<h1>Tides</h1><p>High at noon.</p>"),
            "OEBPS/two b.xhtml": page.format("<p>Low at six.</p>"),
            **more,
        }
    )


def locks(part: str) -> str:
    return f'<encryption><EncryptedData><CipherReference URI="{part}"/></EncryptedData></encryption>'


def test_a_book_is_read_chapter_by_chapter() -> None:
    assert text_of(make_epub()) == "# Tides\n\nHigh at noon.\n\nLow at six."
    assert text_of(make_epub(**{"META-INF/encryption.xml": locks("OEBPS/font.otf")})) == text_of(make_epub())
    assert read_for_model(make_epub()) == read(make_epub())


def test_a_book_that_is_locked_or_damaged_says_so() -> None:
    assert "password" in problem_of(make_epub(**{"META-INF/encryption.xml": locks("OEBPS/two%20b.xhtml")}))
    assert "damaged" in problem_of(make_epub(**{"META-INF/container.xml": "<container/>"}))
    assert "damaged" in problem_of(make_epub(**{"OEBPS/book.opf": "<package>"}))
    assert "more than 20 characters" in (read(make_epub(), longest=20).complaint or "")


# ---- workbooks and rich text -----------------------------------------------------------------------------------------


def test_a_percentage_is_shown_as_one() -> None:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    for number, code in ((0.5, "0%"), (0.0123, "0.00%"), (0.07, '0.0% "of all"'), (0.5, '0.0 "%"'), (3, "General")):
        sheet.append([number])
        sheet.cell(sheet.max_row, 1).number_format = code
    assert text_of(saved(workbook)) == "[sheet: Sheet]\n50%\n1.23%\n7%\n0.5\n3"


@pytest.mark.parametrize("mark", [b"\\*", b""])
def test_the_notes_of_rich_text_stand_where_they_are_referred_to(mark: bytes) -> None:
    note = b"{" + mark + b"\\footnote\\chftn{\\plain From six.}}"
    assert text_of(b"{\\rtf1 Pilots" + note + b" wait.}") == "Pilots [note: From six.] wait."
    assert text_of(b"{\\rtf1 Pilots{\\*\\unknown " + note + b"} wait.}") == "Pilots wait."


# ---- mails -----------------------------------------------------------------------------------------------------------


def mixed(*parts: bytes, head: bytes = b"") -> bytes:
    start = b'From: ann@example.com\n%bContent-Type: multipart/mixed; boundary="b"\n\n' % head
    return start + b"".join(b"--b\n" + part + b"\n" for part in parts) + b"--b--\n"


def test_all_texts_of_a_mail_are_read() -> None:
    mail = mixed(b"Content-Type: text/plain\n\nfirst", b"Content-Type: text/html\n\n<p>second", b"Content-Type: image/png\n\nx")
    assert text_of(mail, "a.eml") == "From: ann@example.com\n\nfirst\n\nsecond\n\n[attached: image/png]"


def test_a_mail_whose_last_boundary_is_broken_keeps_its_words() -> None:
    mail = mixed(b"Content-Type: text/html\n\n<p>words").removesuffix(b"--\n") + b"\n"
    assert text_of(mail, "a.eml") == "From: ann@example.com\n\nwords"


def test_html_is_read_where_the_plain_alternative_is_empty() -> None:
    mail = EmailMessage()
    mail["From"] = "ann@example.com"
    mail.set_content("\n")
    mail.add_alternative("<p>words</p>", subtype="html")
    assert text_of(mail.as_bytes(), "a.eml") == "From: ann@example.com\n\nwords"


def test_a_mail_inside_a_mail_is_read() -> None:
    inner = EmailMessage()
    inner["Subject"] = "Fees"
    inner.set_content("12 euros.")
    outer = EmailMessage()
    outer["Subject"] = "Fwd: Fees"
    outer.set_content("See below.")
    outer.add_attachment(inner)
    assert (
        text_of(outer.as_bytes(), "a.eml") == "Subject: Fwd: Fees\n\nSee below.\n\n[attached mail]\nSubject: Fees\n\n12 euros."
    )


def test_mails_inside_each_other_without_end_are_read_to_some_depth() -> None:
    mail = b"From: a@b.c\n" + b"Content-Type: message/rfc822\n\n" * 60 + b"Subject: x\n\ndeep"
    assert text_of(mail, "a.eml").count("[attached mail]") == 5


@pytest.mark.parametrize(
    ("charset", "encoding", "words"),
    [
        ("gb2312", "utf-8", "港口里的船"),
        ("gb2312", "gbk", "港口裏的船"),
        ("shift_jis", "cp932", "①港"),
        ("us-ascii", "cp1252", "Größe – 12 €"),
        ("unknown-8bit", "utf-8", "Größe"),
    ],
)
def test_the_encoding_that_a_mail_names_is_used_if_it_can_be_right(charset: str, encoding: str, words: str) -> None:
    head = f"From: ann@example.com\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
    assert text_of(head.encode() + words.encode(encoding), "a.eml") == f"From: ann@example.com\n\n{words}"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("ann@example.com <bob@example.com>", "ann@example.com <bob@example.com>"),
        ("=?utf-8?q?Gr=C3=B6=C3=9Fe?= <ann@example.com", "Größe <ann@example.com"),
        ("größe@example.com", "größe@example.com"),
        ("=?nonsense?q?x?= <", "=?nonsense?q?x?= <"),
    ],
)
def test_an_address_that_breaks_the_rules_is_shown_as_written(written: str, shown: str) -> None:
    assert text_of(f"From: {written}\n\nwords".encode(), "a.eml") == f"From: {shown}\n\nwords"


# ---- PDF -------------------------------------------------------------------------------------------------------------


def test_ligatures_of_a_pdf_are_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    import pypdf

    monkeypatch.setattr(pypdf.PageObject, "extract_text", lambda self: "misﬁts diﬀer, ﬂuﬃer")
    assert text_of(make_pdf("x")) == "[page 1]\nmisfits differ, fluffier"


def test_a_document_that_word_itself_would_write_is_unchanged() -> None:
    document = docx.Document()
    document.add_paragraph("plain")
    assert text_of(saved(document)) == "plain"
