"""Documents for the tests, made by the libraries that others use to make theirs; and OpenDocument files by hand."""

import zipfile
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from email.message import EmailMessage
from functools import cache
from io import BytesIO
from random import Random
from typing import Any

import docx
import openpyxl
import pptx
from docx.oxml import OxmlElement
from pptx.util import Inches


def saved(document: Any) -> bytes:
    file = BytesIO()
    document.save(file)
    return file.getvalue()


@cache
def make_docx() -> bytes:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Harbour office"
    document.sections[0].footer.paragraphs[0].text = "Page of the footer"
    document.add_heading("Rules of the harbour", 1)
    document.add_paragraph("Ships wait outside.")
    document.add_paragraph("Fly the flag", style="List Bullet")
    document.add_paragraph("Pay the fee", style="List Number")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), ("Ship", "Fee", "Sloop", "12 €"), strict=True):
        cell.text = text
    table.cell(1, 1).add_table(1, 1).cell(0, 0).text = "inner"
    last = document.add_paragraph("Closed\ton")
    last.add_run().add_break()
    last.add_run("Sundays & 漢字 👩‍👩‍👧")
    return saved(document)


@cache
def make_pptx() -> bytes:
    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Tides"
    first.placeholders[1].text = "High at noon\nLow at six"
    first.notes_slide.notes_text_frame.text = "Mention the moon."
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Fees"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for at, text in enumerate(("Ship", "Fee", "Sloop", "12")):
        table.cell(at // 2, at % 2).text = text
    # The order of the slides is not that of their names.
    slides = presentation.slides._sldIdLst
    slides.append(slides[0])
    return saved(presentation)


@cache
def make_xlsx() -> bytes:
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    assert sheet is not None
    sheet.title = "Fees"
    sheet.append(["Ship", "Fee", None, "Due"])
    sheet.append(["Sloop", 12.5, None, date(2026, 11, 16)])
    sheet.append(["Brig\nof oak", 0.1 + 0.2, None, datetime(2026, 2, 28, 13, 45, 10)])
    sheet.append([True, 10**9, None, time(6, 30)])
    sheet["B5"] = "=SUM(B2:B4)"
    other = workbook.create_sheet("Größen")
    other["XFD1048576"] = "far away"
    return saved(workbook)


def make_odt(*, locked: bool = False) -> bytes:
    content = """<?xml version="1.0"?><o:document-content xmlns:o="o" xmlns:text="t" xmlns:table="b"><o:body><o:text>
    <text:h text:outline-level="2">Tides</text:h><text:p>High<text:s text:c="2"/>at <text:span>noon</text:span></text:p>
    <text:tracked-changes><text:p>removed</text:p></text:tracked-changes>
    <table:table><table:table-row><table:table-cell><text:p>Ship</text:p></table:table-cell>
    <table:table-cell><text:p>Fee</text:p></table:table-cell></table:table-row></table:table></o:text></o:body></o:document-content>"""
    locks = '<m:encryption-data m:checksum="x"/>' if locked else ""
    return make_zip(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": content,
            "META-INF/manifest.xml": f'<m:manifest xmlns:m="m"><m:file-entry>{locks}</m:file-entry></m:manifest>',
        }
    )


def make_zip(parts: Mapping[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def make_office(kind: str, main: str, body: str | bytes, **more: str) -> bytes:
    """A file with the least that makes it a document of this kind."""
    relation = f'<Relationships><Relationship Id="r" Type="x/officeDocument" Target="{kind}/{main}"/></Relationships>'
    return make_zip({"_rels/.rels": relation, f"{kind}/{main}": body, **more})


@cache
def make_mail() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "ann@example.com", "bob@example.com", "Größe der Schiffe"
    mail.set_content("The sloop is small.\n")
    mail.add_alternative("<p>The <b>sloop</b> is small.</p>", subtype="html")
    mail.add_attachment(b"\0\1", maintype="application", subtype="octet-stream", filename="plan.bin")
    return mail.as_bytes()


def with_moved_text() -> bytes:
    """A document with text that was deleted, and a field with its code."""
    document = docx.Document()
    paragraph = document.add_paragraph("kept")
    for name in ("w:del", "w:moveFrom"):
        removed = OxmlElement(name)
        run = OxmlElement("w:r")
        text = OxmlElement("w:t")
        text.text = "removed"
        run.append(text)
        removed.append(run)
        paragraph._p.append(removed)
    return saved(document)


RTF = rb"""{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator Word;}\f0 Gr\'f6\'dfe \b of\b0  ships\par
\u28450?\u23383?\tab{\pict 89504e47}end \{braces\}\par \u-10179?\u-8703?}"""
HTML = b"""<!DOCTYPE html><html><head><title>Tides</title><style>p {color: red}</style></head><body>
<script>var hidden = 1;</script><h2>High  water</h2><p>It comes at
<b>noon</b>.<br>Then it goes.</p><ul><li>one<li>two</ul><table><tr><th>Ship<th>Fee<tr><td>Sloop<td>12 &euro;</table>
<pre>a  b
c</pre><img src=x alt="a chart"></body></html>"""

MADE: dict[str, Callable[[], bytes]] = {
    "a.docx": make_docx,
    "a.pptx": make_pptx,
    "a.xlsx": make_xlsx,
    "a.odt": make_odt,
    "a.eml": make_mail,
    "a.rtf": lambda: RTF,
    "a.html": lambda: HTML,
}


def make_ole(content: bytes) -> bytes:
    """How files of old office programs begin, and new ones with a password."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + content


def with_damaged_part(document: bytes, part: str, dice: Random) -> bytes:
    with zipfile.ZipFile(BytesIO(document)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    damaged = bytearray(parts[part])
    for _ in range(dice.choice((1, 1, 5))):
        damaged[dice.randrange(len(damaged))] = dice.choice(b'<>/&;"=aw: \0\xff')
    return make_zip({**parts, part: bytes(damaged)})
