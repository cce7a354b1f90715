"""The text of a presentation: slide by slide, with tables, charts, diagrams, what pictures show, and the speaker's notes."""

from antiphon.files.readers.flow import Flow, Markup, described
from antiphon.files.readers.office.charts import write_drawn
from antiphon.files.readers.office.zip_parts import ZipParts
from antiphon.files.readers.source import Source, TextParts
from antiphon.files.readers.xml_events import Attributes, read_xml

MARKUP = Markup(
    paragraphs=frozenset({"p"}),
    rows=frozenset({"tr"}),
    cells=frozenset({"tc"}),
    texts=frozenset({"t"}),
    characters={"br": "\n"},
    spaced=False,
    # A field is the number of the slide, or today's date.
    skipped=frozenset({"Fallback", "fld"}),
)
SLIDE = "[slide {number}]\n"
NOTES = "[notes]\n"


class SlideFlow(Flow):
    def element(self, name: str, attributes: Attributes) -> None:
        if name == "cNvPr" and (description := described(attributes)):
            self.line(description)


def read(source: Source, main: str, parts: ZipParts) -> str:
    text = TextParts(source)
    for number, slide in enumerate(_slides(main, parts), 1):
        shown = text.part()
        SlideFlow(MARKUP, shown).read(parts.open_or_empty(slide))
        write_drawn(parts, slide, shown)
        for kind, name in parts.relations(slide).values():
            if kind == "notesSlide":
                _write_notes(parts, name, shown)
        if written := shown.text():
            text.add(f"{SLIDE.format(number=number)}{written}\n")
    return text.text()


def _write_notes(parts: ZipParts, name: str, text: TextParts) -> None:
    notes = text.part()
    Flow(MARKUP, notes).read(parts.open_or_empty(name))
    if written := notes.text():
        text.add(NOTES + written)


def _slides(main: str, parts: ZipParts) -> list[str]:
    """In the order of the presentation, which is not that of their names."""
    relations = parts.relations(main)
    ids: list[str] = []

    def start(element: str, attributes: Attributes) -> None:
        if element == "sldId":
            # Its own id has no prefix; that of the relation has one.
            ids.extend(value for key, value in attributes.items() if ":" in key and key.endswith(":id"))

    read_xml(parts.open(main), start)
    return [relations[id][1] for id in dict.fromkeys(ids) if id in relations]
